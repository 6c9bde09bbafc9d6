// The interface a back end implements: raw memory, copies, kernels for nodes, timing.
// A back end must run every primitive; composites it does not claim are decomposed before planning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memory/device_memory.h"
#include "ops/layout.h"
#include "ridgepoint/graph.h"
#include "runtime/activity.h"

namespace ridgepoint {

// Everything a kernel is specialised on. The pointer handed to launch() for an operand is that of its element
// (0,...,0); an immediate operand's is null. The spans outlive make_kernel() only.
struct KernelSpec {
  const Graph& graph;
  const Node& node;
  std::span<const TensorLayout> inputs;
  std::span<const TensorLayout> outputs;  // dense
};

struct LaunchArguments {
  void* const* inputs;
  void* const* outputs;
  void* workspace;  // workspace_bytes() of device memory, null when 0
};

// One node resolved for one set of layouts. launch() is asynchronous on devices that are, does no look-ups and
// allocates nothing. An output may share storage with an input where the op's rule donates it, and elementwise
// kernels must allow an output to be exactly an input of the same layout.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // as profiles print it
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void launch(const LaunchArguments& arguments) = 0;
};

// What is known of a kernel before it is made.
struct KernelOutline {
  std::string name;
  std::size_t workspace_bytes = 0;
};

// Elapsed device time between start() and stop(); elapsed_ms() waits for stop() to have happened.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual double elapsed_ms() = 0;
};

// What a device says of itself; empty where there is nothing to say.
struct DeviceFacts {
  std::optional<std::string> compute_capability = {};  // "9.0"
  std::optional<std::int64_t> multiprocessors = {};
  std::optional<std::int64_t> l2_cache_bytes = {};
  std::optional<std::int64_t> memory_bytes = {};  // of the card, whatever the limit
  // In use on the whole card before anything was allocated: the context of this process, and other processes.
  std::optional<std::int64_t> used_at_start_bytes = {};
  // A processor: the widest instructions that kernels use, avx2 avx512 avx512_bf16 amx.
  std::optional<std::string> instruction_set = {};
};

// Its name, memory size and raw memory are those of DeviceMemory.
class Device : public DeviceMemory {
 public:
  virtual std::string_view kind() const = 0;  // "cpu", "null", "reference", "cuda"
  virtual DeviceFacts facts() const { return {}; }

  virtual void copy_to_device(void* device_address, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device_address, std::size_t bytes) = 0;
  virtual void fill_zero(void* device_address, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // Runs `body`, which makes many calls to this device from the calling thread: what a device must make current for
  // each call is made current once, and what was current before is current again afterwards.
  virtual void while_current(const std::function<void()>& body) { body(); }

  // Whether a composite, gather or fused node runs as it stands here. Primitives always do.
  virtual bool has_kernel(const Graph& graph, const Node& node) const = 0;
  // How operand `index` of the node must lie. Planning inserts a copy where a view does not comply.
  using OperandLayout = ridgepoint::OperandLayout;
  virtual OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const = 0;
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;
  // The workspace of the kernel that make_kernel() would make, and its name unless that is still to be chosen: no
  // algorithm is measured and nothing compiled for it. Unless overridden, a kernel is made and dropped.
  virtual KernelOutline outline(const KernelSpec& spec);

  virtual std::unique_ptr<DeviceTimer> make_timer() = 0;
  // Unless overridden, of a device whose kernels end before launch() returns. An unnamed activity has its kernel's
  // name.
  virtual std::unique_ptr<ActivityRecorder> make_activity_recorder();
  // Marks phase, module and op of each launch for a profiler that listens from outside; null where none does.
  // `launches` are the nodes in the order in which they are launched.
  virtual std::unique_ptr<LaunchObserver> make_range_marker(const Graph& graph, std::span<const NodeId> launches);
};

}  // namespace ridgepoint
