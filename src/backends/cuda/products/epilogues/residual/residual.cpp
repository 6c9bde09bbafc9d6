#include "backends/cuda/products/epilogues/plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/residual/parameters.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

using Of = EpilogueLaunch::Field::Of;

// The tilings of the kernels in residual_matmul_wgmma.cu and residual_backward_wgmma.cu.
constexpr std::array<EpilogueTiling, 3> kForwardShapes = {
    {{128, 128, 2, 1, 32}, {128, 160, 2, 1, 24}, {128, 160, 2, 1, 56}}};
constexpr std::array<EpilogueTiling, 3> kBackwardShapes = {
    {{128, 128, 2, 1, 32}, {128, 128, 2, 1, 56}, {128, 160, 2, 1, 48}}};
// Blocks count the rows of tiles, and once themselves, in the words of block_flags().
constexpr bool has_counts_for(const EpilogueTiling& tiling) {
  return ResidualPlan::kMostTokens <= std::int64_t{RowsBeside::kMostCounts} * tiling.rows;
}
static_assert(std::ranges::all_of(kForwardShapes, has_counts_for));
static_assert(std::ranges::all_of(kBackwardShapes, has_counts_for));
static_assert(RowsBeside::kMostCounts < 2 * kMostBlocks);
constexpr const char* kBackwardImage = "residual_backward_wgmma";
constexpr int kBytesOfKib = 1024;
constexpr std::size_t kAlignmentBytes = 512;

bool is_matrix(const TensorLayout& layout, std::int64_t columns) {
  return layout.shape.rank() == 2 && layout.shape[1] == columns;
}

// Rows of matrices; 0 for other tensors, which must be dense. False if one lies otherwise.
bool add_rows(std::span<const TensorLayout> layouts, std::int64_t columns, std::vector<std::int64_t>& rows) {
  for (const TensorLayout& layout : layouts) {
    if (is_matrix(layout, columns) ? line_of(layout, 1) == 0 : layout.immediate || !layout.is_dense()) return false;
    rows.push_back(is_matrix(layout, columns) ? layout.strides[0] : 0);
  }
  return true;
}

Term sum_of(const Term& of, std::int64_t rows, std::int64_t columns) {
  return Term::call(Op::reduce_sum, {of}, TensorType{DType::fp32, {rows, columns}});
}

// Both begin with the product in fp32, and have the mean of each row of N columns as a sum times 1 / N.
struct Rows {
  explicit Rows(const MatrixProduct& product)
      : m(product.m),
        n(product.n),
        matrix{DType::fp32, {m, n}},
        low(product.type(n)),
        p(Term::call(Op::cast, {Term::product()}, matrix)),
        g(Term::input(TensorType{DType::fp32, {n}})) {}

  Term mean(const Term& of) const { return sum_of(of, m, 1) * Term::constant(1.0 / static_cast<double>(n)); }
  Term to_low(const Term& of) const { return Term::call(Op::cast, {of}, low); }

  std::int64_t m, n;
  TensorType matrix, low;
  Term p, g;
};

std::optional<ResidualEpilogue> forward_of(const Graph& body, const MatrixProduct& product) {
  const Rows rows(product);
  const Term x = Term::input(rows.matrix);
  const Term epsilon = Term::any_constant();
  const Term sum = rows.p + x;
  const Term r = Term::call(Op::rsqrt, {rows.mean(sum * sum) + epsilon});
  const Term normed = rows.to_low(sum * r * rows.g);
  const std::optional<Match> found = match(body, {{normed, sum}, {r}});
  if (!found) return std::nullopt;
  return ResidualEpilogue{.product = product,
                          .g = found->input(rows.g),
                          .x = found->input(x),
                          .sum = found->result(sum),
                          .normed = found->result(normed),
                          .r = found->find_result(r),
                          .epsilon = found->constant(epsilon)};
}

