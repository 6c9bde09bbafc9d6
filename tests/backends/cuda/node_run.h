// Runs one node with any number of outputs on the GPU, and on the reference back end in double.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/card_harness.h"
#include "ops/rule.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

// The operand's storage begins one element later, so that nothing is aligned to vectors.
inline Operand shifted(Operand operand) {
  operand.storage.insert(operand.storage.begin(), size_bytes(operand.layout.dtype), std::byte{0});
  ++operand.offset;
  return operand;
}

inline std::vector<std::int64_t> random_indices(std::int64_t count, std::int64_t bound, std::mt19937& random) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t& index : indices) index = std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
  return indices;
}

// The node of `op` on `operands`, in a graph of its own.
struct LoneNode {
  LoneNode(Op op, const std::vector<Operand>& operands, const Attributes& attributes,
           std::optional<DType> floating = std::nullopt) {
    for (const Operand& operand : operands) {
      TensorType type = operand.type();
      if (floating && is_floating(type.dtype)) type.dtype = *floating;
      values.push_back(input(graph, std::to_string(values.size()), type, Role::data));
    }
    id = make_node(graph, op, values, attributes);
  }
  const Node& node() const { return graph.node(id); }

  Graph graph;
  std::vector<Value> values;
  NodeId id;
};

inline HostTensor dense(const Operand& operand, const TensorType& type) {
  HostTensor tensor(type);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    std::byte* element = tensor.data.data() + static_cast<std::size_t>(i) * size_bytes(type.dtype);
    store_element(type.dtype, element, operand.at(unravel(type.shape, i)));
  }
  return tensor;
}

// Every output of the node, by the device's kernel or its decomposition.
inline std::vector<HostTensor> outputs_of(LoneNode lone, const std::shared_ptr<Device>& device,
                                          const std::vector<Operand>& operands) {
  Tensors inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.emplace(std::to_string(i), dense(operands[i], lone.graph.type(lone.values[i])));
  const std::size_t count = lone.node().outputs.size();
  for (std::size_t i = 0; i < count; ++i) lone.graph.add_output(std::to_string(i), lone.node().outputs[i]);
  Tensors found = run_graph(std::move(lone.graph), device, inputs);
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < count; ++i) outputs.push_back(std::move(found.at(std::to_string(i))));
  return outputs;
}

// In double precision.
inline std::vector<HostTensor> reference_outputs(Op op, const std::vector<Operand>& operands,
                                                 const Attributes& attributes) {
  return outputs_of(LoneNode(op, operands, attributes, DType::fp64), open_device("reference"), operands);
}

// A kernel of the GPU. Outputs and workspace are filled with a pattern (with in_place, a donated operand's output has
// its values) and end in a guard. Outputs have the layouts of `places`, the others are dense.
class NodeRun {
 public:
  using MakeKernel = std::function<std::unique_ptr<Kernel>(const KernelSpec& spec)>;

  NodeRun(Device& device, Op op, const std::vector<Operand>& operands, const Attributes& attributes,
          bool in_place = false, const std::vector<LayoutChoice>& places = {})
      : NodeRun(
            device, op, operands, attributes, [&](const KernelSpec& spec) { return device.make_kernel(spec); },
            in_place, places) {}
  // With another kernel than the device would choose.
  NodeRun(Device& device, Op op, const std::vector<Operand>& operands, const Attributes& attributes,
          const MakeKernel& make, bool in_place = false, const std::vector<LayoutChoice>& places = {})
      : device_(device), operands_(operands), lone_(op, operands, attributes), in_place_(in_place) {
    std::vector<TensorLayout> inputs;
    std::vector<TensorLayout> outputs;
    for (const Operand& operand : operands) inputs.push_back(operand.layout);
    for (std::size_t i = 0; i < lone_.node().outputs.size(); ++i) {
      const TensorType& type = lone_.graph.type(lone_.node().outputs[i]);
      results_.push_back(make_operand(type.dtype, type.shape, i < places.size() ? places[i] : LayoutChoice{}));
      outputs.push_back(results_.back().layout);
    }
    kernel_ = make({lone_.graph, lone_.node(), inputs, outputs});
  }

