// Calls a function where a piece of work takes longer than it may.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ridgepoint {

// From the constructor on there is a time limit. If the object still exists then, `late` is called once, on a thread of
// its own, and the destructor waits for it.
class Deadline {
 public:
  Deadline(std::chrono::duration<double> limit, std::function<void()> late);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool is_met_ = false;
  std::thread thread_;
};

}  // namespace ridgepoint
