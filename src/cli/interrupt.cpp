#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

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

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return interrupt_seen != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted");
}

}  // namespace ridgepoint::cli
