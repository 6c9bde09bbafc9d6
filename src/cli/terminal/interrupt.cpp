#include "cli/terminal/interrupt.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace ridgepoint::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

// The shell's status of a program that SIGINT ended. The default action would not do: the first process of a container
// is not ended by it.
constexpr int kEndedByInterrupt = 128 + SIGINT;

void on_interrupt(int) {
  if (interrupt_seen != 0) _exit(kEndedByInterrupt);
  interrupt_seen = 1;
}

}  // namespace

// The handler has a stack of its own: oneDNN's SGEMM, in version 2.6, keeps data where a handler on the thread's stack
// would write. The threads of loops handle no signals (core/threads/thread_pool.h), so that of the program alone needs
// one.
void install_interrupt_handler() {
  static std::array<std::byte, std::size_t{1} << 16> memory;
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return interrupt_seen != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted");
}

}  // namespace ridgepoint::cli
