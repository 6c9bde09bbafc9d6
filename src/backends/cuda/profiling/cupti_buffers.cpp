#include "backends/cuda/profiling/cupti_buffers.h"

#include <new>
#include <utility>

namespace ridgepoint::cuda {
CuptiBuffers::CuptiBuffers() {
  for (std::size_t i = 0; i < kReady; ++i) {
    spare_.push_back(std::make_unique<std::uint64_t[]>(kBytes / sizeof(std::uint64_t)));
  }
}

CuptiBuffers& CuptiBuffers::only_one() {
  static auto* const buffers = new CuptiBuffers;
  return *buffers;
}

CuptiBuffers& CuptiBuffers::instance() {
  static const bool registered = [] {
    check(cupti(), cupti().cuptiActivityRegisterCallbacks(requested, completed), "register callbacks for its buffers");
    return true;
  }();
  static_cast<void>(registered);
  return only_one();
}

// CUPTI calls this, so nothing may be thrown. Without a buffer CUPTI drops records and counts them.
void CuptiBuffers::requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  CuptiBuffers& self = only_one();
  *most_records = 0;  // no limit but the buffer's size
  *size = kBytes;
  const std::lock_guard lock(self.mutex_);
  if (self.spare_.empty()) {
    *buffer = reinterpret_cast<std::uint8_t*>(new (std::nothrow) std::uint64_t[kBytes / sizeof(std::uint64_t)]());
  } else {
    *buffer = reinterpret_cast<std::uint8_t*>(self.spare_.back().release());
    self.spare_.pop_back();
  }
}

void CuptiBuffers::completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  CuptiBuffers& self = only_one();
  std::size_t dropped = 0;
  if (cupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
  std::unique_ptr<std::uint64_t[]> memory(reinterpret_cast<std::uint64_t*>(buffer));
  const std::lock_guard lock(self.mutex_);
  self.dropped_ += dropped;
  if (valid_bytes > 0) {
    self.filled_.push_back({std::move(memory), valid_bytes});
  } else {
    self.spare_.push_back(std::move(memory));
  }
}

std::vector<CuptiBuffers::Filled> CuptiBuffers::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(filled_, {});
}

std::uint64_t CuptiBuffers::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

void CuptiBuffers::give_back(std::vector<Filled> buffers) {
  const std::lock_guard lock(mutex_);
  for (Filled& buffer : buffers) spare_.push_back(std::move(buffer.memory));
}

}  // namespace ridgepoint::cuda
