#include "cli/terminal/width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace ridgepoint::cli {

std::size_t terminal_width(int descriptor) {
  winsize size{};
  const bool has_width = ::isatty(descriptor) != 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return has_width ? size.ws_col : SIZE_MAX;
}

std::size_t output_width() { return terminal_width(STDOUT_FILENO); }
std::size_t page_width() { return std::min<std::size_t>(100, output_width()); }

}  // namespace ridgepoint::cli
