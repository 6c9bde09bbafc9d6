#include "cli/options/percent.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "ridgepoint/error.h"

namespace ridgepoint::cli {

double parse_share(std::string_view flag, const std::string& text, double least, double most) {
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stop + 1 != end || *stop != '%')
    throw Error(fmt::format("{}: '{}' is not a percentage; write it as 3% or 0.5%", flag, text), ErrorKind::usage);
  const double share = percent / 100;
  if (!(share >= least && share <= most)) {
    throw Error(fmt::format("{}: '{}' is not between {:g}% and {:g}%", flag, text, least * 100, most * 100),
                ErrorKind::usage);
  }
  return share;
}

}  // namespace ridgepoint::cli
