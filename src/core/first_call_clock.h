// Where the time to the end of a first run goes. A clock belongs to a thread; code anywhere says by an InStage which
// stage it belongs to. Without a clock, an InStage does nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ridgepoint {

// context: the device is opened. graph: the workload builds its graph. passes: the graph is compiled. plan: schedule,
// buffers and the forecast of memory. libraries: shared libraries are loaded and started. kernels: kernels are made or
// awaited, and their code is loaded. choices: algorithms are measured. memory: the buffers that stay are allocated.
// initial_values: parameters and data are made and written. first_run: the run itself. other: the rest.
enum class FirstCallStage : std::uint8_t {
  context,
  graph,
  passes,
  plan,
  libraries,
  kernels,
  choices,
  memory,
  initial_values,
  first_run,
  other
};
inline constexpr std::size_t kFirstCallStages = 11;

// Runs from construction to destruction, for the thread that constructs it; one at a time on a thread.
class FirstCallClock {
 public:
  FirstCallClock() { current_ = this; }
  ~FirstCallClock() { current_ = nullptr; }
  FirstCallClock(const FirstCallClock&) = delete;
  FirstCallClock& operator=(const FirstCallClock&) = delete;

  // The time of every stage so far in milliseconds, by the number of the stage. Time in a stage within another one
  // counts for the inner one alone, so that the sum is the time since construction.
  std::array<double, kFirstCallStages> elapsed_ms() {
    enter(stage_);
    return elapsed_ms_;
  }

 private:
  friend class InStage;
  using Clock = std::chrono::steady_clock;

  // Returns the stage that it leaves.
  FirstCallStage enter(FirstCallStage stage) {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double, std::milli> elapsed = now - std::exchange(since_, now);
    elapsed_ms_[static_cast<std::size_t>(stage_)] += elapsed.count();
    return std::exchange(stage_, stage);
  }

  static constinit inline thread_local FirstCallClock* current_ = nullptr;

  FirstCallStage stage_ = FirstCallStage::other;
  Clock::time_point since_ = Clock::now();
  std::array<double, kFirstCallStages> elapsed_ms_{};
};

// The code from here to the end of the scope belongs to the stage.
class InStage {
 public:
  explicit InStage(FirstCallStage stage) : clock_(FirstCallClock::current_) {
    if (clock_ != nullptr) outer_ = clock_->enter(stage);
  }
  ~InStage() {
    if (clock_ != nullptr) clock_->enter(outer_);
  }
  InStage(const InStage&) = delete;
  InStage& operator=(const InStage&) = delete;

 private:
  FirstCallClock* clock_;
  FirstCallStage outer_ = FirstCallStage::other;
};

}  // namespace ridgepoint
