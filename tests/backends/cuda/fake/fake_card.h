// The interface between the GPU of fake_card.cpp and its observers, fake_cupti.cpp and fake_cublaslt.cpp.
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
// Calls the observer for every later piece of work; null ends this.
void fake_card_watch(FakeWatcher watcher);
// Launches a kernel of a library.
void fake_card_run(const char* name);
// The number of calls that failed without the GPU's context; of calls that read or changed the current context; of
// contexts retained; and of launches of captured graphs.
int fake_card_calls_elsewhere();
int fake_card_context_calls();
int fake_card_retained();
int fake_card_captured_runs();
}