std::optional<ResidualEpilogue> backward_of(const Graph& body, const MatrixProduct& product) {
  const Rows rows(product);
  const Term sum = Term::input(rows.matrix), residual = Term::input(rows.matrix);
  const Term r = Term::input(TensorType{DType::fp32, {rows.m, 1}});
  const Term t = rows.p * rows.g;
  const Term gradient = t * r - sum * (r * r * r * rows.mean(t * sum)) + residual;
  const Term of_g = Term::call(Op::reshape, {sum_of(rows.p * (sum * r), 1, rows.n)});
  const Term low_gradient = rows.to_low(gradient);
  const std::optional<Match> found = match(body, {{gradient, of_g}, {low_gradient}});
  if (!found) return std::nullopt;
  return ResidualEpilogue{.product = product,
                          .is_backward = true,
                          .g = found->input(rows.g),
                          .sum_input = found->input(sum),
                          .r_input = found->input(r),
                          .residual = found->input(residual),
                          .of_g = found->result(of_g),
                          .gradient = found->result(gradient),
                          .low_gradient = found->find_result(low_gradient)};
}

}  // namespace

std::optional<ResidualEpilogue> residual_of(const FusedBody& body) {
  const std::optional<MatrixProduct> product = MatrixProduct::of(body.graph);
  if (!product || product->m < 2 || product->n < 2) return std::nullopt;
  const std::optional<ResidualEpilogue> forward = forward_of(body.graph, *product);
  return forward ? forward : backward_of(body.graph, *product);
}

std::optional<ResidualPlan> ResidualPlan::of(const ResidualEpilogue& epilogue, const KernelSpec& spec) {
  const std::optional<ProductOperands> operands = ProductOperands::of(epilogue.product, epilogue.is_backward, spec);
  if (!operands) return std::nullopt;
  ResidualPlan plan;
  plan.epilogue_ = epilogue;
  plan.operands_ = *operands;
  plan.input_rows_ = {0, 0};
  if (!add_rows(spec.inputs.subspan(2), epilogue.product.n, plan.input_rows_)) return std::nullopt;
  if (!add_rows(spec.outputs, epilogue.product.n, plan.result_rows_)) return std::nullopt;
  return plan;
}

// Those whose shared memory has the operands of a row, and g.
std::vector<EpilogueTiling> ResidualPlan::candidates() const {
  const std::int64_t matrices = epilogue_.is_backward ? 2 : 1;
  const std::int64_t bytes = epilogue_.product.n * ((matrices + 1) * static_cast<std::int64_t>(sizeof(float)) +
                                                    LowMatmulTiling::kElementBytes);
  std::vector<EpilogueTiling> found;
  for (const EpilogueTiling& shape : epilogue_.is_backward ? kBackwardShapes : kForwardShapes) {
    if (bytes <= shape.beside_kib * kBytesOfKib) found.push_back(shape);
  }
  return found;
}

std::string ResidualPlan::key() const {
  return fmt::format("residual {} version {} {} {}x{}x{} rows {} {} of {} and {}",
                     epilogue_.is_backward ? "backward" : "norm", kVersion, name(epilogue_.product.dtype),
                     epilogue_.product.m, epilogue_.product.n, epilogue_.product.k, operands_.a_row, operands_.b_line,
                     fmt::join(input_rows_, ","), fmt::join(result_rows_, ","));
}

std::size_t ResidualPlan::product_bytes() const {
  return round_up(
      static_cast<std::size_t>(epilogue_.product.m * epilogue_.product.n) * size_bytes(epilogue_.product.dtype),
      kAlignmentBytes);
}

std::size_t ResidualPlan::workspace_bytes() const {
  if (!epilogue_.is_backward) return product_bytes();
  return product_bytes() + static_cast<std::size_t>(kMostBlocks * epilogue_.product.n) * sizeof(float);
}

