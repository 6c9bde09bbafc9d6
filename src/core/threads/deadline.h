// Calls a function where a piece of work takes longer than it may.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace ridgepoint {

// From the constructor on there is a time limit. If the object still exists then, `late` is called once, on a thread of
// its own, and the destructor waits for it.
class Deadline {
 public:
  Deadline(std::chrono::duration<double> limit, std::function<void()> late)
      : thread_([this, limit, late = std::move(late)] {
          std::unique_lock lock(mutex_);
          if (!met_.wait_for(lock, limit, [this] { return is_met_; })) late();
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_met_ = true;
    }
    met_.notify_one();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool is_met_ = false;
  std::thread thread_;
};

}  // namespace ridgepoint
