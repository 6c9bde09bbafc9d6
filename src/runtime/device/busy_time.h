// The time in which at least one of several kernels runs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ridgepoint {

// Within [begin_ns, end_ns). Kernels come in order of their start, and may run side by side.
class BusyTime {
 public:
  BusyTime(std::int64_t begin_ns, std::int64_t end_ns) : until_ns_(begin_ns), end_ns_(end_ns) {}

  struct Added {
    std::int64_t gap_ns = 0;   // before the kernel, in which none ran
    std::int64_t busy_ns = 0;  // in which it ran, and no earlier one
  };
  Added add(std::int64_t start_ns, std::int64_t duration_ns) {
    const std::int64_t begin_ns = std::clamp(start_ns, until_ns_, end_ns_);
    const std::int64_t finish_ns = std::clamp(start_ns + duration_ns, begin_ns, end_ns_);
    const Added added{begin_ns - until_ns_, finish_ns - begin_ns};
    busy_ns_ += added.busy_ns;
    until_ns_ = finish_ns;
    return added;
  }

  std::int64_t busy_ns() const { return busy_ns_; }
  // The end of the last kernel so far.
  std::int64_t until_ns() const { return until_ns_; }
  // After the last kernel.
  std::int64_t rest_ns() const { return end_ns_ - until_ns_; }

 private:
  std::int64_t until_ns_;
  std::int64_t end_ns_;
  std::int64_t busy_ns_ = 0;
};

}  // namespace ridgepoint
