// Memory between two protected pages, and a function that runs code which may touch them in a process of its own.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <system_error>

namespace ridgepoint::testing {

// The guard page that the memory adjoins.
enum class Edge : std::uint8_t { begins_behind_guard, ends_before_guard };

// Shared with processes that fork() makes later.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, Edge edge) : bytes_(bytes), edge_(edge) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    inside_bytes_ = (bytes + page - 1) / page * page;
    all_bytes_ = inside_bytes_ + 2 * page;
    void* all = ::mmap(nullptr, all_bytes_, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    inside_ = all_ + page;
    protect(PROT_READ | PROT_WRITE);
  }
  ~GuardedMemory() { ::munmap(all_, all_bytes_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* address() const { return edge_ == Edge::begins_behind_guard ? inside_ : inside_ + inside_bytes_ - bytes_; }
  std::size_t bytes() const { return bytes_; }
  void forbid_writes() { protect(PROT_READ); }

  // The offset of an address from the memory's begin, negative before it; nullopt if the address is elsewhere.
  std::optional<std::ptrdiff_t> place_of(std::uintptr_t at) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(all_);
    if (at < begin || at >= begin + all_bytes_) return std::nullopt;
    return static_cast<std::ptrdiff_t>(at) - reinterpret_cast<std::ptrdiff_t>(address());
  }

 private:
  void protect(int access) {
    if (inside_bytes_ > 0 && ::mprotect(inside_, inside_bytes_, access) != 0) {
      throw std::system_error(errno, std::generic_category(), "mprotect");
    }
  }

  std::size_t bytes_;
  Edge edge_;
  std::size_t inside_bytes_ = 0;
  std::size_t all_bytes_ = 0;
  std::byte* all_ = nullptr;
  std::byte* inside_ = nullptr;
};

struct Ending {
  bool is_good = false;
  int signal = 0;              // the signal that ended the process, or 0
  std::uintptr_t touched = 0;  // the address of SIGSEGV or SIGBUS
};

// Runs `body` in a forked process, which has no other threads.
inline Ending run_apart(const std::function<void()>& body) {
  static GuardedMemory shared(sizeof(std::uintptr_t), Edge::begins_behind_guard);
  static auto* const touched = reinterpret_cast<std::uintptr_t*>(shared.address());
  constexpr int kTouched = 77;
  *touched = 0;
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      *touched = reinterpret_cast<std::uintptr_t>(info->si_addr);
      ::_exit(kTouched);
    };
    ::sigaction(SIGSEGV, &action, nullptr);
    ::sigaction(SIGBUS, &action, nullptr);
    body();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {false, WTERMSIG(status), 0};
  return {WEXITSTATUS(status) == 0, 0, WEXITSTATUS(status) == kTouched ? *touched : 0};
}

}  // namespace ridgepoint::testing
