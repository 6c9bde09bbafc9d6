// What the card of fake_card.cpp tells whoever watches it: fake_cupti.cpp, and what fake_cublaslt.cpp asks of it.
#pragma once

#include <cstdint>

struct FakeWork {
  enum class Kind { kernel, fill } kind = Kind::kernel;
  const char* name = "";
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  // Nanoseconds of the steady clock: the host's call, then the work.
  std::int64_t call_begin_ns = 0;
  std::int64_t call_end_ns = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

using FakeWatcher = void (*)(const FakeWork&);

extern "C" {
// Every piece of work from now on is told to the watcher; null ends that.
void fake_card_watch(FakeWatcher watcher);
// A library's own kernel.
void fake_card_run(const char* name);
// Calls that failed for want of the card's context; calls that asked for the current context or changed it; how often
// the card's context is held.
int fake_card_calls_elsewhere();
int fake_card_context_calls();
int fake_card_retained();
}
