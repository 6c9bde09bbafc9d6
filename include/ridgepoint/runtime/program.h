// Compiles a graph for a device and runs it:  forward graph -> passes -> plan -> kernels -> run().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/core/memory_use.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/core/truncated_normal.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/memory/allocator_kind.h"
#include "ridgepoint/ops/compile.h"

namespace ridgepoint {

class Communicator;
class Device;
class DeviceCopies;
class LaunchObserver;
class MemoryTrace;
struct ExecutionPlan;

// A GPU by the properties on which its kernels and their workspaces depend.
struct CardDescription {
  std::string name;            // "H100 SXM"
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
};

struct DeviceOptions {
  int threads = 0;                                // cpu: 0 means every core this process may use
  std::optional<std::size_t> memory_limit_bytes;  // allocations beyond it fail as on a device of this size
  // null: the GPU whose kernels and workspaces a plan has; empty: those of this machine's processor.
  std::optional<CardDescription> card = {};
};

// "cuda" or "cuda:1" (a card, numbered from 0), "cpu", "reference" (double-precision loops), "null" (allocates by
// the plan and computes nothing). Throws Error (usage) for an unknown name, (unsupported) for a device that this build
// or machine lacks.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});
// Whether the CUDA back end has kernels for a GPU of that compute capability (90 for 9.0), so that DeviceOptions::card
// may describe it: 8.0 or newer. It is the same in every build.
bool can_describe_card(int compute_capability);
// "cuda" where the first card can run this build's kernels, else "cpu".
std::string default_device_name();
// Every device of this machine, cards first. open_device() refuses a card that is too old for this build.
std::vector<std::string> device_names();

// One launch of a run: the node of graph() and the kernel that computes it.
struct LaunchInfo {
  NodeId node;
  std::string kernel;
};

// Milliseconds of the device's time in each phase of a run; empty for a phase without launches.
class PhaseTimes {
 public:
  std::optional<double>& operator[](Phase phase) { return ms_[static_cast<std::size_t>(phase)]; }
  const std::optional<double>& operator[](Phase phase) const { return ms_[static_cast<std::size_t>(phase)]; }

 private:
  std::array<std::optional<double>, kPhaseCount> ms_;  // in the order of Phase
};

// The most bytes that are allocated during a launch of a phase, and what they are then: bytes by category
// (parameter, gradient, activation, optimizer_state, temporary, workspace, data).
struct PhaseMemory {
  Phase phase = Phase::forward;
  std::size_t peak_bytes = 0;
  std::vector<std::pair<std::string_view, std::size_t>> categories = {};
};

// The name of the bytes of a packed weight begins so; the rest is the name of the weight.
constexpr std::string_view packed_prefix(BaseWeights format) {
  return format == BaseWeights::fp8 ? "float8." : "bitsandbytes.";
}

// A parameter or state on which later runs depend, and what this rank stores of it. The parts of all ranks make the
// whole, in their order.
struct StatePart {
  std::string name;
  TensorType type;                  // of the whole, as write_input() takes it
  DType stored = DType::fp32;       // of its most exact copy; lower than that of `type` only where no run updates it
  bool is_parameter = false;        // else a state of the optimizer, or the bytes of a packed weight
  bool is_packed = false;           // bytes, as udynamic8, which files have as U8
  bool is_divided = false;          // else every rank stores the whole
  bool is_split = false;            // stored as bf16 numbers and their low halves (src/core/types/halves.h)
  bool is_on_host = false;          // in the memory of the host, or on disk; of two halves, one or both
  bool is_on_disk = false;          // in the file of CompileOptions::offload_folder
  std::int64_t begin = 0, end = 0;  // the elements that this rank stores

  std::size_t bytes() const { return static_cast<std::size_t>(end - begin) * size_bytes(stored); }
  // Of the bytes of a packed weight: its name.
  std::string_view weight() const { return std::string_view(name).substr(name.find('.') + 1); }
};

// Makes a part of what Program::copy_part() copied to device memory, and a copy of that brought to the host.
void join_copied(const StatePart& part, std::span<std::byte> bytes);

struct ProgramOptions {
  CompileOptions compile = {};                  // how the passes rewrite the graph
  std::optional<AllocatorKind> allocator = {};  // default_allocator(compile.level) without one
  StopPoint stop_point = {};  // called between passes, and while kernels are created and inputs allocated
  // Records every event of the program's allocator (src/memory/memory_trace.h). It must outlive the program.
  MemoryTrace* memory_trace = nullptr;
  // Runs the collectives of a parallel run (src/runtime/device/communicator.h); the null device needs none.
  std::shared_ptr<Communicator> communicator = nullptr;
};

// Runs all passes on a forward graph, for a device. Throws Error.
Graph compile(Graph forward, const Device& device, const CompileOptions& options = {});

// A compiled graph and its plan, before kernels are created and memory is allocated. Several programs may share one.
class ProgramPlan {
 public:
  // Runs the passes and plans. Throws Error.
  ProgramPlan(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});
  const Graph& graph() const;
  const ExecutionPlan& execution() const;  // src/plan/plan.h
  const std::shared_ptr<Device>& device() const;
  AllocatorKind allocator() const;

 private:
  friend class Program;
  struct Implementation;
  std::shared_ptr<const Implementation> implementation_;
};

