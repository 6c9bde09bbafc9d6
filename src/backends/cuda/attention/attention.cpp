// Flash attention (Dao et al. 2022): the host side of attention_*.cu. Operands and results are [...,S,D] in any layout
// with aligned rows less than 2^31 elements apart; the log-sum-exp is dense. bf16 and fp16: head sizes up to 256, a
// multiple of 8; forward needs a positive, finite scale. fp32, with the accuracy of fp32: head sizes up to 128, on
// Hopper 256, a multiple of 4, at any scale.
//
// The rows of attention/variants.h; for each op and dtype those of Hopper come first, and of each the smallest head
// size.
#include "backends/cuda/hand_written.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "backends/cuda/attention/common/host.h"
#include "backends/cuda/attention/common/variants.h"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

class Attention : public Kernel {
 public:
  Attention(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
    const AttentionSizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    const KernelTiling& tiling = variant.tiling;
    set_sizes(parameters_, spec, sizes);
    set_all_rows(parameters_, spec);
    kernel_ = stage_of(context, variant, variant.entry, ceil_divide(sizes.queries, tiling.rows) * sizes.batch,
                       tiling.threads, tiling.shared_bytes);
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    set_addresses(parameters_, arguments);
    kernel_.launch(parameters_);
  }

 private:
  AttentionForward parameters_;
  Launchable kernel_;
};

// The workspace of the backward: q's gradient as fp32 sums, the products sum(do o), the semaphores of the blocks of
// queries and the number of blocks that have started.
struct GradientWorkspace {
  GradientWorkspace(const KernelVariant& variant, const KernelSpec& spec) {
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    const std::int64_t query_blocks = ceil_divide(sizes.queries, variant.tiling.rows);
    const std::int64_t sums = sizes.batch * query_blocks * variant.tiling.rows * variant.tiling.width;
    sum_bytes = variant.finish_entry == nullptr ? 0 : static_cast<std::size_t>(sums) * sizeof(float);
    product_bytes = static_cast<std::size_t>(sizes.batch * sizes.queries) * sizeof(float);
    semaphores = static_cast<std::size_t>(sizes.batch * query_blocks);
  }
  std::size_t bytes() const { return sum_bytes + product_bytes + (semaphores + 1) * sizeof(unsigned); }

  std::size_t sum_bytes, product_bytes, semaphores;
};

// Three launches: sum(do o) of each query; the gradients, with q's as fp32 sums; and q's gradient from these sums. For
// fp32 there are two, because q's gradient itself has the sums.
class AttentionGradient : public Kernel {
 public:
  AttentionGradient(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : workspace_(variant, spec) {
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    const KernelTiling& tiling = variant.tiling;
    set_sizes(parameters_, spec, sizes);
    set_all_rows(parameters_, spec);
    parameters_.batch = static_cast<int>(sizes.batch);
    const std::int64_t query_blocks = ceil_divide(sizes.queries, tiling.rows);
    query_blocks_ = static_cast<int>(query_blocks);

    stages_ = {stage_of(context, variant, variant.prepare_entry,
                        block_count(sizes.batch * sizes.queries, kRowsToPrepare), 8 * kRowsToPrepare),
               stage_of(context, variant, variant.entry, ceil_divide(sizes.keys, tiling.columns) * sizes.batch,
                        tiling.threads, tiling.shared_bytes)};
    if (variant.finish_entry == nullptr) return;
    stages_.push_back(stage_of(context, variant, variant.finish_entry, query_blocks * sizes.batch, tiling.threads));
  }

  std::string_view name() const override { return stages_[1].name; }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    set_addresses(parameters_, arguments);
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    parameters_.dq_sums = reinterpret_cast<float*>(workspace);
    parameters_.products = reinterpret_cast<float*>(workspace + workspace_.sum_bytes);
    parameters_.semaphores = reinterpret_cast<unsigned*>(workspace + workspace_.sum_bytes + workspace_.product_bytes);
    parameters_.started = parameters_.semaphores + workspace_.semaphores;
    for (const Launchable& stage : stages_) stage.launch(parameters_, query_blocks_);
  }

 private:
  static constexpr int kRowsToPrepare = 32;  // for each block, as in attention_products.cuh

  AttentionBackward parameters_;
  GradientWorkspace workspace_;
  int query_blocks_ = 0;
  std::vector<Launchable> stages_;
};

// The forward kernels of 16-bit operands find the maximum of a row before they scale it, which needs a positive scale.
bool supports_scale(const Node& node, DType dtype) {
  if (node.op == Op::attention_backward || dtype == DType::fp32) return true;
  const auto scale = static_cast<float>(node.attributes.get<double>("scale"));
  return scale > 0 && scale <= std::numeric_limits<float>::max() / 2;  // it is multiplied by log2(e)
}

