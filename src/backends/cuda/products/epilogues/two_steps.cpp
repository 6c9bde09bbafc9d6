#include "backends/cuda/products/epilogues/two_steps.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/pattern.h"
#include "backends/cuda/products/matmul.h"
#include "core/rounding.h"
#include "core/text/throw_error.h"
#include "ir/queries.h"
#include "passes/fusion/fused_body.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kBufferAlignmentBytes = 512;

}  // namespace

std::size_t buffer_bytes(const TensorLayout& layout) {
  std::int64_t last = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    last += (layout.shape[axis] - 1) * layout.strides[static_cast<std::size_t>(axis)];
  return round_up(static_cast<std::size_t>(last + 1) * size_bytes(layout.dtype), kBufferAlignmentBytes);
}

ProductSteps::ProductSteps(const KernelSpec& spec)
    : body_(spec.node.body->graph),
      product_(product_of(body_).value()),
      product_inputs_(spec.inputs.begin(), spec.inputs.begin() + 2) {
  product_place_ = place_result(body_.node(product_).outputs[0], spec, product_layout_);
  make_epilogue();
  for (const Value value : epilogue_.inputs) sources_.push_back(find_source(value, spec));
  for (const Value value : epilogue_.outputs) results_.push_back(place_result(value, spec, outputs_.emplace_back()));
}

// The only composite after the product, or one fused node of all nodes.
void ProductSteps::make_epilogue() {
  std::vector<NodeId> members;
  for (const NodeId id : body_.order()) {
    if (id != product_ && launches(body_.node(id).op) && !is_repeated(body_.node(id))) members.push_back(id);
  }
  if (members.size() == 1 && op_class(body_.node(members[0]).op) == OpClass::composite) {
    epilogue_ = body_.node(members[0]);
    return;
  }
  const Fusion fusion = fuse(body_, Storage(body_), members);
  epilogue_.op = Op::fused;
  epilogue_.inputs = fusion.inputs;
  epilogue_.outputs = fusion.results;
  epilogue_.body = fusion.body;
}

// The layout that a value has within `result`, a concat of the body at `whole`. The product lies there whole if what is
// put beside other results are its own columns, in their places; the epilogue then takes the places of its operand.
std::optional<ValueLayout> ProductSteps::layout_within(Value result, const ValueLayout& whole, Value value) const {
  const Node& concat = body_.producer_node(result);
  if (concat.op != Op::concat) return std::nullopt;
  for (std::size_t i = 0; i < concat.inputs.size(); ++i) {
    const std::optional<PlacedValue> placed = placed_operand(body_, concat, i, whole);
    if (placed && placed->value == value) return placed->layout;
  }
  const auto are_its_parts = [&](const Node& split) {
    if (split.op != Op::split || split.inputs[0] != value || split.outputs.size() != concat.inputs.size()) return false;
    return std::ranges::equal(concat.inputs, split.outputs, [&](Value operand, Value part) {
      const bool is_beside = operand == part || view_root(body_, operand) != value;
      return is_beside && body_.type(operand).shape == body_.type(part).shape;
    });
  };
  const bool is_whole =
      body_.type(result) == body_.type(value) &&
      std::ranges::any_of(concat.inputs, [&](Value operand) { return are_its_parts(body_.producer_node(operand)); });
  return is_whole ? std::optional(whole) : std::nullopt;
}

// A result of the node may be a view of the value, and the value is dense then; or have the value in a part of it.
ProductSteps::Place ProductSteps::place_result(Value value, const KernelSpec& spec, TensorLayout& layout) {
  layout = dense_layout(body_.type(value));
  for (const Output& output : body_.outputs()) {
    const std::size_t index = std::stoul(output.name);
    const auto within = layout_within(output.value, {output.value, 0, spec.outputs[index]}, value);
    if (within) {
      layout = within->layout;
      return {Place::Of::results, index, static_cast<std::size_t>(within->offset) * size_bytes(layout.dtype)};
    }
    if (view_root(body_, output.value) != value) continue;
    if (output.value == value) layout = spec.outputs[index];
    return {Place::Of::results, index, 0};
  }
  return {Place::Of::workspace, 0, std::exchange(buffers_bytes_, buffers_bytes_ + buffer_bytes(layout))};
}

ProductSteps::Place ProductSteps::find_source(Value value, const KernelSpec& spec) {
  const ValueLayout found = layout_of(value, spec);
  inputs_.push_back(found.layout);
  const Node& root = body_.producer_node(found.root);
  Place place = product_place_;
  if (root.op == Op::input) place = {Place::Of::inputs, std::stoul(input_name(root)), 0};
  place.offset += static_cast<std::size_t>(found.offset) * size_bytes(found.layout.dtype);
  return place;
}

// Of an operand of the node, the product, or a view of either.
ValueLayout ProductSteps::layout_of(Value value, const KernelSpec& spec) const {
  const Node& node = body_.producer_node(value);
  if (node.op == Op::input) return {value, 0, spec.inputs[std::stoul(input_name(node))]};
  if (op_class(node.op) != OpClass::view) return {value, 0, product_layout_};
  const std::vector<ValueLayout> views = view_layouts(body_, node, layout_of(node.inputs[0], spec));
  if (views.empty())
    throw_error(ErrorKind::unsupported, "a view of {} within '{}' cannot be expressed by strides", name(node.op),
                body_.name);
  return views[static_cast<std::size_t>(std::ranges::find(node.outputs, value) - node.outputs.begin())];
}

std::size_t ProductSteps::workspace_bytes(const CardFacts& card) const {
  const std::size_t of_epilogue = has_hand_written(card, body_, epilogue_)
                                      ? outline_hand_written(card, epilogue()).workspace_bytes
                                      : outline_generated(card, epilogue()).workspace_bytes;
  return buffers_bytes_ + std::max(outline_matmul(card, product()).workspace_bytes, of_epilogue);
}

void* ProductSteps::Place::address(const LaunchArguments& arguments) const {
  void* const base = of == Of::inputs    ? arguments.inputs[index]
                     : of == Of::results ? arguments.outputs[index]
                                         : arguments.workspace;
  return static_cast<std::byte*>(base) + offset;
}

TwoSteps::TwoSteps(CudaContext& context, const KernelSpec& spec, std::size_t least_workspace_bytes)
    : steps_(spec),
      least_workspace_bytes_(least_workspace_bytes),
      product_(make_matmul_kernel(context, steps_.product())),
      inputs_(steps_.sources().size()),
      outputs_(steps_.results().size()) {
  const KernelSpec epilogue = steps_.epilogue();
  epilogue_ = has_hand_written(context.card(), epilogue.graph, epilogue.node)
                  ? make_hand_written_kernel(context, epilogue)
                  : make_generated_kernel(context, epilogue);
}

std::size_t TwoSteps::workspace_bytes() const {
  const std::size_t of_steps = std::max(product_->workspace_bytes(), epilogue_->workspace_bytes());
  return std::max(steps_.buffers_bytes() + of_steps, least_workspace_bytes_);
}

void TwoSteps::prepare() {
  product_->prepare();
  epilogue_->prepare();
}

void TwoSteps::launch(const LaunchArguments& arguments) {
  void* const rest = static_cast<std::byte*>(arguments.workspace) + steps_.buffers_bytes();
  void* product = steps_.product_place().address(arguments);
  product_->launch({arguments.inputs, &product, rest});
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = steps_.sources()[i].address(arguments);
  for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = steps_.results()[i].address(arguments);
  epilogue_->launch({inputs_.data(), outputs_.data(), rest});
}

}  // namespace ridgepoint::cuda
