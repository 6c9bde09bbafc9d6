// The exceptions of the library. A message says what was requested, what was found and what to do.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ridgepoint {

// usage: the request is invalid (the CLI exits 2). failure: a valid request failed (exit 1).
// unsupported: the request is valid, but this device or build cannot run it (a sweep row becomes `unsupported`).
enum class ErrorKind { usage, failure, unsupported, out_of_memory };

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::failure)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Why an allocation failed. An allocator takes memory from its device in segments, so it rounds a request up to one.
struct MemoryShortage {
  std::string device;  // name of the processor or card
  std::string place;   // "in backward at matmul of layers.3.attn.scores"; empty where it is not known
  std::string category;
  std::size_t requested_bytes = 0;
  std::size_t segment_bytes = 0;  // size of the segment that the request needs
  std::size_t free_bytes = 0;     // available for new segments
  bool is_held_elsewhere =
      false;  // whether libraries or other processes hold memory that this allocator has not reserved
  std::size_t capacity_bytes = 0;           // the memory limit, or the memory of the device without one
  std::size_t reserved_bytes = 0;           // in segments that the allocator holds
  std::size_t fragmented_bytes = 0;         // reserved, but free only in blocks that are too small for the request
  std::optional<std::size_t> needed_bytes;  // predicted peak of the whole run, where it was planned
  // An arena: the groups of equal blocks that take most of its peak, the largest group first.
  struct Blocks {
    std::size_t count = 0;
    std::size_t bytes = 0;  // of each
    std::string category;
    std::string place;  // of the first
  };
  std::vector<Blocks> largest;

  // 0 when enough bytes are free but not contiguous.
  std::size_t short_bytes() const { return segment_bytes > free_bytes ? segment_bytes - free_bytes : 0; }
};

// The message of OutOfMemory.
std::string out_of_memory_sentence(const MemoryShortage& shortage);

// Thrown by allocators. Earlier allocations stay valid.
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