std::vector<EpilogueLaunch> ResidualPlan::launches(const EpilogueTiling& tiling, int multiprocessors) const {
  const EpilogueTiles tiles(epilogue_.product, tiling);
  LowMatmul product = divide_product(tiles, tiling, multiprocessors);
  product.leading = epilogue_.product.n;
  const int blocks = blocks_of(tiles, tiling, multiprocessors);
  const std::string_view kind = epilogue_.is_backward ? "backward" : "norm";
  EpilogueLaunch main =
      product_launch(fmt::format("fused_residual_{}_{}_{}", kind, tiling.to_text(), name(epilogue_.product.dtype)),
                     epilogue_.is_backward ? kBackwardImage : "residual_matmul_wgmma", blocks,
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, !epilogue_.is_backward,
                                                   LowMatmulTiling::kElementBytes, 2, tiling.beside_kib * kBytesOfKib));
  main.is_cooperative = true;
  epilogue_.is_backward ? set_backward(main, product) : set_forward(main, product);
  // Both kernels have a, b and c at the same places.
  static_assert(offsetof(ResidualMatmul, product) == 0 && offsetof(ResidualBackwardMatmul, product) == 0);
  const TensorMapShape c = panels_map(epilogue_.product.dtype, epilogue_.product.n, epilogue_.product.m,
                                      epilogue_.product.n, tiling.columns);
  main.fields.push_back({offsetof(LowMatmul, a), Of::inputs, 0, 0, operands_.a_map(tiling)});
  main.fields.push_back({offsetof(LowMatmul, b), Of::inputs, 1, 0, operands_.b_map(tiling)});
  main.fields.push_back({offsetof(LowMatmul, c), Of::workspace, 0, 0, c});
  if (!epilogue_.is_backward) return {main};
  return {main, columns(blocks)};
}

void ResidualPlan::set_forward(EpilogueLaunch& launch, const LowMatmul& product) const {
  using P = ResidualMatmul;
  P p;
  p.product = product;
  p.product_row = epilogue_.product.n;
  p.x_row = input_rows_[epilogue_.x];
  p.sum_row = result_rows_[epilogue_.sum];
  p.normed_row = result_rows_[epilogue_.normed];
  p.inverse_columns = static_cast<float>(1.0 / static_cast<double>(epilogue_.product.n));
  p.epsilon = static_cast<float>(epilogue_.epsilon);
  launch.parameters = EpilogueLaunch::Parameters(p);
  launch.fields = {{offsetof(P, products), Of::workspace, 0, 0, {}},
                   {offsetof(P, x), Of::inputs, epilogue_.x, 0, {}, true},
                   {offsetof(P, g), Of::inputs, epilogue_.g, 0, {}, true},
                   {offsetof(P, sum), Of::results, epilogue_.sum, 0, {}, true},
                   {offsetof(P, normed), Of::results, epilogue_.normed, 0, {}, true},
                   {offsetof(P, counts), Of::block_flags, 0, 0, {}}};
  if (epilogue_.r) launch.fields.push_back({offsetof(P, reciprocal), Of::results, *epilogue_.r, 0, {}});
}

void ResidualPlan::set_backward(EpilogueLaunch& launch, const LowMatmul& product) const {
  using P = ResidualBackwardMatmul;
  P p;
  p.product = product;
  p.d_row = epilogue_.product.n;
  p.sum_row = input_rows_[epilogue_.sum_input];
  p.residual_row = input_rows_[epilogue_.residual];
  p.gradient_row = result_rows_[epilogue_.gradient];
  p.low_gradient_row = epilogue_.low_gradient ? result_rows_[*epilogue_.low_gradient] : 0;
  p.inverse_columns = static_cast<float>(1.0 / static_cast<double>(epilogue_.product.n));
  launch.parameters = EpilogueLaunch::Parameters(p);
  launch.fields = {{offsetof(P, d), Of::workspace, 0, 0, {}},
                   {offsetof(P, sum), Of::inputs, epilogue_.sum_input, 0, {}, true},
                   {offsetof(P, residual), Of::inputs, epilogue_.residual, 0, {}, true},
                   {offsetof(P, g), Of::inputs, epilogue_.g, 0, {}, true},
                   {offsetof(P, reciprocal), Of::inputs, epilogue_.r_input, 0, {}},
                   {offsetof(P, gradient), Of::results, epilogue_.gradient, 0, {}, true},
                   {offsetof(P, parts_of_g), Of::workspace, 0, static_cast<std::int64_t>(product_bytes()), {}},
                   {offsetof(P, counts), Of::block_flags, 0, 0, {}}};
  if (epilogue_.low_gradient)
    launch.fields.push_back({offsetof(P, low_gradient), Of::results, *epilogue_.low_gradient, 0, {}, true});
}

