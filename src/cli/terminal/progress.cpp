#include "cli/terminal/progress.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include "cli/terminal/host.h"
#include "cli/terminal/standard_streams.h"
#include "cli/terminal/width.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

using tables::display_width;
using tables::first_columns;

constexpr std::chrono::milliseconds kLeastBetweenDraws{100};
constexpr std::chrono::seconds kTick{1};
constexpr std::size_t kBarColumns = 20;
constexpr std::size_t kLeastWhatColumns = 12;
// Below this share an estimate of the remaining time is too inaccurate.
constexpr double kLeastShareForEstimate = 0.01;

bool terminal_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != 0) {
      const std::string_view locale = value;
      return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
    }
  }
  return false;
}

std::size_t error_terminal_width() {
  const std::size_t width = terminal_width(STDERR_FILENO);
  return width == SIZE_MAX ? 80 : width;
}

std::string bar(double done, bool utf8) {
  const auto full = static_cast<std::size_t>(std::lround(done * kBarColumns));
  std::string text;
  for (std::size_t i = 0; i < kBarColumns; ++i) {
    if (utf8) {
      text += i < full ? "\u2588" : "\u2591";
    } else {
      text += i < full ? '#' : '.';
    }
  }
  return text;
}

std::string clock_text(const ProgressState& state) {
  std::string text = format_duration(state.elapsed_seconds);
  if (state.done >= kLeastShareForEstimate && state.done < 1) {
    text += " eta " + format_duration(state.elapsed_seconds * (1 - state.done) / state.done);
  }
  return text;
}

// The reader of a pipe (a pager) may write to this terminal at any time.
bool output_is_piped() {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

bool is_shown() {
  if (const Host* const other = host()) return static_cast<bool>(other->show_progress);
  return ::isatty(STDERR_FILENO) != 0 && !output_is_piped();
}

void show(const std::string& line) {
  if (const Host* const other = host()) return other->show_progress(line);
  // Erasing the end of a longer line after writing, not before, avoids flicker.
  write_to_standard_error("\r" + line + "\x1b[K");
}

}  // namespace

std::string progress_line(const ProgressState& state, std::size_t width, bool utf8) {
  const std::size_t room = std::max<std::size_t>(width, 1) - 1;
  const std::string row = fmt::format("{}/{} ", state.row + 1, state.rows);
  const std::string tail = fmt::format("  {}  {}", state.stage, clock_text(state));
  const std::size_t fixed = display_width(row) + display_width(tail);
  if (fixed + display_width(state.what) + kBarColumns + 1 <= room) {
    return bar(state.done, utf8) + " " + row + state.what + tail;
  }
  if (fixed + kLeastWhatColumns <= room) return row + std::string(first_columns(state.what, room - fixed)) + tail;
  return std::string(first_columns(row + tail.substr(2), room));
}

Progress::Progress(std::vector<double> costs)
    : enabled_(is_shown()), utf8_(terminal_is_utf8()), costs_(std::move(costs)) {
  total_cost_ = std::accumulate(costs_.begin(), costs_.end(), 0.0);
  state_.rows = costs_.size();
  if (enabled_) ticker_ = std::thread([this] { tick(); });
}

Progress::~Progress() {
  if (ticker_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    ticker_.join();
  }
  clear();
}

void Progress::start_row(std::size_t row, std::string what) {
  const std::scoped_lock lock(mutex_);
  state_.row = row;
  state_.what = printable(what);
  state_.stage.clear();
  cost_before_row_ = std::accumulate(costs_.begin(), costs_.begin() + static_cast<std::ptrdiff_t>(row), 0.0);
}

void Progress::update(std::string stage, double share) {
  if (!enabled_) return;
  const std::scoped_lock lock(mutex_);
  state_.stage = std::move(stage);
  const double cost = cost_before_row_ + costs_[state_.row] * share;
  state_.done = total_cost_ > 0 ? std::clamp(cost / total_cost_, 0.0, 1.0) : 0;
  if (visible_ && Clock::now() - last_drawn_ < kLeastBetweenDraws) return;
  draw();
}

void Progress::clear() {
  const std::scoped_lock lock(mutex_);
  if (visible_) show("");
  visible_ = false;
}

void Progress::draw() {
  last_drawn_ = Clock::now();
  state_.elapsed_seconds = std::chrono::duration<double>(last_drawn_ - begin_).count();
  show(progress_line(state_, error_terminal_width(), utf8_));
  visible_ = true;
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kTick, [this] { return ends_; })) {
    if (visible_) draw();
  }
}

}  // namespace ridgepoint::cli
