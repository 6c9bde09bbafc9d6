// Reads and writes of the page's file system. Those of Emscripten 3.1.6 take the lists of buffers as they are with
// pointers of 32 bits.
#include <emscripten.h>
#include <wasi/api.h>

#include <cstddef>

namespace {

// Both return the number of bytes, or what is below 0: the negated error. A position below 0 is that of the stream.
EM_JS(int, read_buffer, (int fd, double buffer, double bytes, double position), {
  try {
    return FS.read(SYSCALLS.getStreamFromFD(fd), HEAP8, buffer, bytes, position < 0 ? undefined : position);
  } catch (error) {
    if (!(error instanceof FS.ErrnoError)) throw error;
    return -error.errno;
  }
});
EM_JS(int, write_buffer, (int fd, double buffer, double bytes, double position), {
  try {
    return FS.write(SYSCALLS.getStreamFromFD(fd), HEAP8, buffer, bytes, position < 0 ? undefined : position);
  } catch (error) {
    if (!(error instanceof FS.ErrnoError)) throw error;
    return -error.errno;
  }
});

template <typename Buffer>
__wasi_errno_t each(int (*transfer)(int, double, double, double), int fd, const Buffer* buffers, std::size_t count,
                    double position, __wasi_size_t* transferred) {
  __wasi_size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (buffers[i].buf_len == 0) continue;
    const int bytes = transfer(fd, static_cast<double>(reinterpret_cast<std::size_t>(buffers[i].buf)),
                               static_cast<double>(buffers[i].buf_len),
                               position < 0 ? position : position + static_cast<double>(sum));
    if (bytes < 0) return static_cast<__wasi_errno_t>(-bytes);
    sum += static_cast<__wasi_size_t>(bytes);
    if (static_cast<std::size_t>(bytes) < buffers[i].buf_len) break;
  }
  *transferred = sum;
  return 0;
}

constexpr double kOwn = -1;  // the position of the stream

}  // namespace

extern "C" {

__wasi_errno_t __wasi_fd_read(__wasi_fd_t fd, const __wasi_iovec_t* buffers, std::size_t count,
                              __wasi_size_t* transferred) {
  return each(read_buffer, static_cast<int>(fd), buffers, count, kOwn, transferred);
}

__wasi_errno_t __wasi_fd_write(__wasi_fd_t fd, const __wasi_ciovec_t* buffers, std::size_t count,
                               __wasi_size_t* transferred) {
  return each(write_buffer, static_cast<int>(fd), buffers, count, kOwn, transferred);
}

__wasi_errno_t __wasi_fd_pread(__wasi_fd_t fd, const __wasi_iovec_t* buffers, std::size_t count,
                               __wasi_filesize_t position, __wasi_size_t* transferred) {
  return each(read_buffer, static_cast<int>(fd), buffers, count, static_cast<double>(position), transferred);
}
}
