#include "support/program/terminal_screen.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace ridgepoint::testing {
namespace {

class Screen {
 public:
  void put(char c) {
    std::string& line = lines_[row_];
    if (line.size() <= column_) line.resize(column_ + 1, ' ');
    line[column_++] = c;
  }
  void begin_line() { column_ = 0; }
  void next_line() {
    column_ = 0;
    if (++row_ == lines_.size()) lines_.emplace_back();
  }
  void control(char what, std::size_t count) {
    if (what == 'A') row_ -= std::min(row_, std::max<std::size_t>(count, 1));
    if (what == 'K' || what == 'J') lines_[row_].resize(std::min(lines_[row_].size(), column_));
    if (what == 'J') lines_.resize(row_ + 1);
    if (what != 'A' && what != 'K' && what != 'J') throw std::invalid_argument("an unknown sequence of a terminal");
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines = lines_;
    if (lines.back().empty()) lines.pop_back();
    return lines;
  }

 private:
  std::vector<std::string> lines_ = {""};
  std::size_t row_ = 0, column_ = 0;
};

}  // namespace

std::vector<std::string> terminal_screen(const std::string& received) {
  Screen screen;
  for (std::size_t i = 0; i < received.size(); ++i) {
    const char c = received[i];
    if (c == '\r') {
      screen.begin_line();
    } else if (c == '\n') {
      screen.next_line();
    } else if (received.compare(i, 2, "\x1b[") == 0) {
      const std::size_t end = received.find_first_not_of("0123456789", i + 2);
      const std::string count = received.substr(i + 2, end - i - 2);
      screen.control(received.at(end), count.empty() ? 0 : std::stoul(count));
      i = end;
    } else {
      screen.put(c);
    }
  }
  return screen.lines();
}

}  // namespace ridgepoint::testing
