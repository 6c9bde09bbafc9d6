// Reads and writes at places of a file past the page cache (O_DIRECT), where the file system allows that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ridgepoint {

// Of memory, offsets and sizes; no disk asks for more.
inline constexpr std::size_t kDirectAlignment = 4096;

// Whether the file system takes the change. Without O_DIRECT, bytes go through the page cache.
bool set_direct(int descriptor, bool is_direct);

// All bytes, or the system's number of the error: EIO where the file has fewer. What is not aligned needs a file
// without O_DIRECT. Any thread may call them.
int read_all(int descriptor, std::span<std::byte> bytes, std::uint64_t offset);
int write_all(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset);

}  // namespace ridgepoint