// Whether a head is a whole number of vectors and not wider than the kernel's, and the blocks fit a grid.
bool supports_sizes(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const auto q = static_cast<std::size_t>(variant.operand);
  const AttentionSizes sizes = sizes_of(graph.type(node.inputs[q]).shape, graph.type(node.inputs[q + 1]).shape);
  if (has_sinks(node) || sizes.width > variant.tiling.width) return false;
  if (sizes.width * static_cast<std::int64_t>(size_bytes(variant.dtype)) % kVectorBytes != 0) return false;
  if (!supports_scale(node, variant.dtype) || sizes.queries == 0 || sizes.batch == 0) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 64;
  const std::int64_t rows = std::max(sizes.queries, sizes.keys);
  return rows <= kMost && sizes.batch * ceil_divide(rows, 32) <= kMost;
}

bool supports_portable(const KernelVariant& variant, const Graph& graph, const Node& node) {
  return !sums_key_gradients(node) && !has_rotary_tables(node) && supports_sizes(variant, graph, node);
}

// Where a value lies in the storage of its root. A view that strides cannot express will be a copy.
ValueLayout layout_of(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  ValueLayout own{value, 0, dense_layout(graph.type(value))};
  if (op_class(node.op) != OpClass::view) return own;
  std::vector<ValueLayout> views = view_layouts(graph, node, layout_of(graph, node.inputs[0]));
  if (views.empty()) return own;
  return views[static_cast<std::size_t>(std::ranges::find(node.outputs, value) - node.outputs.begin())];
}

// Tables are read in vectors, and reached by an index of 32 bits. One that is not dense will be a copy.
bool supports_rotary_tables(const Graph& graph, const Node& node) {
  if (!has_rotary_tables(node)) return true;
  constexpr std::int64_t kVectorElements = kVectorBytes / 4;
  return std::ranges::all_of(std::array{kCosinesOfAttention, kSinesOfAttention}, [&](std::size_t table) {
    const ValueLayout found = layout_of(graph, node.inputs[table]);
    return found.layout.shape[1] % kVectorElements == 0 &&
           found.layout.shape.elements() <= std::numeric_limits<std::int32_t>::max() &&
           (!found.layout.is_dense() || found.offset % kVectorElements == 0);
  });
}

// Whether an index of 32 bits reaches the sums of dq in vectors of four: 64 GiB of them. Heads narrower than the
// kernel's have sums as wide as it.
bool supports_sums(const KernelVariant& variant, const Graph& graph, const Node& node) {
  if (node.op == Op::attention) return true;
  const Shape& q = graph.type(node.inputs[static_cast<std::size_t>(variant.operand)]).shape;
  const AttentionSizes sizes = sizes_of(q, q);
  constexpr std::int64_t kPanelColumns = 64;
  const std::int64_t sums = sizes.batch * round_up(sizes.queries, variant.tiling.rows) *
                            round_up(std::int64_t{variant.tiling.width}, kPanelColumns);
  return sums / 4 <= std::int64_t{std::numeric_limits<std::uint32_t>::max()} + 1;
}

bool supports_hopper(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const std::int64_t keys = graph.type(node.inputs[static_cast<std::size_t>(variant.operand) + 1]).shape[-2];
  return supports_sizes(variant, graph, node) && supports_sums(variant, graph, node) &&
         supports_hopper_form(variant, attention_form(node.attributes), keys) && supports_rotary_tables(graph, node);
}

bool supports_hopper_split(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const auto q = static_cast<std::size_t>(variant.operand);
  const AttentionSizes sizes = sizes_of(graph.type(node.inputs[q]).shape, graph.type(node.inputs[q + 1]).shape);
  return supports_hopper_split_form(variant, node, sizes) && !has_rotary_tables(node) &&
         supports_sizes(variant, graph, node);
}

OperandLayout attention_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index >= kLogSumExpOperand ? OperandLayout::dense : OperandLayout::aligned_rows;
}

constexpr DType dtype_of(AttentionElement element) {
  switch (element) {
    case AttentionElement::bf16: return DType::bf16;
    case AttentionElement::fp16: return DType::fp16;
    case AttentionElement::fp32: break;
  }
  return DType::fp32;
}

std::size_t backward_workspace_bytes(const KernelVariant& variant, const CardFacts& /*card*/, const KernelSpec& spec) {
  return GradientWorkspace(variant, spec).bytes();
}

// Blocks have the queries of a tiling, in backward its keys, unless the row says otherwise.
template <class Tiling>
AttentionRate rate_of(const AttentionVariant<Tiling>& row, int block) {
  AttentionRate rate = row.rate;
  if (rate.block == 0) rate.block = block;
  rate.width = row.tiling.width;
  if constexpr (requires { row.tiling.divided; }) rate.is_divided = row.tiling.divided;
  return rate;
}

