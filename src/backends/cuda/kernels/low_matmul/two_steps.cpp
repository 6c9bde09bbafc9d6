#include "backends/cuda/kernels/low_matmul/two_steps.h"

#include <algorithm>
#include <string>

#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/matmul/matmul.h"
#include "backends/rounding.h"
#include "passes/fusion/fused_body.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kBufferAlignmentBytes = 512;

}  // namespace

std::size_t buffer_bytes(const TensorLayout& layout) {
  std::int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    last += (layout.shape[axis] - 1) * layout.strides[static_cast<std::size_t>(axis)];
  }
  return round_up(static_cast<std::size_t>(last + 1) * size_bytes(layout.dtype), kBufferAlignmentBytes);
}

TwoSteps::TwoSteps(CudaContext& context, const KernelSpec& spec, const SwigluNode& swiglu)
    : body_(spec.node.body->graph), halves_(swiglu.halves) {
  const Node& product = body_.node(swiglu.product);
  product_layout_ = swiglu.halves ? spec.outputs[*swiglu.halves] : dense_layout(body_.type(product.outputs[0]));
  if (!swiglu.halves) product_bytes_ = buffer_bytes(product_layout_);
  product_ = make_matmul_kernel(context, {body_, product, spec.inputs.first(2), std::span(&product_layout_, 1)});
  make_end(context, spec, swiglu.product);
}

// One generated kernel for all nodes but the product.
void TwoSteps::make_end(CudaContext& context, const KernelSpec& spec, NodeId product) {
  std::vector<NodeId> members;
  for (const NodeId id : body_.order()) {
    if (id != product && launches(body_.node(id).op) && !is_repeated(body_.node(id))) members.push_back(id);
  }
  const Fusion fusion = fuse(body_, Storage(body_), members);
  const std::vector<ValueLayout> layouts = value_layouts(body_);
  std::vector<TensorLayout> inputs, outputs;
  for (const Value value : fusion.inputs) inputs.push_back(add_source(layouts[value.id], spec));
  for (const Value value : fusion.results) {
    const auto output = std::ranges::find(body_.outputs(), value, &Output::value);
    results_.push_back(std::stoul(output->name));
    outputs.push_back(spec.outputs[results_.back()]);
  }
  inputs_.resize(inputs.size());
  outputs_.resize(outputs.size());
  Node end;
  end.op = Op::fused;
  end.inputs = fusion.inputs;
  end.outputs = fusion.results;
  end.body = fusion.body;
  end_ = make_generated_kernel(context, {body_, end, inputs, outputs});
}

// The layout of an operand of the generated kernel: an operand of the node, or a part of the product.
TensorLayout TwoSteps::add_source(const ValueLayout& operand, const KernelSpec& spec) {
  const Node& root = body_.producer_node(operand.root);
  if (root.op == Op::input) {
    sources_.push_back({std::stoul(input_name(root)), 0});
    return spec.inputs[*sources_.back().input];
  }
  TensorLayout layout = operand.layout;
  layout.strides[0] = product_layout_.strides[0];
  sources_.push_back({std::nullopt, operand.offset * static_cast<std::int64_t>(size_bytes(layout.dtype))});
  return layout;
}

void TwoSteps::launch(const LaunchArguments& arguments) {
  auto* const workspace = static_cast<std::byte*>(arguments.workspace);
  void* product = halves_ ? arguments.outputs[*halves_] : workspace;
  void* const rest = workspace + product_bytes_;
  product_->launch({arguments.inputs, &product, rest});
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    void* const base = source.input ? arguments.inputs[*source.input] : product;
    inputs_[i] = static_cast<std::byte*>(base) + source.offset_bytes;
  }
  for (std::size_t i = 0; i < results_.size(); ++i) outputs_[i] = arguments.outputs[results_[i]];
  end_->launch({inputs_.data(), outputs_.data(), rest});
}

}  // namespace ridgepoint::cuda
