#include "cli/terminal/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "core/files/system_call.h"

namespace ridgepoint::cli {
namespace {

// Withholds from this thread the SIGPIPE of a pipe without a reader.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    if (sigismember(&before_, SIGPIPE) != 0) return;
    constexpr timespec kNow{};
    uninterrupted([&] { return sigtimedwait(&pipe_, nullptr, &kNow); });
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

// Open in the direction in which nobody uses them, /dev/null does not take results as if they were written.
void reserve_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number, which open() takes, is this one.
    [[maybe_unused]] const int taken = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void redirect(const char* path, int descriptor) {
  const Descriptor file(uninterrupted([&] { return ::open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC); }));
  if (file.is_open()) uninterrupted([&] { return ::dup2(file.number(), descriptor); });
}

void write_to_standard_error(std::string_view text) noexcept {
  const WithoutPipeSignal without;
  while (!text.empty()) {
    const ssize_t put = uninterrupted([&] { return ::write(STDERR_FILENO, text.data(), text.size()); });
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace ridgepoint::cli
