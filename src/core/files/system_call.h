// System calls on files: retries after a signal, and failures as Error.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "ridgepoint/error.h"

namespace ridgepoint {

// Repeats a system call that a signal interrupted.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] inline void throw_system_error(std::string_view action, const std::filesystem::path& path, int error) {
  throw Error("cannot " + std::string(action) + " '" + path.string() + "': " + std::generic_category().message(error));
}

}  // namespace ridgepoint
