// The interface between the GPU of fake_card.cpp and its observers: fake_cupti.cpp, fake_cublaslt.cpp, fake_nccl.cpp.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <memory>

struct FakeWork {
  enum class Kind { kernel, fill, copy } kind = Kind::kernel;
  const char* name = "";
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  void** parameters = nullptr;  // of a kernel launched outside a graph; valid during the observer's call
  // Nanoseconds of the steady clock: the host's call, then the work.
  std::int64_t call_begin_ns = 0;
  std::int64_t call_end_ns = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t call = 0;        // the same for all work of one call
  std::uint64_t graph_node = 0;  // the id of the node in a running graph; 0 outside of graphs
  // What the work does: it sets a word of host memory; or calls a function of a library or of the program, or copies
  // from or to the host, which no observer sees. Other fills and copies leave the memory as it is.
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
  void (*call_back)() = nullptr;
  void (*host_function)(void* data) = nullptr;
  void* data = nullptr;
  bool is_of_host = false;               // a copy
  std::shared_ptr<void> kept = nullptr;  // as long as the work may run, such as in a graph
};

// A node of a graph, to which a CUgraphNode points: work, or the record of an event, which is null for work. Each node
// depends on the one before it.
struct FakeGraphNode {
  std::uint64_t id = 0;
  void* graph = nullptr;
  FakeWork work = {};
  void* event = nullptr;
};

using FakeWatcher = void (*)(const FakeWork&);

// `original` is null for a node that is not a copy.
using FakeNodeWatcher = void (*)(FakeGraphNode* node, FakeGraphNode* original);

// A stream that comes to the record of an event, or that waits for an event.
using FakeStreamWatcher = void (*)(void* stream, bool waits);

// A copy to the host that has been queued.
using FakeHostCopyWatcher = void (*)(std::uint64_t bytes);

extern "C" {
// Calls the observer for every later copy to the host; null ends this.
void fake_card_watch_host_copies(FakeHostCopyWatcher watcher);
// Calls the observer for every later record and wait; null ends this.
void fake_card_watch_streams(FakeStreamWatcher watcher);
// Calls the observer for every later piece of work; null ends this.
void fake_card_watch(FakeWatcher watcher);
// Calls the observer for every graph node that is created or copied; null ends this.
void fake_card_watch_nodes(FakeNodeWatcher watcher);
// Launches a kernel of a library.
void fake_card_run(const char* name);
// Calls the function as work of the GPU: now, or in every launch of the graph under construction, which keeps the
// object until nothing is left of the graph.
void fake_card_call(void (*function)(), std::shared_ptr<void> kept);
// Another process maps the memory with this address, which stays used until the mapping ends, released or not.
std::uint64_t fake_card_map_elsewhere(const void* address);
void fake_card_unmap_elsewhere(std::uint64_t mapping);
// From now on the GPU does not finish its work, until it may go on: words stay as they are, and synchronising waits.
void fake_card_hang(bool hangs);
// The number of calls that failed without the GPU's context; of calls that read or changed the current context; of
// contexts retained; of launches of captured graphs; and of kernels launched or captured.
int fake_card_calls_elsewhere();
int fake_card_context_calls();
int fake_card_retained();
int fake_card_captured_runs();
int fake_card_early_launches();  // that may begin before the previous kernel has ended
int fake_card_launches();
}

// A function of a fake library that is open under this name, by default that of the GPU; null if there is none.
template <typename Function>
Function* fake_function(const char* name, const char* library = "libcuda.so.1") {
  void* const opened = dlopen(library, RTLD_NOW);
  return opened == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(opened, name));
}
