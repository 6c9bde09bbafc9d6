#include "cli/terminal/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <ctime>

#include "cli/terminal/host.h"

namespace ridgepoint::cli {
namespace {

// `timeout` sends SIGTERM to the program and then to its process group, and both a shell and the system tell of a
// terminal that ends. What comes within this time is one request; a person is slower, or presses Ctrl-C again.
constexpr std::int64_t kOneRequestNs = 200'000'000;

std::atomic<int> first_signal{0};
std::atomic<bool> goes_on{false};   // at the first signal
std::atomic<bool> is_asked{false};  // whether anybody would notice it
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Ends with the status that a shell reports after the signal. The default action is not used, because it does not end
// the first process of a container.
void on_signal(int signal) {
  static std::atomic<std::int64_t> first_ns{0};
  const std::int64_t now = now_ns();
  std::int64_t first = 0;
  if (is_asked && first_ns.compare_exchange_strong(first, now)) {
    first_signal = signal;
    return;
  }
  const bool is_same_request = first != 0 && signal != SIGINT && now - first < kOneRequestNs;
  if (!is_same_request) _exit(128 + signal);
}

}  // namespace

// The handler needs a separate stack: the SGEMM of oneDNN 2.6 keeps data below the stack pointer, where a handler would
// write. Threads of the pool block signals (core/threads/thread_pool.h), so only the main thread needs one.
void install_interrupt_handler(Rank rank) {
  goes_on = rank == Rank::other;
  static std::array<std::byte, std::size_t{1} << 16> memory;
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (signal != SIGHUP || !ignores_hangup()) sigaction(signal, &action, nullptr);
  }
}

bool ignores_hangup() {
  struct sigaction action {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool interrupted() {
  if (const Host* const other = host()) return other->is_interrupted && other->is_interrupted();
  is_asked = true;
  return first_signal != 0 && !goes_on;
}

int interrupt_exit_code() { return 128 + (host() != nullptr ? SIGINT : first_signal.load()); }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted");
}

}  // namespace ridgepoint::cli
