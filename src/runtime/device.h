// The interface a back end implements: raw memory, copies, kernels for nodes, timing.
// A back end must run every primitive; composites it does not claim are decomposed before planning.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// How an operand lies in memory. Strides are in elements, may be 0 (broadcast) or negative (flip); the pointer
// handed to launch() is that of element (0,...,0). An operand with an immediate has no memory: its pointer is null.
struct TensorLayout {
  DType dtype = DType::fp32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> strides{};
  std::optional<double> immediate;
  bool is_dense() const;
};
TensorLayout dense_layout(const TensorType& type);

// Everything a kernel is specialised on. The spans outlive make_kernel() only.
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

// Elapsed device time between start() and stop(); elapsed_ms() waits for stop() to have happened.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual double elapsed_ms() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view kind() const = 0;  // "cpu", "null", "reference", "cuda"
  virtual std::string name() const = 0;       // the processor's or card's own name
  virtual std::size_t total_memory_bytes() const = 0;

  // Raw memory, 512-byte aligned. Null when there is none left; never throws for that.
  virtual void* allocate_memory(std::size_t bytes) = 0;
  virtual void release_memory(void* address, std::size_t bytes) = 0;

  virtual void copy_to_device(void* device_address, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device_address, std::size_t bytes) = 0;
  virtual void fill_zero(void* device_address, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  // Whether a composite, gather or fused node runs as it stands here. Primitives always do.
  virtual bool has_kernel(const Graph& graph, const Node& node) const = 0;
  // How operand `index` of the node must lie: any strides, one unit stride among the last two dimensions
  // (contractions), or dense. Planning inserts a copy where a view does not comply.
  enum class OperandLayout { any, matrix, dense };
  virtual OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const = 0;
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;

  virtual std::unique_ptr<DeviceTimer> make_timer() = 0;
};

}  // namespace ridgepoint