  std::vector<HostTensor> launch() {
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<void*> inputs;
    for (const Operand& operand : operands_) {
      std::vector<std::byte> bytes = operand.storage;
      bytes.resize(bytes.size() + kGuardBytes, kGuard);
      copies.push_back(std::make_unique<DeviceCopy>(device_, bytes));
      const std::size_t offset = static_cast<std::size_t>(operand.offset) * size_bytes(operand.layout.dtype);
      inputs.push_back(operand.layout.immediate ? nullptr : copies.back()->address() + offset);
    }
    const std::vector<int> donor = donors();
    std::vector<const DeviceCopy*> homes;
    std::vector<void*> outputs;
    for (std::size_t i = 0; i < donor.size(); ++i) {
      if (donor[i] >= 0) {
        homes.push_back(copies[static_cast<std::size_t>(donor[i])].get());
        outputs.push_back(inputs[static_cast<std::size_t>(donor[i])]);
        continue;
      }
      const std::size_t bytes = results_[i].storage.size();
      copies.push_back(std::make_unique<DeviceCopy>(device_, std::vector(bytes + kGuardBytes, kGuard)));
      homes.push_back(copies.back().get());
      outputs.push_back(copies.back()->address() +
                        static_cast<std::size_t>(results_[i].offset) * size_bytes(results_[i].layout.dtype));
    }
    const DeviceCopy workspace(device_, std::vector(kernel_->workspace_bytes() + kGuardBytes, kGuard));
    kernel_->launch({inputs.data(), outputs.data(), workspace.address()});
    device_.synchronize();
    expect_guard(workspace.read());
    return collect(homes, outputs);
  }

  Kernel& kernel() { return *kernel_; }
  // For results whose rows are padded for this kernel alone, in which nothing else lies between them.
  void let_padding_be_written() { may_write_padding_ = true; }

 private:
  static constexpr std::byte kGuard{0x7f};  // 3e38 as a float, so that an unwritten element is far from any result
  static constexpr std::size_t kGuardBytes = 64;

  // For each output: the operand whose storage it takes, or -1.
  std::vector<int> donors() const {
    std::vector<int> donor(lone_.node().outputs.size(), -1);
    if (!in_place_) return donor;
    for (const auto& [output, operand] : rule(lone_.node().op).donations(lone_.node())) {
      donor[static_cast<std::size_t>(output)] = operand;
    }
    return donor;
  }

  std::vector<HostTensor> collect(const std::vector<const DeviceCopy*>& homes,
                                  const std::vector<void*>& addresses) const {
    std::vector<HostTensor> tensors;
    for (std::size_t i = 0; i < homes.size(); ++i) {
      std::vector<std::byte> bytes = homes[i]->read();
      expect_guard(bytes);
      const std::ptrdiff_t skipped = static_cast<std::byte*>(addresses[i]) - homes[i]->address();
      tensors.push_back(take(results_[i].layout, std::span(bytes).subspan(static_cast<std::size_t>(skipped))));
      const auto is_untouched = [](std::byte b) { return b == kGuard; };
      if (results_[i].layout.is_dense() || may_write_padding_) continue;
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), is_untouched)) << kernel_->name() << " wrote beside its rows";
    }
    return tensors;
  }

  // The elements of a result in row-major order; its memory gets the pattern back.
  static HostTensor take(const TensorLayout& layout, std::span<std::byte> from) {
    HostTensor tensor({layout.dtype, layout.shape});
    const std::size_t bytes = size_bytes(layout.dtype);
    for (std::int64_t i = 0; i < layout.shape.elements(); ++i) {
      std::int64_t at = 0;
      const std::vector<std::int64_t> index = unravel(layout.shape, i);
      for (std::size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * layout.strides[axis];
      const std::span<std::byte> element = from.subspan(static_cast<std::size_t>(at) * bytes, bytes);
      std::copy(element.begin(), element.end(), tensor.data.begin() + i * static_cast<std::ptrdiff_t>(bytes));
      if (!layout.is_dense()) std::fill(element.begin(), element.end(), kGuard);
    }
    return tensor;
  }

  void expect_guard(const std::vector<std::byte>& bytes) const {
    EXPECT_TRUE(std::all_of(bytes.end() - kGuardBytes, bytes.end(), [](std::byte b) { return b == kGuard; }))
        << kernel_->name() << " wrote past its memory";
  }

  Device& device_;
  std::vector<Operand> operands_;
  std::vector<Operand> results_;  // layouts and sizes
  LoneNode lone_;
  bool in_place_;
  bool may_write_padding_ = false;
  std::unique_ptr<Kernel> kernel_;
};

// The results are as near to the expected ones as tolerance(i, dtype) says, and the same bits in every run.
template <typename Tolerance>
void expect_near_and_repeated(NodeRun& run, const std::vector<HostTensor>& expected, std::string_view name,
                              const Tolerance& tolerance) {
  const std::vector<HostTensor> found = run.launch();
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(relative_error(found[i], expected[i]), tolerance(i, found[i].type.dtype))
        << name << " output " << i << " of " << found[i].type.to_string();
  }
  const std::vector<HostTensor> again = run.launch();
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].data, again[i].data) << name << " differs from run to run";
}

}  // namespace ridgepoint::testing
