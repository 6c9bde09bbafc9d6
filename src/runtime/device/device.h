// The interface of a back end: raw memory, copies, kernels for nodes, timing. A back end must have a kernel for every
// primitive; composites without a kernel are decomposed before planning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memory/allocator.h"
#include "ops/layout.h"
#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/core/truncated_normal.h"
#include "ridgepoint/ir/graph.h"
#include "runtime/device/activity.h"
#include "runtime/device/kernel_rate.h"

namespace ridgepoint {

class Kernel;
class OffloadFile;

// Everything that a kernel is specialised for. launch() gets a pointer to the element (0,...,0) of each operand, null
// for an immediate operand. The spans are valid only during make_kernel().
struct KernelSpec {
  const Graph& graph;
  const Node& node;
  std::span<const TensorLayout> inputs;
  std::span<const TensorLayout> outputs;  // dense unless Device::writes_strided() or pads_rows() holds for the node
  OffloadFile* file = nullptr;            // of a transfer from or to tensors that lie in it
};

struct LaunchArguments {
  void* const* inputs;
  void* const* outputs;
  void* workspace;  // workspace_bytes() of device memory, null when 0
  // Of an update beside others: it begins after these collectives have ended.
  std::span<Kernel* const> after = {};
};

// A kernel for one node and one set of layouts. launch() is asynchronous on devices that are, and does not allocate. An
// output may share the storage of an input where the op's rule donates it. The output of an elementwise kernel may also
// be the same memory as an input of the same layout.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // for profiles
  virtual std::size_t workspace_bytes() const { return 0; }
  // Waits for what launch() would wait for, such as a compiler. A fused node's kernel that the compiler refuses is
  // replaced by the kernels of its body, which may change workspace_bytes(). Throws Error.
  virtual void prepare() {}
  // After prepare(): why the node runs op by op; empty if it runs as one kernel.
  virtual std::string_view unfused_because() const { return {}; }
  virtual void launch(const LaunchArguments& arguments) = 0;
  // Of a collective, a transfer or an update beside others, which may still run when the launches after it begin: those
  // after this call find its results and may write over its operands. Does nothing where none runs. An update beside
  // others calls it for collectives in its launch, for its own stream alone.
  virtual void wait() {}
};

// The first alternative: no rate is known.
using KernelRate = std::variant<std::monostate, MemoryRate, ProductRate, EpilogueRate, AttentionRate>;

// The properties of a kernel that are known before make_kernel().
struct KernelOutline {
  std::string name;
  std::size_t workspace_bytes = 0;
  KernelRate rate = {};  // of GPUs
};

// Launches that a device recorded as one unit. run() is asynchronous. Their memory must stay allocated.
class CapturedLaunches {
 public:
  virtual ~CapturedLaunches() = default;
  virtual void run() = 0;
};

// Notes the device's time at points of its work, numbered from 0. The body of Device::capture() may call mark(): each
// run of the captured launches then notes the time of that point again.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void mark(std::size_t point) = 0;
  // Milliseconds from one point to a later one, which must have been marked. Waits until the device has reached it.
  virtual double elapsed_ms(std::size_t from, std::size_t to) = 0;

  // A timer of two points.
  void start() { mark(0); }
  void stop() { mark(1); }
  double elapsed_ms() { return elapsed_ms(0, 1); }
};

// Copies that a GPU's copy engines make beside its kernels.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;
  // Between places of device memory, in the order of the device's work. Asynchronous.
  virtual void copy_on_device(void* to, const void* from, std::size_t bytes) = 0;
  // To the host, beside the device's work, which must leave these bytes as they are. Waits until they are there. Any
  // thread may call it.
  virtual void copy_to_host(void* host, const void* device_address, std::size_t bytes) = 0;
};

// Properties of a device; empty where they do not apply.
struct DeviceFacts {
  std::optional<std::string> compute_capability = {};  // "9.0"
  std::optional<std::int64_t> multiprocessors = {};
  std::optional<std::int64_t> l2_cache_bytes = {};
  std::optional<std::int64_t> memory_bytes = {};  // of the card, without the memory limit
  // Used on the card before the first allocation: this process's context, and other processes.
  std::optional<std::int64_t> used_at_start_bytes = {};
  // cpu: the widest instruction set that kernels use, avx2 avx512 avx512_bf16 amx.
  std::optional<std::string> instruction_set = {};
  std::optional<std::string> pci_bus_id = {};  // of a GPU that is there: "00000000:19:00.0"
};

// What a plan depends on: which nodes have a kernel, the layouts that kernels take, and their workspaces. Every device
// answers this; a GPU that is described but not there answers only this.
class KernelChoices {
 public:
  using OperandLayout = ridgepoint::OperandLayout;

