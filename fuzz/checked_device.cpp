#include "checked_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/queries.h"
#include "ops/layout.h"
#include "runtime/execution/plan_memory.h"

namespace ridgepoint::testing {
namespace {

constexpr std::size_t kMostProblems = 20;
constexpr int kNan = 0xFF;  // each byte of a NaN of every floating dtype

// Calls visit(offset) with the distance in bytes of each element of the layout from its first element.
template <typename Visitor>
void for_each_element(const TensorLayout& layout, const Visitor& visit) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(layout.dtype));
  const std::int64_t count = TensorType{layout.dtype, layout.shape}.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % layout.shape[axis] * layout.strides[static_cast<std::size_t>(axis)];
      rest /= layout.shape[axis];
    }
    visit(offset * element_bytes);
  }
}

}  // namespace

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(CheckedDevice& device, std::unique_ptr<Kernel> kernel, const KernelSpec& spec)
      : device_(device), kernel_(std::move(kernel)), what_(place_of(spec.graph, spec.node)) {
    const std::vector<ValueLayout>& layouts = device.layouts_of(spec.graph);
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      const Value root = layouts[spec.node.inputs[i].id].root;
      const bool is_input = spec.graph.producer_node(root).op == Op::input;
      inputs_.push_back({spec.inputs[i], CheckedDevice::tag_of(root), is_input});
    }
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      outputs_.push_back({spec.outputs[i], CheckedDevice::tag_of(layouts[spec.node.outputs[i].id].root), false});
  }

  std::string_view name() const override { return kernel_->name(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void prepare() override { kernel_->prepare(); }
  std::string_view unfused_because() const override { return kernel_->unfused_because(); }
  void wait() override { kernel_->wait(); }

  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) check(i, arguments.inputs[i]);
    if (arguments.workspace != nullptr && workspace_bytes() > 0)
      std::memset(arguments.workspace, kNan, workspace_bytes());
    for (std::size_t i = 0; i < outputs_.size(); ++i) spoil(outputs_[i], arguments.outputs[i]);
    kernel_->launch(arguments);
  }

 private:
  using Tag = CheckedDevice::Tag;
  struct Operand {
    TensorLayout layout;
    Tag tag;
    bool is_input;  // of the graph
  };

  void check(std::size_t index, const void* address) {
    const Operand& operand = inputs_[index];
    if (address == nullptr) return;
    const std::size_t element_bytes = size_bytes(operand.layout.dtype);
    std::size_t wrong = 0;
    Tag found = CheckedDevice::kNothing;
    for_each_element(operand.layout, [&](std::int64_t offset) {
      const Tag* tags = device_.tags_at(static_cast<const std::byte*>(address) + offset);
      for (std::size_t byte = 0; byte < element_bytes; ++byte) {
        const bool is_right =
            tags != nullptr && (tags[byte] == operand.tag || (operand.is_input && tags[byte] == CheckedDevice::kInput));
        if (is_right) continue;
        found = tags == nullptr ? CheckedDevice::kNothing : tags[byte];
        ++wrong;
      }
    });
    if (wrong == 0 || device_.problems_.size() >= kMostProblems) return;
    const std::string instead = found == CheckedDevice::kNothing ? "nothing of this run"
                                : found == CheckedDevice::kInput ? "an input"
                                                                 : fmt::format("value {}", found - 2);
    device_.problems_.push_back(
        fmt::format("{}: {} bytes of operand {} (value {}) hold {}", what_, wrong, index, operand.tag - 2, instead));
  }

  // Fills a result with NaN, but not where it takes over the memory of an operand of this launch.
  void spoil(const Operand& result, void* address) {
    const std::size_t element_bytes = size_bytes(result.layout.dtype);
    for_each_element(result.layout, [&](std::int64_t offset) {
      std::byte* element = static_cast<std::byte*>(address) + offset;
      Tag* tags = device_.tags_at(element);
      const auto is_read = [&](Tag tag) {
        return std::ranges::any_of(inputs_, [&](const Operand& operand) {
          return operand.tag == tag || (operand.is_input && tag == CheckedDevice::kInput);
        });
      };
      if (!std::any_of(tags, tags + element_bytes, is_read)) std::memset(element, kNan, element_bytes);
      std::fill_n(tags, element_bytes, result.tag);
    });
  }

  CheckedDevice& device_;
  std::unique_ptr<Kernel> kernel_;
  std::string what_;
  std::vector<Operand> inputs_, outputs_;
};

namespace {

class CheckedCommunicator final : public Communicator {
 public:
  CheckedCommunicator(CheckedDevice& device, std::shared_ptr<Communicator> communicator)
      : device_(device), communicator_(std::move(communicator)) {}
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return device_.checked(communicator_->make_kernel(spec), spec);
  }

 private:
  CheckedDevice& device_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace

std::unique_ptr<Kernel> CheckedDevice::checked(std::unique_ptr<Kernel> kernel, const KernelSpec& spec) {
  return std::make_unique<CheckedKernel>(*this, std::move(kernel), spec);
}

std::shared_ptr<Communicator> CheckedDevice::checked(std::shared_ptr<Communicator> communicator) {
  return std::make_shared<CheckedCommunicator>(*this, std::move(communicator));
}

const std::vector<ValueLayout>& CheckedDevice::layouts_of(const Graph& graph) {
  if (std::exchange(graph_, &graph) != &graph) layouts_ = value_layouts(graph);
  return layouts_;
}

void CheckedDevice::begin_run(const Graph& graph) {
  std::vector<Tag> kept;
  for (const Update& update : graph.updates()) kept.push_back(tag_of(view_root(graph, update.value)));
  std::ranges::sort(kept);
  for (auto& [begin, tags] : tags_) {
    for (Tag& tag : tags) {
      if (tag != kInput) tag = std::ranges::binary_search(kept, tag) ? kInput : kNothing;
    }
  }
}

void* CheckedDevice::allocate_memory(std::size_t bytes) {
  void* address = device_->allocate_memory(bytes);
  if (address == nullptr) return nullptr;
  std::memset(address, kNan, bytes);
  tags_[reinterpret_cast<std::uintptr_t>(address)].assign(bytes, kNothing);
  return address;
}

void CheckedDevice::release_memory(void* address, std::size_t bytes) {
  tags_.erase(reinterpret_cast<std::uintptr_t>(address));
  device_->release_memory(address, bytes);
}

void CheckedDevice::copy_to_device(void* device_address, const void* host, std::size_t bytes) {
  device_->copy_to_device(device_address, host, bytes);
  set_tags(device_address, bytes, kInput);
}

void CheckedDevice::fill_zero(void* device_address, std::size_t bytes) {
  device_->fill_zero(device_address, bytes);
  set_tags(device_address, bytes, kInput);
}

void CheckedDevice::fill_random(void* device_address, DType dtype, std::int64_t count,
                                const TruncatedNormal& distribution, std::uint64_t stream,
                                const StopPoint& stop_point) {
  device_->fill_random(device_address, dtype, count, distribution, stream, stop_point);
  set_tags(device_address, static_cast<std::size_t>(count) * size_bytes(dtype), kInput);
}

CheckedDevice::Tag* CheckedDevice::tags_at(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  auto after = tags_.upper_bound(number);
  if (after == tags_.begin()) return nullptr;
  auto& [begin, tags] = *--after;
  return number - begin < tags.size() ? tags.data() + (number - begin) : nullptr;
}

void CheckedDevice::set_tags(void* address, std::size_t bytes, Tag tag) {
  if (bytes > 0) std::fill_n(tags_at(address), bytes, tag);
}

}  // namespace ridgepoint::testing
