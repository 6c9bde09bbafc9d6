// Errors with a formatted message.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "ridgepoint/core/error.h"

namespace ridgepoint {

// Throws Error.
template <typename... Args>
[[noreturn]] void throw_error(ErrorKind kind, fmt::format_string<Args...> message, Args&&... args) {
  throw Error(fmt::format(message, std::forward<Args>(args)...), kind);
}
template <typename... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> message, Args&&... args) {
  throw_error(ErrorKind::failure, message, std::forward<Args>(args)...);
}

}  // namespace ridgepoint
