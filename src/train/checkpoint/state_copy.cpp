#include "train/checkpoint/state_copy.h"

#include <algorithm>
#include <cstring>

#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::train {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kOfLibrariesBytes = std::size_t{512} << 20;

std::size_t less(std::size_t a, std::size_t b) { return a - std::min(a, b); }

}  // namespace

std::size_t room_of_copy(const DeviceUse& use) {
  return std::min(less(use.total, use.peak + kOfLibrariesBytes),
                  less(use.available, less(use.peak, use.reserved) + kOfLibrariesBytes));
}

// The first rank writes the weights of the model, and unpacks packed weights for that.
bool StateCopy::is_of_first_rank(const StatePart& part) { return part.is_parameter || part.is_packed; }

StateCopy::StateCopy(Program& program, std::size_t rank, std::size_t ranks, std::size_t room_bytes)
    : program_(program), parts_(program.state_parts()), copies_(program.device().make_copies()) {
  choose_places(rank, ranks);
  make_host_memory();
  make_file();
  if (needed_device_bytes() > 0 && bytes_of_device_ <= room_bytes)
    on_device_ = static_cast<std::byte*>(program.device().allocate_memory(bytes_of_device_));
}

StateCopy::~StateCopy() {
  if (on_device_ != nullptr) program_.device().release_memory(on_device_, bytes_of_device_);
}

// Each rank copies its parts of divided tensors. The first rank copies all other parameters, and the rank with the
// least bytes so far the next state. All ranks compute the same assignment.
void StateCopy::choose_places(std::size_t rank, std::size_t ranks) {
  std::vector<std::uint64_t> loads(ranks);
  for (const StatePart& part : parts_) {
    if (is_of_first_rank(part) && !part.is_divided) loads[0] += part.bytes();
  }
  std::vector<std::size_t> on_host;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const StatePart& part = parts_[i];
    std::size_t by = rank;
    if (!part.is_divided) {
      by = is_of_first_rank(part) ? 0 : static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
      if (!is_of_first_rank(part)) loads[by] += part.bytes();
    }
    if (by != rank || part.begin == part.end) continue;
    if (part.is_on_host) {
      on_host.push_back(i);
    } else {
      add_place(i, memory_bytes_, kAlignment);
    }
  }
  bytes_of_device_ = memory_bytes_;
  for (const std::size_t part : on_host) {
    if (parts_[part].is_on_disk) {
      add_place(part, bytes_of_file_, kFileBlockBytes);
    } else {
      add_place(part, memory_bytes_, kAlignment);
    }
  }
}

void StateCopy::add_place(std::size_t part, std::size_t& end, std::size_t alignment) {
  const std::size_t bytes = parts_[part].bytes();
  place_of_[parts_[part].name] = places_.size();
  places_.push_back({part, end, bytes});
  end += round_up(bytes, alignment);
}

void StateCopy::make_file() {
  if (bytes_of_file_ == 0) return;
  for (const Place& place : places_) {
    if (parts_[place.part].is_on_disk) of_file_.resize(std::max(of_file_.size(), place.bytes));
  }
  file_ = std::make_unique<OffloadFile>(program_.offload_folder(), bytes_of_file_);
  std::shared_ptr<std::byte> staging = program_.device().allocate_host(kStagingBytes);
  if (staging == nullptr) throw Error("the system gives no memory for copies of states on disk");
  file_->set_staging(std::move(staging));
}

// Its pages exist before the first take(), which would wait for them.
void StateCopy::make_host_memory() {
  memory_ = std::make_unique_for_overwrite<std::byte[]>(memory_bytes_);
  parallel_for(static_cast<std::int64_t>(memory_bytes_), std::int64_t{1} << 24,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memset(memory_.get() + begin, 0, static_cast<std::size_t>(end - begin));
               });
  locked_ = program_.device().lock_pages({memory_.get(), bytes_of_device_});
}

std::vector<const StatePart*> StateCopy::written() const {
  std::vector<const StatePart*> written;
  for (const StatePart& part : parts_) {
    if (place_of_.contains(part.name)) written.push_back(&part);
  }
  return written;
}

void StateCopy::take() {
  program_.synchronize();
  for (const Place& place : places_) {
    const StatePart& part = parts_[place.part];
    if (part.is_on_disk) {
      const std::span bytes = std::span(of_file_).first(place.bytes);
      program_.read_part(part, bytes);
      file_->write(OffloadFile::address_of(place.offset), bytes);
    } else if (on_device_ != nullptr && !part.is_on_host) {
      program_.copy_part(part, *copies_, on_device_ + place.offset);
    } else {
      program_.read_part(part, {memory_.get() + place.offset, place.bytes});
    }
  }
  if (on_device_ != nullptr) program_.synchronize();  // so that the wait counts as that for the checkpoint
}

void StateCopy::bring() {
  if (on_device_ == nullptr) return;
  copies_->copy_to_host(memory_.get(), on_device_, bytes_of_device_);
  for (const Place& place : places_) {
    const StatePart& part = parts_[place.part];
    if (!part.is_on_host) join_copied(part, {memory_.get() + place.offset, place.bytes});
  }
}

std::span<const std::byte> StateCopy::bytes(const std::string& name) const {
  const auto found = place_of_.find(name);
  if (found == place_of_.end()) return {};
  const Place& place = places_[found->second];
  if (parts_[place.part].is_on_disk) {
    const std::span into = std::span(of_file_).first(place.bytes);
    file_->read(OffloadFile::address_of(place.offset), into);
    return into;
  }
  return {memory_.get() + place.offset, place.bytes};
}

}  // namespace ridgepoint::train
