// The one exception type of the library. A message says what was asked, what was found and what to do.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

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

// What an allocation lacked. An allocator takes memory from its device in segments, which a request is rounded up to.
struct MemoryShortage {
  std::string device;  // its own name
  std::string place;   // "in backward at matmul of layers.3.attn.scores"; empty where nobody said
  std::string category;
  std::size_t requested_bytes = 0;
  std::size_t segment_bytes = 0;     // that the request would take
  std::size_t free_bytes = 0;        // that segments could still be made of
  bool is_held_elsewhere = false;    // whether others leave the device less than what is not reserved of the capacity
  std::size_t capacity_bytes = 0;    // the limit where there is one, else all that the device has
  std::size_t reserved_bytes = 0;    // in segments already
  std::size_t fragmented_bytes = 0;  // of those, free in blocks that are too small for the request
  std::optional<std::size_t> needed_bytes;  // by all of the run at its peak, where it was planned

  // What is missing: 0 where as much as the segment is free, but not in one piece.
  std::size_t short_bytes() const { return segment_bytes > free_bytes ? segment_bytes - free_bytes : 0; }
};

// The sentence of every message about memory that did not suffice.
std::string out_of_memory_sentence(const MemoryShortage& shortage);

// Thrown by allocators; everything allocated before stays valid and the process stays usable.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(MemoryShortage shortage)
      : Error(out_of_memory_sentence(shortage), ErrorKind::out_of_memory), shortage_(std::move(shortage)) {}
  const MemoryShortage& shortage() const { return shortage_; }
  std::size_t requested_bytes() const { return shortage_.requested_bytes; }
  std::size_t free_bytes() const { return shortage_.free_bytes; }

 private:
  MemoryShortage shortage_;
};

}  // namespace ridgepoint
