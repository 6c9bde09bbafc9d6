#include "backends/reference/reference_device.h"

#include <unistd.h>

#include <cstdlib>

#include "core/rounding.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/host_device.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kAlignmentBytes = 512;

std::size_t machine_memory_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class ReferenceDevice : public HostDevice {
 public:
  explicit ReferenceDevice(std::size_t memory_bytes) : memory_bytes_(memory_bytes) {}

  std::string_view kind() const override { return "reference"; }
  std::string name() const override { return "reference (double-precision loops)"; }
  std::size_t total_memory_bytes() const override { return memory_bytes_; }

  void* allocate_memory(std::size_t bytes) override {
    if (bytes > memory_bytes_ || allocated_bytes_ > memory_bytes_ - bytes) return nullptr;
    const std::size_t whole_bytes = round_up(bytes, kAlignmentBytes);
    void* address = std::aligned_alloc(kAlignmentBytes, whole_bytes);
    if (address != nullptr) allocated_bytes_ += bytes;
    return address;
  }
  void release_memory(void* address, std::size_t bytes) override {
    std::free(address);
    allocated_bytes_ -= bytes;
  }

  bool has_kernel(const Graph&, const Node& node) const override {
    const OpClass kind = op_class(node.op);
    return kind == OpClass::elementwise || kind == OpClass::reduction || kind == OpClass::contraction ||
           kind == OpClass::gather || kind == OpClass::experts || kind == OpClass::recurrence;
  }
  OperandLayout operand_layout(const Graph&, const Node& node, int) const override {
    const OpClass kind = op_class(node.op);
    return kind == OpClass::experts || kind == OpClass::recurrence ? OperandLayout::dense : OperandLayout::any;
  }
  bool writes_strided(const Graph&, const Node& node) const override {
    return op_class(node.op) == OpClass::elementwise;
  }
  bool pads_rows(const Graph& graph, const Node& node) const override {
    return node.op == Op::matmul || writes_strided(graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;

 private:
  std::size_t memory_bytes_;
  std::size_t allocated_bytes_ = 0;
};

std::unique_ptr<Kernel> ReferenceDevice::make_kernel(const KernelSpec& spec) {
  switch (op_class(spec.node.op)) {
    case OpClass::elementwise:
      return spec.node.op == Op::iota ? reference::make_iota(spec) : reference::make_elementwise(spec);
    case OpClass::reduction: return reference::make_reduction(spec);
    case OpClass::contraction: return reference::make_matmul(spec);
    case OpClass::gather:
      if (spec.node.op == Op::dequantise) return reference::make_dequantise(spec);
      return spec.node.op == Op::embedding ? reference::make_embedding(spec) : reference::make_embedding_backward(spec);
    case OpClass::experts: return reference::make_experts(spec);
    case OpClass::recurrence: return reference::make_linear_attention(spec);
    case OpClass::transfer: return make_host_transfer(spec);
    default:
      throw Error("the reference device was asked for a kernel for " + std::string(ridgepoint::name(spec.node.op)) +
                      ", a " + std::string(ridgepoint::name(op_class(spec.node.op))) +
                      " op; it runs primitive ops only: decompose composites first, and resolve views",
                  ErrorKind::unsupported);
  }
}

}  // namespace

std::shared_ptr<Device> make_reference_device(const DeviceOptions& options) {
  return std::make_shared<ReferenceDevice>(options.memory_limit_bytes.value_or(machine_memory_bytes()));
}

}  // namespace ridgepoint