// In a tiling, rows are queries and columns are keys.
template <class Tiling>
KernelVariant forward(const AttentionVariant<Tiling>& row, const char* image) {
  const Tiling& tiling = row.tiling;
  return {.op = Op::attention,
          .dtype = dtype_of(row.element),
          .supports_node = supports_portable,
          .tiling = {tiling.width, tiling.rows, tiling.keys, tiling.threads(), tiling.forward_shared_bytes()},
          .image = image,
          .entry = row.entry,
          .finish_entry = row.finish_entry,
          .layout = attention_layout,
          .strided_results = true,
          .rate = rate_of(row, tiling.rows),
          .make = make_variant<Attention>};
}
template <class Tiling>
KernelVariant backward(const AttentionVariant<Tiling>& row, const char* image) {
  const Tiling& tiling = row.tiling;
  return {.op = Op::attention_backward,
          .dtype = dtype_of(row.element),
          .operand = 1,  // q
          .supports_node = supports_portable,
          .tiling = {tiling.width, tiling.rows, tiling.keys, tiling.threads(), tiling.backward_shared_bytes()},
          .image = image,
          .entry = row.entry,
          .prepare_entry = row.prepare_entry,
          .finish_entry = row.finish_entry,
          .layout = attention_layout,
          .strided_results = true,
          .workspace_bytes = backward_workspace_bytes,
          .rate = rate_of(row, tiling.keys),
          .make = make_variant<AttentionGradient>};
}

// In a tiling of Hopper's kernels, rows are queries and columns are keys too.
KernelVariant for_hopper(KernelVariant variant, decltype(KernelVariant::supports_node) supports,
                         decltype(KernelVariant::workspace_bytes) workspace_bytes, decltype(KernelVariant::make) make) {
  variant.supports_node = supports;
  variant.least_capability = {9, 0};
  variant.is_for_that_capability_alone = true;
  variant.workspace_bytes = workspace_bytes;
  variant.make = make;
  return variant;
}
// Of 16-bit operands.
KernelVariant for_half_on_hopper(KernelVariant variant) {
  variant.supports_layouts = supports_hopper_layouts;
  variant.is_preferred = is_preferred_on_hopper;
  return variant;
}

KernelVariant hopper_forward(const AttentionVariant<HopperForwardTiling>& row) {
  return for_half_on_hopper(for_hopper(forward(row, "attention_forward_wgmma"), supports_hopper,
                                       hopper_forward_workspace_bytes, make_hopper_forward));
}
KernelVariant hopper_backward(const AttentionVariant<HopperBackwardTiling>& row) {
  return for_half_on_hopper(for_hopper(backward(row, "attention_backward_wgmma"), supports_hopper,
                                       hopper_backward_workspace_bytes, make_hopper_backward));
}
KernelVariant hopper_split_forward(const AttentionVariant<HopperSplitForwardTiling>& row) {
  KernelVariant variant = for_hopper(forward(row, "attention_split_forward_wgmma"), supports_hopper_split,
                                     hopper_split_forward_workspace_bytes, make_hopper_split_forward);
  variant.prepare_entry = row.prepare_entry;
  return variant;
}
KernelVariant hopper_split_backward(const AttentionVariant<HopperSplitBackwardTiling>& row) {
  const bool is_wide = row.tiling.width > 128;
  return for_hopper(backward(row, is_wide ? "attention_split_wide_backward_wgmma" : "attention_split_backward_wgmma"),
                    supports_hopper_split, hopper_split_backward_workspace_bytes, make_hopper_split_backward);
}

}  // namespace

std::span<const KernelVariant> attention_variants() {
  static const std::vector<KernelVariant> variants = [] {
    std::vector<KernelVariant> made;
    for (const auto& row : kHopperForwardVariants) made.push_back(hopper_forward(row));
    for (const auto& row : kHopperSplitForwardVariants) made.push_back(hopper_split_forward(row));
    for (const auto& row : kForwardVariants) made.push_back(forward(row, "attention_forward"));
    for (const auto& row : kSplitForwardVariants) made.push_back(forward(row, "attention_split_forward"));
    for (const auto& row : kHopperBackwardVariants) made.push_back(hopper_backward(row));
    for (const auto& row : kHopperSplitBackwardVariants) made.push_back(hopper_split_backward(row));
    for (const auto& row : kBackwardVariants) made.push_back(backward(row, "attention_backward"));
    for (const auto& row : kSplitBackwardVariants) made.push_back(backward(row, "attention_split_backward"));
    return made;
  }();
  return variants;
}

}  // namespace ridgepoint::cuda
