// Compile a graph for a device and run it:  forward graph -> passes -> plan -> kernels -> run().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/memory_use.h"
#include "ridgepoint/stop_point.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint {

class Device;
class LaunchObserver;
class MemoryTrace;

struct DeviceOptions {
  int threads = 0;                                // cpu: 0 means every core this process may use
  std::optional<std::size_t> memory_limit_bytes;  // behave like a device with this much memory
};

// "cuda" or "cuda:1" (a card, numbered from 0), "cpu", "reference" (double-precision loops), "null" (walks the plan,
// computes nothing). Throws Error (usage) for an unknown name, (unsupported) for one this build or machine lacks.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});
// "cuda" where the first card can run this build's kernels, else "cpu".
std::string default_device_name();
// Every device of this machine, cards first; each opens, unless its card is too old.
std::vector<std::string> device_names();

// One launch of a run: the node of graph() it computes and the kernel that does.
struct LaunchInfo {
  NodeId node;
  std::string kernel;
};

struct ProgramOptions {
  CompileOptions compile = {};  // what becomes of the graph before it runs
  StopPoint stop_point = {};    // called between passes and while kernels, inputs and states are made
  // Gets every event of the program's allocator, its inputs' included (src/memory/memory_trace.h); it must live as
  // long.
  MemoryTrace* memory_trace = nullptr;
};

// The graph that runs for a forward graph on a device: the whole list of passes. Throws Error.
Graph compile(Graph forward, const Device& device, const CompileOptions& options = {});

// A graph after the passes for a device, and its plan: what a run does is known, no kernel has been made and nothing
// allocated. Several programs may be made of one.
class ProgramPlan {
 public:
  // Runs the passes and plans. Throws Error.
  ProgramPlan(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});
  const Graph& graph() const;
  const std::shared_ptr<Device>& device() const;

 private:
  friend class Program;
  struct Implementation;
  std::shared_ptr<const Implementation> implementation_;
};

class Program {
 public:
  // Plans (see above), resolves kernels, and allocates inputs: they are zero, or what their attribute "initial" says.
  // Throws Error; OutOfMemory when the persistent
  // tensors do not fit.
  Program(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});
  // On the plan's device, or on a null device that stands for it (src/backends/null).
  explicit Program(const ProgramPlan& plan, std::shared_ptr<Device> device = nullptr,
                   const ProgramOptions& options = {});
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  // Names and types as declared by `input` nodes. Integer data used to index an embedding or the loss is checked
  // against its bound here: Error names the element.
  void write_input(std::string_view name, const HostTensor& tensor);
  HostTensor read_input(std::string_view name) const;  // parameters and state after updates
  // Elements of integer data that index a table lie in [0, bound); empty for other inputs.
  std::optional<std::int64_t> index_bound(std::string_view name) const;
  HostTensor read_output(std::string_view name) const;  // after run()

  // Any value of graph() that has memory of its own (no view, no constant) while it is alive: between its launch and
  // its last reader's, as an observer sees them, or an input or output at any time.
  HostTensor read_value(Value value) const;

  // One execution, asynchronous where the device is; synchronize() waits. OutOfMemory leaves the program usable.
  void run();
  void synchronize();

  MemoryUse memory_use() const;
  void reset_peak_memory();
  // Bytes allocated when the last run left its forward and loss phases (0 before a run or without a backward).
  std::size_t before_backward_bytes() const;

  // Of the nodes that run, by the rules of docs/model.md. Throws Error where they are more than 64 bits count.
  std::int64_t flops_per_run() const;
  std::size_t launches_per_run() const;
  std::vector<LaunchInfo> launches() const;  // in the order of a run
  // Has every later run watched (src/runtime/activity.h) until it is called with null; the observer must live as long.
  void observe(LaunchObserver* observer);
  const Graph& graph() const;  // after passes
  Device& device();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ridgepoint
