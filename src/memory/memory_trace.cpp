#include "memory/memory_trace.h"

#include <chrono>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

template <typename Clock>
std::int64_t time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

MemoryTrace::MemoryTrace(std::size_t capacity)
    : ring_(capacity),
      start_steady_ns_(time_ns<std::chrono::steady_clock>()),
      start_unix_ns_(time_ns<std::chrono::system_clock>()) {
  if (capacity == 0) throw Error("the capacity of a memory trace is 0; it must be at least 1", ErrorKind::usage);
}

std::int64_t MemoryTrace::now_ns() const { return time_ns<std::chrono::steady_clock>() - start_steady_ns_; }

void MemoryTrace::record(MemoryEvent event) {
  event.time_ns = now_ns();
  ring_[next_] = event;
  next_ = next_ + 1 == ring_.size() ? 0 : next_ + 1;
  if (size_ == ring_.size()) {
    ++dropped_;
  } else {
    ++size_;
  }
}

const MemoryEvent& MemoryTrace::operator[](std::size_t index) const {
  const std::size_t oldest = size_ == ring_.size() ? next_ : 0;
  const std::size_t position = oldest + index;
  return ring_[position < ring_.size() ? position : position - ring_.size()];
}

void MemoryTrace::clear() {
  next_ = 0;
  size_ = 0;
  dropped_ = 0;
}

}  // namespace ridgepoint
