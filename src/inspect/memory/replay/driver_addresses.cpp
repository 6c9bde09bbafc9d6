#include "inspect/memory/replay/driver_addresses.h"

#include <algorithm>
#include <iterator>

#include "core/rounding.h"
#include "memory/segment_sizes.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
constexpr std::uint64_t kChunkBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kOrigin = std::uint64_t{1} << 62;  // of addresses, so that there is room below them
constexpr std::size_t kMostSearched = 4096;

}  // namespace

DriverAddresses::DriverAddresses(const std::vector<RecordedSegment>& recorded,
                                 std::optional<std::uint64_t> capacity_bytes)
    : total_bytes_(capacity_bytes.value_or(kMostBytes >> 10)), recorded_(recorded) {}

void* DriverAddresses::allocate_memory(std::size_t bytes) {
  std::uintptr_t address = follows_ ? next_recorded(bytes) : 0;
  if (address == 0) {
    if (follows_) stop_following();
    address = from_hole(bytes);
  }
  if (address == 0) address = from_new_chunk(bytes);
  if (address != 0) given_.emplace(address, bytes);
  return reinterpret_cast<void*>(address);
}

void DriverAddresses::release_memory(void* place, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  given_.erase(address);
  if (follows_) return;
  const auto chunk = std::prev(chunks_.upper_bound(address));
  auto hole = holes_.emplace(address, bytes).first;
  const auto join = [&](auto left, auto right) {
    left->second += right->second;
    holes_.erase(right);
    return left;
  };
  if (const auto next = std::next(hole);
      next != holes_.end() && next->first < chunk->second && hole->first + hole->second == next->first)
    join(hole, next);
  if (hole != holes_.begin()) {
    const auto before = std::prev(hole);
    if (before->first >= chunk->first && before->first + before->second == hole->first) hole = join(before, hole);
  }
  if (hole->first != chunk->first || hole->first + hole->second != chunk->second) return;
  holes_.erase(hole);
  chunks_.erase(chunk);
}

// 0: the recorded run asked for another one, or its address cannot be.
std::uintptr_t DriverAddresses::next_recorded(std::size_t bytes) {
  if (next_ == recorded_.size()) return 0;
  const RecordedSegment& segment = recorded_[next_];
  if (segment.bytes != bytes || segment.address % kBlockBytes != 0 || segment.address > kMostBytes / 2) return 0;
  const std::uintptr_t address = kOrigin + segment.address;
  const auto after = given_.lower_bound(address);
  if (after != given_.end() && after->first - address < bytes) return 0;
  if (after != given_.begin() && address - std::prev(after)->first < std::prev(after)->second) return 0;
  ++next_;
  return address;
}

void DriverAddresses::stop_following() {
  follows_ = false;
  // What the recorded run took later, above the lowest address so far, was free already.
  std::map<std::uintptr_t, std::size_t> known = given_;
  for (std::size_t i = next_; i < recorded_.size() && !given_.empty(); ++i) {
    const std::uint64_t address = recorded_[i].address;
    if (address <= kMostBytes / 2 && recorded_[i].bytes <= kMostBytes / 2 && kOrigin + address > given_.begin()->first)
      known.emplace(kOrigin + address, recorded_[i].bytes);
  }
  for (const auto& [address, bytes] : known) {
    const std::uintptr_t begin = address / kChunkBytes * kChunkBytes;
    const std::uintptr_t end = round_up(address + bytes, kChunkBytes);
    if (!chunks_.empty() && begin <= chunks_.rbegin()->second) {
      chunks_.rbegin()->second = std::max(chunks_.rbegin()->second, end);
    } else {
      chunks_.emplace(begin, end);
    }
  }
  for (const auto& [begin, end] : chunks_) {
    std::uintptr_t place = begin;
    for (auto taken = given_.lower_bound(begin); taken != given_.end() && taken->first < end; ++taken) {
      if (taken->first > place) holes_.emplace(place, taken->first - place);
      place = taken->first + taken->second;
    }
    if (end > place) holes_.emplace(place, end - place);
  }
}

std::uintptr_t DriverAddresses::from_hole(std::size_t bytes) {
  std::size_t searched = 0;
  for (auto hole = holes_.begin(); hole != holes_.end() && searched < kMostSearched; ++hole, ++searched) {
    if (hole->second < bytes) continue;
    const auto [address, size] = *hole;
    holes_.erase(hole);
    if (size > bytes) holes_.emplace(address + bytes, size - bytes);
    return address;
  }
  return 0;
}

std::uintptr_t DriverAddresses::from_new_chunk(std::size_t bytes) {
  if (bytes > kMostBytes) return 0;
  const std::uint64_t size = round_up(bytes, kChunkBytes);
  std::uintptr_t end = chunks_.empty() ? kOrigin : 0;
  std::size_t searched = 0;
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend() && end == 0; ++chunk, ++searched) {
    const auto below = std::next(chunk);
    const bool is_last = below == chunks_.rend() || searched == kMostSearched;
    if (is_last || chunk->first - below->second >= size) end = is_last ? chunks_.begin()->first : chunk->first;
  }
  if (end - size < kOrigin - kMostBytes) return 0;
  chunks_.emplace(end - size, end);
  if (size > bytes) holes_.emplace(end - size + bytes, size - bytes);
  return end - size;
}

}  // namespace ridgepoint