  virtual ~KernelChoices() = default;
  virtual std::string name() const = 0;  // of the processor or GPU
  virtual DeviceFacts facts() const { return {}; }
  // Whether there is a kernel for a composite, gather or fused node. Primitives always have one.
  virtual bool has_kernel(const Graph& graph, const Node& node) const = 0;
  // The layout that operand `index` of the node must have. The pass insert_copies copies an operand of another layout.
  virtual OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const = 0;
  // Whether the kernel of the node can write its first result, and each other result of the same rank, with any strides
  // whose rows satisfy OperandLayout::aligned_rows. The node's other results are dense.
  virtual bool writes_strided(const Graph& /*graph*/, const Node& /*node*/) const { return false; }
  // Whether the kernel of the node can write its results of rank 2 in rows that are further apart than they are long,
  // each at a multiple of 16 bytes.
  virtual bool pads_rows(const Graph& graph, const Node& node) const { return writes_strided(graph, node); }
  // Whether the kernel of an optimizer's update, which then needs no workspace, can run beside the launches that follow
  // it: those of a GPU, on a stream of lower priority.
  virtual bool runs_update_beside(const Graph& /*graph*/, const Node& /*node*/) const { return false; }
  // The workspace and the rate of the kernel for this specification, and its name where it is known without measuring
  // or compiling.
  virtual KernelOutline outline(const KernelSpec& spec) = 0;
};

class Communicator;
class ProcessGroup;

class Device : public DeviceMemory, public KernelChoices {
 public:
  virtual std::string_view kind() const = 0;  // "cpu", "null", "reference", "cuda"
  std::string name() const override = 0;

  virtual void copy_to_device(void* device_address, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device_address, std::size_t bytes) = 0;
  // Keeps host memory at its physical address until the result is destroyed, so that copies have the full speed of the
  // connection. Null where that does not help or is refused; copies work all the same.
  virtual std::shared_ptr<void> lock_pages(std::span<std::byte> /*host*/) { return nullptr; }
  // Memory of the host for tensors that stay there, zeros at first: page-locked where the device has memory of its own,
  // so that transfers run beside kernels. Null where there is not enough, or where the system refuses to lock it.
  virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes);
  // Null where the processor that computes makes the copies, so that nothing is gained.
  virtual std::unique_ptr<DeviceCopies> make_copies() { return nullptr; }
  virtual void fill_zero(void* device_address, std::size_t bytes) = 0;
  // Sets `count` elements of a floating dtype, or low_half, to the values of a random stream
  // (core/random/random_values.h), which convert_to_stored() makes of fp32: the same values on every device. By
  // default, the host makes and copies them.
  virtual void fill_random(void* device_address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                           std::uint64_t stream, const StopPoint& stop_point);
  virtual void synchronize() = 0;
  // Calls `body` with this device current on the calling thread (cudaSetDevice), and restores the previous one. Within
  // it, other calls need not make the device current each time.
  virtual void while_current(const std::function<void()>& body) { body(); }

  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;
  // By default, a kernel is created and destroyed.
  KernelOutline outline(const KernelSpec& spec) override;

  // The collectives of this device and those of the other ranks of the group, which all call this at once. By default,
  // throws Error (unsupported), as where a library is missing.
  virtual std::shared_ptr<Communicator> make_communicator(const std::shared_ptr<ProcessGroup>& group);

  // Records the launches that `body` makes, without running them; no other thread may use the device meanwhile. Null if
  // the device does not do that, and then `body` is not called. Throws Error (unsupported) if a launch of `body` cannot
  // be recorded, and the exceptions of `body`.
  virtual std::unique_ptr<CapturedLaunches> capture(const std::function<void()>& /*body*/) { return nullptr; }

  virtual std::unique_ptr<DeviceTimer> make_timer(std::size_t points = 2) = 0;
  // By default, a recorder for kernels that end before launch() returns. An activity without a name has the kernel's.
  virtual std::unique_ptr<ActivityRecorder> make_activity_recorder();
  // Marks phase, module and op of each launch for an external profiler (NVTX); null where none is attached. `launches`
  // are the nodes in launch order.
  virtual std::unique_ptr<LaunchObserver> make_range_marker(const Graph& graph, std::span<const NodeId> launches);
};

// Random data for measurements. On zeros a processor draws less power and may clock higher, so rates would be too high.

// At most `bytes` bytes of elements in [-1, 1), the same in every call. The result is shorter for large `bytes`, to be
// repeated by the caller; it is empty only where `bytes` is 0. `dtype` must be floating.
std::vector<std::byte> random_pattern(DType dtype, std::size_t bytes);

}  // namespace ridgepoint
