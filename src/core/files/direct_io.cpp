#include "core/files/direct_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/files/system_call.h"

namespace ridgepoint {
namespace {

template <typename Bytes, typename Call>
int move_all(std::span<Bytes> bytes, std::uint64_t offset, const Call& call) {
  while (!bytes.empty()) {
    const ssize_t moved = uninterrupted([&] { return call(bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (moved <= 0) return moved < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
    offset += static_cast<std::uint64_t>(moved);
  }
  return 0;
}

// Some file systems refuse O_DIRECT only when they read or write.
template <typename Move>
int move_past_cache(int descriptor, const Move& move) {
  const int error = move();
  return error == EINVAL && set_direct(descriptor, false) ? move() : error;
}

}  // namespace

bool set_direct(int descriptor, bool is_direct) {
#ifdef O_DIRECT
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
#else
  return !is_direct && descriptor >= 0;
#endif
}

int read_all(int descriptor, std::span<std::byte> bytes, std::uint64_t offset) {
  return move_past_cache(descriptor, [&] {
    return move_all(bytes, offset,
                    [&](std::byte* to, std::size_t count, off_t from) { return ::pread(descriptor, to, count, from); });
  });
}

int write_all(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset) {
  return move_past_cache(descriptor, [&] {
    return move_all(bytes, offset, [&](const std::byte* from, std::size_t count, off_t to) {
      return ::pwrite(descriptor, from, count, to);
    });
  });
}

}  // namespace ridgepoint
