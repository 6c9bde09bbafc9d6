#include "cli/terminal/growing_page.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/terminal/messages.h"
#include "cli/terminal/standard_streams.h"

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

std::string up(std::string_view drawn) { return fmt::format("\x1b[{}A", std::ranges::count(drawn, '\n')); }

// Before its text: behind a line as wide as the terminal this would erase the last character.
std::string written_over(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text.append("\x1b[K").append(lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return text;
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

bool draws_where_errors_go() {
  struct stat output {};
  struct stat errors {};
  return !drawn_page().empty() && ::isatty(STDERR_FILENO) != 0 && ::fstat(STDOUT_FILENO, &output) == 0 &&
         ::fstat(STDERR_FILENO, &errors) == 0 && output.st_rdev == errors.st_rdev;
}

void print_above_page(const std::string& lines) {
  if (!draws_where_errors_go()) {
    write_to_standard_error(lines);
    return;
  }
  const Insertion insertion = inserted_above(drawn_page(), lines);
  print_output(insertion.back);
  write_to_standard_error(insertion.lines);
  print_output(insertion.page);
}

std::string redrawn(const std::string& drawn, const std::string& page, std::size_t rows) {
  const std::string_view shown = last_lines(page, rows);
  return drawn.empty() ? std::string(shown) : up(drawn) + written_over(shown) + "\x1b[J";
}

Insertion inserted_above(const std::string& drawn, const std::string& lines) {
  return {up(drawn), written_over(lines), written_over(drawn) + "\x1b[J"};
}

}  // namespace ridgepoint::cli
