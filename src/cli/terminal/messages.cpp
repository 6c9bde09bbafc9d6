#include "cli/terminal/messages.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "cli/terminal/growing_page.h"
#include "cli/terminal/host.h"
#include "cli/terminal/standard_streams.h"
#include "cli/terminal/width.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "tables/table/wrap.h"

namespace ridgepoint::cli {
namespace {

std::string& speaker() {
  static std::string name;
  return name;
}

std::string error_lines(std::string_view message) {
  const std::string name = speaker().empty() ? "" : fmt::format(" {}:", speaker());
  const std::string text = printable_lines(fmt::format("ridgepoint:{} {}", name, message));
  return tables::wrap(text, terminal_width(STDERR_FILENO), 2) + "\n";
}

}  // namespace

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(message, ErrorKind::usage);
}

void print_output(std::string_view text) {
  if (Host* const other = host()) {
    other->output += text;
    return;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw_error("cannot write to standard output: {}", std::generic_category().message(errno));
}

void print_error(std::string_view message) {
  if (Host* const other = host()) return other->say(message);
  if (draws_where_errors_go()) leave_drawn_page();
  write_to_standard_error(error_lines(message));
}

void print_warning(std::string_view message) {
  if (Host* const other = host()) return other->say(message);
  print_above_page(error_lines(fmt::format("warning: {}", message)));
}

void name_speaker(std::string name) { speaker() = std::move(name); }

}  // namespace ridgepoint::cli
