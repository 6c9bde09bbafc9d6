// System calls on files: retries after a signal, failures as Error, and descriptors that close themselves.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "ridgepoint/core/error.h"

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

// Owns a file descriptor. A negative number means that none is open.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace ridgepoint
