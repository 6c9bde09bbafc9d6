#include "backends/null/null_device.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/rounding.h"
#include "ops/node_key.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kAlignmentBytes = 512;
// The first address is above all of user space, so that a stray access faults at once, and a double holds it exactly,
// as trace viewers require.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 48;
constexpr std::uintptr_t kFirstHostAddress = std::uintptr_t{1} << 50;

class NullKernel : public Kernel {
 public:
  explicit NullKernel(KernelOutline outline) : outline_(std::move(outline)) {}
  std::string_view name() const override { return outline_.name; }
  std::size_t workspace_bytes() const override { return outline_.workspace_bytes; }
  void launch(const LaunchArguments&) override {}

 private:
  KernelOutline outline_;
};

class NullLaunches : public CapturedLaunches {
 public:
  void run() override {}
};

class NullTimer : public DeviceTimer {
 public:
  void mark(std::size_t) override {}
  double elapsed_ms(std::size_t, std::size_t) override { return 0.0; }
};

void append(std::string& key, const TensorLayout& layout) {
  append_type(key, {layout.dtype, layout.shape});
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    append_bits(key, layout.strides[static_cast<std::size_t>(axis)]);
  append_bits(key, layout.immediate.has_value());
  if (layout.immediate) append_bits(key, *layout.immediate);
}

class NullDevice : public Device {
 public:
  NullDevice(std::shared_ptr<KernelChoices> target, std::size_t memory_bytes)
      : target_(std::move(target)), memory_bytes_(memory_bytes) {}

  std::string_view kind() const override { return "null"; }
  std::string name() const override { return target_->name(); }
  // Those of a GPU on which its plan and its times depend.
  DeviceFacts facts() const override {
    const DeviceFacts of_target = target_->facts();
    DeviceFacts facts;
    facts.compute_capability = of_target.compute_capability;
    facts.multiprocessors = of_target.multiprocessors;
    return facts;
  }
  std::size_t total_memory_bytes() const override { return memory_bytes_; }

  // Addresses ascend and are not reused; they start over once everything is released.
  void* allocate_memory(std::size_t bytes) override {
    if (bytes > memory_bytes_ || held_bytes_ > memory_bytes_ - bytes) return nullptr;
    if (held_bytes_ == 0) next_address_ = kFirstAddress;
    if (bytes > UINTPTR_MAX - kAlignmentBytes - next_address_) return nullptr;
    const std::uintptr_t address = next_address_;
    next_address_ += round_up(bytes, kAlignmentBytes);
    held_bytes_ += bytes;
    return reinterpret_cast<void*>(address);
  }
  void release_memory(void*, std::size_t bytes) override { held_bytes_ -= bytes; }
  std::shared_ptr<std::byte> allocate_host(std::size_t) override {
    return {reinterpret_cast<std::byte*>(kFirstHostAddress), [](std::byte*) {}};
  }

  // As a GPU does: later runs make no requests for memory.
  std::unique_ptr<CapturedLaunches> capture(const std::function<void()>& body) override {
    if (!target_->facts().compute_capability) return nullptr;
    body();
    return std::make_unique<NullLaunches>();
  }

  void copy_to_device(void*, const void*, std::size_t) override {}
  void copy_to_host(void* host, const void*, std::size_t bytes) override {
    if (bytes > 0) std::memset(host, 0, bytes);
  }
  void fill_zero(void*, std::size_t) override {}
  void fill_random(void*, DType, std::int64_t, const TruncatedNormal&, std::uint64_t, const StopPoint&) override {}
  void synchronize() override {}

  bool has_kernel(const Graph& graph, const Node& node) const override { return target_->has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return target_->operand_layout(graph, node, index);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override {
    return target_->writes_strided(graph, node);
  }
  bool pads_rows(const Graph& graph, const Node& node) const override { return target_->pads_rows(graph, node); }
  bool runs_update_beside(const Graph& graph, const Node& node) const override {
    return target_->runs_update_beside(graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<NullKernel>(outline(spec));
  }
  KernelOutline outline(const KernelSpec& spec) override {
    if (runs_beside(spec.node.op)) return {.name = std::string(ridgepoint::name(spec.node.op))};
    std::string key = operation_key(spec.node);
    for (const TensorLayout& layout : spec.inputs) append(key, layout);
    key += '>';
    for (const TensorLayout& layout : spec.outputs) append(key, layout);
    const auto known = outlines_.find(key);
    if (known != outlines_.end()) return known->second;
    return outlines_.emplace(std::move(key), target_->outline(spec)).first->second;
  }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t) override { return std::make_unique<NullTimer>(); }

 private:
  std::shared_ptr<KernelChoices> target_;
  std::size_t memory_bytes_;
  std::size_t held_bytes_ = 0;
  std::uintptr_t next_address_ = kFirstAddress;
  std::unordered_map<std::string, KernelOutline> outlines_;  // by operation and operand layouts
};

}  // namespace

std::shared_ptr<Device> make_null_device(std::shared_ptr<KernelChoices> target,
                                         std::optional<std::size_t> memory_limit_bytes) {
  return std::make_shared<NullDevice>(std::move(target), memory_limit_bytes.value_or(kUnlimitedBytes));
}

}  // namespace ridgepoint
