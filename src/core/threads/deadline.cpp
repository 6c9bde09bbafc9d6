#include "core/threads/deadline.h"

#include <utility>

namespace ridgepoint {

Deadline::Deadline(std::chrono::duration<double> limit, std::function<void()> late)
    : thread_([this, limit, late = std::move(late)] {
        std::unique_lock lock(mutex_);
        if (!met_.wait_for(lock, limit, [this] { return is_met_; })) late();
      }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    is_met_ = true;
  }
  met_.notify_one();
  thread_.join();
}

}  // namespace ridgepoint
