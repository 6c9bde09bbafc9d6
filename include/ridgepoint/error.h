// The one exception type of the library. A message says what was asked, what was found and what to do.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace ridgepoint {

// usage: the caller asked for something that cannot be (the CLI exits 2).
// failure: a sound request failed (exit 1).
// unsupported: sound, but this device or build cannot do it (a sweep row becomes `unsupported`).
enum class ErrorKind { usage, failure, unsupported, out_of_memory };

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::failure)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Thrown by allocators; everything allocated before stays valid and the process stays usable.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, std::size_t requested_bytes, std::size_t free_bytes)
      : Error(message, ErrorKind::out_of_memory), requested_bytes_(requested_bytes), free_bytes_(free_bytes) {}
  std::size_t requested_bytes() const { return requested_bytes_; }
  std::size_t free_bytes() const { return free_bytes_; }

 private:
  std::size_t requested_bytes_;
  std::size_t free_bytes_;
};

}  // namespace ridgepoint