class Program {
 public:
  // Plans, creates kernels and allocates inputs, or the whole arena. Inputs are zero, or the value of their attribute
  // "initial". Throws Error; OutOfMemory when the inputs or the arena do not fit.
  Program(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});
  // Runs on the plan's device, or on a null device that simulates it (src/backends/null), with the allocator and the
  // compile level of the plan.
  explicit Program(const ProgramPlan& plan, std::shared_ptr<Device> device = nullptr,
                   const ProgramOptions& options = {});
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  // The type must be that of the `input` node. Throws Error for an index of an embedding or of the loss that is outside
  // its table, naming the element. A packed weight is packed, or taken as it is from a tensor of the dtype packed.
  void write_input(std::string_view name, const HostTensor& tensor);
  // Sets a floating input to random values, which the seed and the name of the input determine: the same on every
  // device. `stop_point` may be called again and again.
  void write_random(std::string_view name, const TruncatedNormal& distribution, std::uint64_t seed,
                    const StopPoint& stop_point = {});
  // Parameters and state after updates. A weight that the compiled program stores in bf16 or fp16 alone comes rounded.
  // A parameter or state of which each rank stores a part, or updates a part in fp32, is gathered: all ranks call this
  // together.
  HostTensor read_input(std::string_view name) const;
  // What later runs depend on: write_input() of every whole tensor makes another program go on with the same bits, also
  // where it divides them differently among ranks. The same names and types on all ranks.
  std::vector<StatePart> state_parts() const;
  // Copies the elements that this rank stores of a part of state_parts(), in their type; after synchronize().
  void read_part(const StatePart& part, std::span<std::byte> into) const;
  // Their inverse for a part of which this rank stores the whole.
  void write_part(const StatePart& part, std::span<const std::byte> from);
  // Copies them to device memory, in the order of the device's work (src/runtime/device/device.h), for join_copied().
  void copy_part(const StatePart& part, DeviceCopies& copies, void* device_address) const;
  // The number of rows of the table that an integer input indexes; empty for other inputs.
  std::optional<std::int64_t> index_bound(std::string_view name) const;
  HostTensor read_output(std::string_view name) const;  // after run()

  // Later runs read data from the caller's memory, or write an output there, without a copy: dense, row-major, of the
  // tensor's type, aligned to its elements. Null: from and to the program's own memory again, which an unbound output
  // has after the next run. Returns whether that is possible. It is not for parameters and state, on a GPU, for an
  // output that shares its memory with another one or with an input, and where a pass changed how the tensor is stored:
  // write_input() and read_output() then. Throws Error for an index as write_input() does.
  bool bind_input(std::string_view name, const void* memory);
  bool bind_output(std::string_view name, void* memory);

  // Any value of graph() except views and constants: from its launch until that of its last reader begins, which may
  // write over it (an observer may call this), and inputs and outputs at any time.
  HostTensor read_value(Value value) const;

  // One execution, asynchronous on devices that are; synchronize() waits. The program stays usable after OutOfMemory.
  void run();
  void synchronize();

  // Times the phases of every later run, captured or not. Each change of phase then costs the device about a
  // microsecond. The next run is captured again, which takes all ranks: each of them calls this before the same run.
  void time_phases();
  // Of the last run, which must have begun after time_phases(); waits until the device has finished it.
  PhaseTimes phase_times() const;
  // Whether the last run repeated captured launches (Compile::full).
  bool is_captured() const;
  // Why the device could not capture a run; empty if it could, or was not asked to.
  const std::string& capture_problem() const;
  // The names of the bodies of fused nodes that run op by op because the device could not compile them; known after the
  // first run.
  const std::vector<std::string>& unfused_bodies() const;

  MemoryUse memory_use() const;
  // Of the host's memory: what CompileOptions::offload keeps there, in blocks of 512 bytes.
  std::size_t host_memory_bytes() const;
  // Of a file: what CompileOptions::offload_folder keeps there, in blocks of 4 KiB.
  std::size_t disk_bytes() const;
  const std::string& offload_folder() const;
  // A hash of the blocks in memory, live and free. If it is the same after two runs, later runs need memory as those
  // between the two did.
  std::uint64_t memory_layout_hash() const;
  // The next run is not repeated from a capture, so that its peak is counted.
  void reset_peak_memory();
  // The most bytes of a run that are live at once, after 512-byte rounding: no allocator reserves less.
  std::size_t liveness_lower_bound_bytes() const;
  // What is live during each launch, counted alike.
  std::vector<std::size_t> live_bytes_by_launch() const;
  // Of the last run that was not repeated from a capture, for each phase with launches, in the order of Phase. The
  // highest peak is that of the run.
  std::vector<PhaseMemory> memory_by_phase() const;
  // Bytes allocated when the last run left its forward and loss phases (0 before a run or without a backward).
  std::size_t before_backward_bytes() const;

  // Floating-point operations of one run, by the rules of docs/model.md. Throws Error when the count overflows 64 bits.
  std::int64_t flops_per_run() const;
  std::size_t launches_per_run() const;
  std::vector<LaunchInfo> launches() const;  // in the order of a run
  // Calls `observer` (src/runtime/device/activity.h) in every later run; null ends this. The observer must live that
  // long. As for time_phases(), each rank begins and ends this before the same run.
  void observe(LaunchObserver* observer);
  const Graph& graph() const;  // after passes
  const ParallelOptions& parallel() const;
  Device& device();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ridgepoint
