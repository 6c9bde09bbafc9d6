#include "cli/terminal/growing_page.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/terminal/output.h"

namespace ridgepoint::cli {
namespace {

std::string& drawn_page() {
  static std::string page;
  return page;
}

// 0: not known.
std::size_t terminal_rows() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

std::string_view last_lines(std::string_view page, std::size_t count) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(page, '\n'));
  for (std::size_t i = count; i < lines; ++i) page.remove_prefix(page.find('\n') + 1);
  return page;
}

void draw(const std::string& page, std::size_t rows) {
  if (page == drawn_page()) return;
  print_output(redrawn(drawn_page(), page, rows));
  drawn_page() = last_lines(page, rows);
}

}  // namespace

bool can_draw_pages() {
  const char* terminal = std::getenv("TERM");
  const bool has_cursor = terminal != nullptr && *terminal != 0 && std::string_view(terminal) != "dumb";
  return has_cursor && ::isatty(STDOUT_FILENO) != 0 && terminal_rows() > 1;
}

// The line below the page is that of the progress.
void draw_page(const std::string& page) { draw(page, terminal_rows() - 1); }

void draw_last_page(const std::string& page) {
  draw(page, SIZE_MAX);
  leave_drawn_page();
}

void leave_drawn_page() { drawn_page().clear(); }

std::string redrawn(const std::string& drawn, const std::string& page, std::size_t rows) {
  const auto lines = std::ranges::count(drawn, '\n');
  std::string_view rest = last_lines(page, rows);
  if (lines == 0) return std::string(rest);
  std::string text = fmt::format("\x1b[{}A", lines);
  while (!rest.empty()) {
    // Before its text: behind a line as wide as the terminal this would erase the last character.
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    text.append("\x1b[K").append(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return text + "\x1b[J";
}

}  // namespace ridgepoint::cli