EpilogueLaunch ResidualPlan::columns(int blocks) const {
  constexpr int kColumnsOfBlock = 32;
  ColumnSums p;
  p.rows = blocks;
  p.columns = static_cast<int>(epilogue_.product.n);
  EpilogueLaunch launch;
  launch.image = kBackwardImage;
  launch.function = "fused_residual_backward_columns";
  launch.shape.grid_x = static_cast<unsigned>(ceil_divide(epilogue_.product.n, kColumnsOfBlock));
  launch.shape.block_x = kColumnsOfBlock;
  launch.shape.block_y = 8;
  launch.shape.waits_by_itself = true;
  launch.parameters = EpilogueLaunch::Parameters(p);
  launch.fields = {{offsetof(ColumnSums, parts), Of::workspace, 0, static_cast<std::int64_t>(product_bytes()), {}},
                   {offsetof(ColumnSums, sums), Of::results, epilogue_.of_g, 0, {}}};
  return launch;
}

namespace {

template <bool kIsBackward>
bool supports_residual(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != (kIsBackward ? 6U : 4U)) return false;
  const std::optional<ResidualEpilogue> found = residual_of(*node.body);
  return found && found->is_backward == kIsBackward && found->product.m <= ResidualPlan::kMostTokens &&
         found->product.n <= ResidualPlan::kMostColumns && are_whole_vectors({found->product.n, found->product.k});
}

// Vectors, and a number for each row, are dense.
OperandLayout residual_operand_layout(const Graph& graph, const Node& node, int index) {
  if (index < 2) return OperandLayout::batched_matrix;
  const Shape& shape = graph.type(node.inputs[static_cast<std::size_t>(index)]).shape;
  return shape.rank() == 2 && shape[1] > 1 ? OperandLayout::aligned_rows : OperandLayout::dense;
}

// A norm waits for whole rows; its derivative reads them twice, and sums columns too, in launches of their own.
constexpr EpilogueRate kNormRate{
    .product = kHalfProductRate, .memory_share = kRowRate.share, .reads = 0.8, .writes = 0.8};
constexpr EpilogueRate kBackwardRate{
    .product = kHalfProductRate, .memory_share = kRowRate.share, .reads = 1.5, .writes = 1.5, .fixed_seconds = 5e-6};

template <bool kIsBackward>
constexpr KernelVariant residual(DType dtype, const char* entry) {
  KernelVariant variant = fused_product_variant<ResidualPlan, residual_of>(
      dtype, kIsBackward ? kBackwardImage : "residual_matmul_wgmma", entry, kIsBackward ? kBackwardRate : kNormRate);
  variant.supports_node = supports_residual<kIsBackward>;
  variant.layout = residual_operand_layout;
  return variant;
}

constexpr KernelVariant kResidualVariants[] = {
    residual<false>(DType::bf16, "fused_residual_norm_128x128_2x1_32k_bf16"),
    residual<true>(DType::bf16, "fused_residual_backward_128x128_2x1_32k_bf16"),
    residual<false>(DType::fp16, "fused_residual_norm_128x128_2x1_32k_fp16"),
    residual<true>(DType::fp16, "fused_residual_backward_128x128_2x1_32k_fp16"),
};

}  // namespace

std::span<const KernelVariant> residual_variants() { return kResidualVariants; }

}  // namespace ridgepoint::cuda
