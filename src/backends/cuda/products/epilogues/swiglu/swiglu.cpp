#include "backends/cuda/products/epilogues/plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/swiglu/parameters.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in swiglu_matmul_wgmma.cu.
constexpr std::array<EpilogueTiling, 2> kSwigluShapes = {{{128, 128, 1, 1}, {128, 128, 2, 1}}};
constexpr int kPanelLines = 64;

Term sigmoid(const Term& of) { return Term::call(Op::sigmoid, {of}); }

std::optional<SwigluEpilogue> forward_of(const Graph& body, const MatrixProduct& product) {
  if (product.n % 2 != 0) return std::nullopt;
  const std::int64_t features = product.n / 2;
  const Term z = Term::product();
  const Term gate = Term::call(Op::split, {z}, product.type(features), 0);
  const Term up = Term::call(Op::split, {z}, product.type(features), 1);
  const Term hidden = gate * sigmoid(gate) * up;
  const std::optional<Match> found = match(body, {{hidden}, {z}});
  if (!found) return std::nullopt;
  return SwigluEpilogue{
      .product = product, .features = features, .halves = found->find_result(z), .hidden = found->result(hidden)};
}

std::optional<SwigluEpilogue> backward_of(const Graph& body, const MatrixProduct& product) {
  const Term d = Term::product();
  const Term gate = Term::input(product.type(product.n)), up = Term::input(product.type(product.n));
  const Term s = sigmoid(gate);
  const Term silu = gate * s;
  const Term slope = s + silu * (Term::constant(1) - s);
  const Term of_gate = d * up * slope, of_up = d * silu;
  const std::optional<Match> found = match(body, {{of_gate, of_up}});
  if (!found) return std::nullopt;
  return SwigluEpilogue{.product = product,
                        .is_backward = true,
                        .features = product.n,
                        .gate = found->input(gate),
                        .up = found->input(up),
                        .gate_gradient = found->result(of_gate),
                        .up_gradient = found->result(of_up)};
}

}  // namespace

std::optional<SwigluEpilogue> swiglu_of(const FusedBody& body) {
  const std::optional<MatrixProduct> product = MatrixProduct::of(body.graph);
  if (!product) return std::nullopt;
  const std::optional<SwigluEpilogue> backward = backward_of(body.graph, *product);
  return backward ? backward : forward_of(body.graph, *product);
}

std::optional<SwigluPlan> SwigluPlan::of(const SwigluEpilogue& epilogue, const KernelSpec& spec) {
  const std::optional<ProductOperands> operands = ProductOperands::of(epilogue.product, epilogue.is_backward, spec);
  if (!operands) return std::nullopt;
  SwigluPlan plan;
  plan.epilogue_ = epilogue;
  plan.operands_ = *operands;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (i >= 2 && line_of(spec.inputs[i], 1) == 0) return std::nullopt;
    plan.input_rows_.push_back(spec.inputs[i].strides[0]);
  }
  for (const TensorLayout& layout : spec.outputs) {
    if (line_of(layout, 1) == 0) return std::nullopt;
    plan.result_rows_.push_back(layout.strides[0]);
  }
  return plan;
}

std::vector<EpilogueTiling> SwigluPlan::candidates() const { return {kSwigluShapes.begin(), kSwigluShapes.end()}; }

std::string SwigluPlan::key() const {
  return fmt::format("swiglu {} version {} {} {}x{}x{}{} rows {} {} of {} and {}",
                     epilogue_.is_backward ? "backward" : "forward", kVersion, name(epilogue_.product.dtype),
                     epilogue_.product.m, epilogue_.features, epilogue_.product.k, epilogue_.halves ? " kept" : "",
                     operands_.a_row, operands_.b_line, fmt::join(input_rows_, ","), fmt::join(result_rows_, ","));
}

EpilogueTiles SwigluPlan::tiles(const EpilogueTiling& tiling) const {
  EpilogueTiles tiles(epilogue_.product, tiling);
  tiles.n = epilogue_.features;
  if (!epilogue_.is_backward) tiles.columns /= 2;
  return tiles;
}

