// The progress line on standard error: what is running and the estimated remaining time. It is drawn only on a
// terminal, and not while standard output is a pipe, whose reader may print to the same terminal. A host (host.h) shows
// it in its own way, or not at all. It is redrawn at most ten times a second and at least every second, fits the
// terminal's width, and is erased at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ridgepoint::cli {

// The content of the line.
struct ProgressState {
  std::size_t row = 0;  // from 0
  std::size_t rows = 1;
  std::string what;   // "small step batch 4 context 256"
  std::string stage;  // "warm-up 2/5"
  double done = 0;    // share of all work, 0..1
  double elapsed_seconds = 0;
};

// The line for a terminal of `width` columns, at most width - 1 long: a narrow terminal omits the bar first, then the
// end of `what`, then the rest from the right.
std::string progress_line(const ProgressState& state, std::size_t width, bool utf8);

class Progress {
 public:
  // `costs`: the expected time of each row in any unit, for the estimate of the remaining time.
  explicit Progress(std::vector<double> costs);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void start_row(std::size_t row, std::string what);
  // `share` of this row is done.
  void update(std::string stage, double share);
  void clear();  // call it before printing anything else; the next update draws the line again

 private:
  using Clock = std::chrono::steady_clock;
  void draw();  // the mutex is held
  void tick();

  bool enabled_;
  bool utf8_;
  std::vector<double> costs_;
  double total_cost_ = 0;
  double cost_before_row_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_drawn_;
  ProgressState state_;
  bool visible_ = false;
  std::mutex mutex_;
  bool ends_ = false;
  std::condition_variable wake_;
  std::thread ticker_;  // updates the clock in the line during long iterations
};

}  // namespace ridgepoint::cli
