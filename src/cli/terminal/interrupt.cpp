#include "cli/terminal/interrupt.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace ridgepoint::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

// The status that a shell reports after SIGINT. The default action is not used, because it does not end the first
// process of a container.
constexpr int kEndedByInterrupt = 128 + SIGINT;

void on_interrupt(int) {
  if (interrupt_seen != 0) _exit(kEndedByInterrupt);
  interrupt_seen = 1;
}

// Of a rank that is not the first.
void on_termination(int) {
  static volatile std::sig_atomic_t seen = 0;
  if (seen != 0) _exit(kEndedByInterrupt);
  seen = 1;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

}  // namespace

// The handler needs a separate stack: the SGEMM of oneDNN 2.6 keeps data below the stack pointer, where a handler would
// write. Threads of the pool block signals (core/threads/thread_pool.h), so only the main thread needs one.
void install_interrupt_handler(Rank rank) {
  static std::array<std::byte, std::size_t{1} << 16> memory;
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
  handle(SIGINT, on_interrupt);
  if (rank != Rank::only) handle(SIGTERM, rank == Rank::first ? on_interrupt : on_termination);
}

bool interrupted() { return interrupt_seen != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted");
}

}  // namespace ridgepoint::cli
