#include "backends/cuda/products/epilogues/plans.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/rope/parameters.h"
#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in rope_matmul_wgmma.cu.
constexpr std::array<EpilogueTiling, 2> kRopeShapes = {{{128, 128, 1, 1}, {128, 128, 2, 1}}};

// Rows of the product are [...,S] of the heads [...,S,H,D].
std::optional<RopeEpilogue> rope_in(const Graph& body, const MatrixProduct& product, bool adds_bias,
                                    bool has_other_columns) {
  const Term bias = Term::input(4);
  const Term z = adds_bias ? Term::product() + bias : Term::product();
  const Term part = has_other_columns ? Term::call(Op::split, {z}) : z;
  const Term rope = Term::call(Op::rope, {Term::call(Op::reshape, {part}), Term::input(2), Term::input(3)});
  const Term rotated = Term::call(Op::reshape, {rope});
  const Term whole = has_other_columns ? Term::call(Op::concat, {rotated, Term::other_parts_of(z)}) : rotated;
  const std::optional<Match> found = match(body, {{whole}});
  if (!found || found->type(whole) != product.type(product.n) || found->type(rotated) != found->type(part))
    return std::nullopt;
  if (adds_bias && found->type(bias) != TensorType{product.dtype, {product.n}}) return std::nullopt;
  const Node& node = found->node(rope);
  const Shape& heads = found->type(rope).shape;
  const int rank = heads.rank();
  const std::int64_t columns = found->type(part).shape[1];
  if (rank < 3 || node.attributes.get<bool>("inverse") || heads[-2] * heads[-1] != columns) return std::nullopt;
  if (normalise_axis(node.attributes.get<std::int64_t>("axis"), rank) != rank - 3) return std::nullopt;
  return RopeEpilogue{
      .product = product, .sequence = heads[-3], .head = heads[-1], .columns = columns, .adds_bias = adds_bias};
}

}  // namespace

std::optional<RopeEpilogue> rope_of(const FusedBody& body) {
  const std::optional<MatrixProduct> product = MatrixProduct::of(body.graph);
  if (!product) return std::nullopt;
  for (const bool adds_bias : {false, true}) {
    for (const bool has_other_columns : {false, true}) {
      if (const auto found = rope_in(body.graph, *product, adds_bias, has_other_columns)) return found;
    }
  }
  return std::nullopt;
}

std::optional<RopePlan> RopePlan::of(const RopeEpilogue& epilogue, const KernelSpec& spec) {
  const std::optional<ProductOperands> operands = ProductOperands::of(epilogue.product, false, spec);
  if (!operands || spec.inputs[2].shape.elements() > ProductOperands::kLargestSize)  // tables have 32-bit indices
    return std::nullopt;
  RopePlan plan;
  plan.epilogue_ = epilogue;
  plan.operands_ = *operands;
  plan.result_row_ = line_of(spec.outputs[0], 1);
  return plan.result_row_ > 0 ? std::optional(plan) : std::nullopt;
}

// A cluster whose second tile would be empty has nothing to share.
std::vector<EpilogueTiling> RopePlan::candidates() const {
  std::vector<EpilogueTiling> found;
  for (const EpilogueTiling& tiling : kRopeShapes) {
    const bool fills_cluster = epilogue_.product.m > std::int64_t{tiling.rows} * (tiling.cluster_rows - 1) &&
                               epilogue_.product.n > std::int64_t{tiling.columns} * (tiling.cluster_columns - 1);
    if (fills_cluster) found.push_back(tiling);
  }
  return found;
}

std::string RopePlan::key() const {
  const MatrixProduct& product = epilogue_.product;
  return fmt::format("rope{} version {} {} {}x{}x{} heads {} of {} in {} rows {} {} of {}",
                     epilogue_.adds_bias ? " with bias" : "", kVersion, name(product.dtype), product.m, product.n,
                     product.k, epilogue_.columns / epilogue_.head, epilogue_.head, epilogue_.sequence, operands_.a_row,
                     operands_.b_line, result_row_);
}

std::vector<EpilogueLaunch> RopePlan::launches(const EpilogueTiling& tiling, int multiprocessors) const {
  using Of = EpilogueLaunch::Field::Of;
  using P = RopeMatmul;
  const MatrixProduct& product = epilogue_.product;
  const EpilogueTiles tiles(product, tiling);
  EpilogueLaunch launch =
      product_launch(fmt::format("fused_rope_forward_{}_{}", tiling.to_text(), name(product.dtype)),
                     "rope_matmul_wgmma", blocks_of(tiles, tiling, multiprocessors),
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, true, LowMatmulTiling::kElementBytes));
  launch.shape.waits_by_itself = true;
  P parameters;
  parameters.product = divide_product(tiles, tiling, multiprocessors);
  parameters.sequence = Divisor(static_cast<std::uint32_t>(epilogue_.sequence));
  parameters.head = Divisor(static_cast<std::uint32_t>(epilogue_.head));
  parameters.columns = static_cast<int>(epilogue_.columns);
  launch.parameters = EpilogueLaunch::Parameters(parameters);
  launch.fields = {{offsetof(P, product.a), Of::inputs, 0, 0, operands_.a_map(tiling)},
                   {offsetof(P, product.b), Of::inputs, 1, 0, operands_.b_map(tiling)},
                   {offsetof(P, product.c), Of::results, 0, 0,
                    panels_map(product.dtype, product.n, product.m, result_row_, tiling.columns)},
                   {offsetof(P, cosines), Of::inputs, 2, 0, std::nullopt, true},
                   {offsetof(P, sines), Of::inputs, 3, 0, std::nullopt, true}};
  if (epilogue_.adds_bias) launch.fields.push_back({offsetof(P, bias), Of::inputs, 4, 0, std::nullopt, true});
  return {launch};
}

namespace {

bool supports_rope(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  if (node.body == nullptr || node.inputs.size() < 4) return false;
  const std::optional<RopeEpilogue> found = rope_of(*node.body);
  // There are no two steps for a bias and a rotation, so the kernel must be able to read the weight where it lies.
  if (found && found->adds_bias && graph.producer_node(node.inputs[1]).op != Op::transpose) return false;
  return found && graph.type(node.inputs[2]).dtype == DType::fp32 && found->product.m > 0 &&
         are_whole_vectors({found->product.n, found->product.k, found->head});
}

OperandLayout rope_operand_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::dense;
}

constexpr KernelVariant rope(DType dtype, const char* entry) {
  KernelVariant variant = fused_product_variant<RopePlan, rope_of>(dtype, "rope_matmul_wgmma", entry);
  variant.supports_node = supports_rope;
  variant.layout = rope_operand_layout;
  return variant;
}

constexpr KernelVariant kRopeProductVariants[] = {
    rope(DType::bf16, "fused_rope_forward_128x128_1x1_bf16"),
    rope(DType::fp16, "fused_rope_forward_128x128_1x1_fp16"),
};

}  // namespace

std::span<const KernelVariant> rope_product_variants() { return kRopeProductVariants; }

}  // namespace ridgepoint::cuda