std::vector<EpilogueLaunch> SwigluPlan::launches(const EpilogueTiling& tiling, int multiprocessors) const {
  const bool is_backward = epilogue_.is_backward;
  const std::string function = fmt::format("fused_swiglu_{}_{}_{}", is_backward ? "backward" : "forward",
                                           tiling.to_text(), name(epilogue_.product.dtype));
  EpilogueLaunch launch =
      product_launch(function, "swiglu_matmul_wgmma", blocks_of(tiles(tiling), tiling, multiprocessors),
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, !is_backward,
                                                   LowMatmulTiling::kElementBytes, is_backward ? 4 : 2));
  launch.shape.waits_by_itself = true;
  const LowMatmul product = divide_product(tiles(tiling), tiling, multiprocessors);
  if (is_backward) {
    SwigluBackwardMatmul parameters;
    parameters.product = product;
    launch.parameters = EpilogueLaunch::Parameters(parameters);
  } else {
    SwigluMatmul parameters;
    parameters.product = product;
    parameters.keeps_halves = epilogue_.halves ? 1 : 0;
    launch.parameters = EpilogueLaunch::Parameters(parameters);
  }
  launch.fields = fields(tiling);
  return {launch};
}

std::vector<EpilogueLaunch::Field> SwigluPlan::fields(const EpilogueTiling& tiling) const {
  using Of = EpilogueLaunch::Field::Of;
  const std::int64_t features = epilogue_.features;
  const auto map = [&](std::int64_t row) {
    return lines_map(epilogue_.product.dtype, features, epilogue_.product.m, row, kPanelLines);
  };
  const auto input = [&](std::size_t place, std::size_t i) {
    return EpilogueLaunch::Field{place, Of::inputs, i, 0, map(input_rows_[i])};
  };
  const auto result = [&](std::size_t place, std::size_t i, std::int64_t column = 0) {
    return EpilogueLaunch::Field{place, Of::results, i, column * LowMatmulTiling::kElementBytes, map(result_rows_[i])};
  };
  if (epilogue_.is_backward) {
    using P = SwigluBackwardMatmul;
    return {{offsetof(P, product.a), Of::inputs, 0, 0, operands_.a_map(tiling)},
            {offsetof(P, product.b), Of::inputs, 1, 0, operands_.b_map(tiling)},
            result(offsetof(P, product.c), epilogue_.gate_gradient),
            input(offsetof(P, gate), epilogue_.gate),
            input(offsetof(P, up), epilogue_.up),
            result(offsetof(P, up_gradient), epilogue_.up_gradient)};
  }
  using P = SwigluMatmul;
  // Without halves to keep, their maps are read ahead, but not used.
  const std::size_t gate = epilogue_.halves.value_or(epilogue_.hidden);
  return {{offsetof(P, product.a), Of::inputs, 0, 0, operands_.a_map(tiling)},
          {offsetof(P, product.b), Of::inputs, 1, 0, operands_.b_map(tiling, 2)},
          result(offsetof(P, product.c), gate),
          result(offsetof(P, up), gate, epilogue_.halves ? features : 0),
          result(offsetof(P, hidden), epilogue_.hidden)};
}

namespace {

template <bool kIsBackward>
bool supports_swiglu(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != (kIsBackward ? 4U : 2U)) return false;
  const std::optional<SwigluEpilogue> found = swiglu_of(*node.body);
  return found && found->is_backward == kIsBackward && found->product.m > 0 &&
         are_whole_vectors({found->features, found->product.k});
}

OperandLayout swiglu_operand_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::aligned_rows;
}

template <bool kIsBackward>
constexpr KernelVariant swiglu(DType dtype, const char* entry) {
  KernelVariant variant = fused_product_variant<SwigluPlan, swiglu_of>(dtype, "swiglu_matmul_wgmma", entry);
  variant.supports_node = supports_swiglu<kIsBackward>;
  variant.layout = swiglu_operand_layout;
  variant.strided_results = kIsBackward;
  return variant;
}

constexpr KernelVariant kSwigluVariants[] = {
    swiglu<false>(DType::bf16, "fused_swiglu_forward_128x128_1x1_bf16"),
    swiglu<true>(DType::bf16, "fused_swiglu_backward_128x128_1x1_bf16"),
    swiglu<false>(DType::fp16, "fused_swiglu_forward_128x128_1x1_fp16"),
    swiglu<true>(DType::fp16, "fused_swiglu_backward_128x128_1x1_fp16"),
};

}  // namespace

std::span<const KernelVariant> swiglu_variants() { return kSwigluVariants; }

}  // namespace ridgepoint::cuda
