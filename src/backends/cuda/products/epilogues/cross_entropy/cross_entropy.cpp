#include "backends/cuda/products/epilogues/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/cross_entropy/parameters.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "core/rounding.h"
#include "ops/rule.h"

namespace ridgepoint::cuda {
namespace {

using Of = EpilogueLaunch::Field::Of;

constexpr const char* kImage = "cross_entropy_matmul_wgmma";
// The tilings of the kernels there.
constexpr std::array<EpilogueTiling, 4> kTilings = {
    {{128, 128, 2, 1}, {128, 160, 2, 1}, {128, 192, 1, 1}, {128, 192, 2, 1}}};
constexpr std::size_t kAlignmentBytes = 512;  // of the parts in the workspace

bool is_dense(const TensorLayout& layout) {
  return !layout.immediate && (layout.strides[0] == 1 || layout.shape[0] == 1);
}

}  // namespace

std::optional<CrossEntropyEpilogue> cross_entropy_of(const FusedBody& body) {
  const std::optional<MatrixProduct> product = MatrixProduct::of(body.graph);
  if (!product) return std::nullopt;
  const Term logits = Term::product();
  const Term targets = Term::input(2);
  const Term losses = Term::call(Op::cross_entropy, {logits, targets}, {}, 0);
  const Term log_sum_exps = Term::call(Op::cross_entropy, {logits, targets}, {}, 1);
  const std::optional<Match> found = match(body.graph, {{losses}, {logits, log_sum_exps}});
  if (!found) return std::nullopt;
  return CrossEntropyEpilogue{.product = *product,
                              .z_loss = found->node(losses).attributes.get_or(kZLoss, 0.0),
                              .logits = found->find_result(logits),
                              .losses = found->result(losses),
                              .log_sum_exps = found->find_result(log_sum_exps)};
}

std::optional<CrossEntropyPlan> CrossEntropyPlan::of(const CrossEntropyEpilogue& epilogue, const KernelSpec& spec) {
  const std::optional<ProductOperands> operands = ProductOperands::of(epilogue.product, false, spec);
  if (!operands) return std::nullopt;
  CrossEntropyPlan plan;
  plan.epilogue_ = epilogue;
  plan.operands_ = *operands;
  plan.logits_row_ = epilogue.logits ? line_of(spec.outputs[*epilogue.logits], 1) : epilogue.product.n;
  const bool is_supported = plan.logits_row_ > 0 && is_dense(spec.inputs[2]) &&
                            is_dense(spec.outputs[epilogue.losses]) &&
                            (!epilogue.log_sum_exps || is_dense(spec.outputs[*epilogue.log_sum_exps]));
  return is_supported ? std::optional(plan) : std::nullopt;
}

std::vector<EpilogueTiling> CrossEntropyPlan::candidates() const { return {kTilings.begin(), kTilings.end()}; }

std::string CrossEntropyPlan::key() const {
  return fmt::format("cross_entropy version {} {} {}x{}x{}{}{} rows {} {} {}", kVersion, name(epilogue_.product.dtype),
                     epilogue_.product.m, epilogue_.product.n, epilogue_.product.k, epilogue_.logits ? " kept" : "",
                     epilogue_.log_sum_exps ? " with log-sum-exps" : "", operands_.a_row, operands_.b_line,
                     logits_row_);
}

std::int64_t CrossEntropyPlan::parts_of_row(const EpilogueTiling& tiling) const {
  return ceil_divide(epilogue_.product.n, std::int64_t{tiling.columns});
}

std::size_t CrossEntropyPlan::target_logits_bytes() const {
  return round_up(static_cast<std::size_t>(epilogue_.product.m) * sizeof(float), kAlignmentBytes);
}

std::size_t CrossEntropyPlan::workspace_bytes() const {
  std::int64_t parts = 0;
  for (const EpilogueTiling& tiling : kTilings) parts = std::max(parts, parts_of_row(tiling));
  return target_logits_bytes() + static_cast<std::size_t>(parts * epilogue_.product.m) * sizeof(RowPart);
}

std::vector<EpilogueLaunch> CrossEntropyPlan::launches(const EpilogueTiling& tiling, int multiprocessors) const {
  return {product(tiling, multiprocessors), finish(tiling)};
}

EpilogueLaunch CrossEntropyPlan::product(const EpilogueTiling& tiling, int multiprocessors) const {
  EpilogueLaunch launch =
      product_launch(fmt::format("fused_cross_entropy_{}_{}", tiling.to_text(), name(epilogue_.product.dtype)), kImage,
                     blocks_of(EpilogueTiles(epilogue_.product, tiling), tiling, multiprocessors),
                     LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, true, LowMatmulTiling::kElementBytes));
  launch.shape.waits_by_itself = true;
  using P = CrossEntropyMatmul;
  P parameters;
  parameters.product = divide_product(EpilogueTiles(epilogue_.product, tiling), tiling, multiprocessors);
  parameters.writes_logits = epilogue_.logits ? 1 : 0;
  launch.parameters = EpilogueLaunch::Parameters(parameters);
  launch.fields = {
      {offsetof(P, product.a), Of::inputs, 0, 0, operands_.a_map(tiling)},
      {offsetof(P, product.b), Of::inputs, 1, 0, operands_.b_map(tiling)},
      {offsetof(P, targets), Of::inputs, 2, 0, std::nullopt},
      {offsetof(P, target_logits), Of::workspace, 0, 0, std::nullopt},
      {offsetof(P, parts), Of::workspace, 0, static_cast<std::int64_t>(target_logits_bytes()), std::nullopt}};
  if (!epilogue_.logits) return launch;
  const TensorMapShape c =
      panels_map(epilogue_.product.dtype, epilogue_.product.n, epilogue_.product.m, logits_row_, tiling.columns);
  launch.fields.push_back({offsetof(P, product.c), Of::results, *epilogue_.logits, 0, c});
  return launch;
}

EpilogueLaunch CrossEntropyPlan::finish(const EpilogueTiling& tiling) const {
  using P = CrossEntropyFinish;
  EpilogueLaunch launch;
  launch.image = kImage;
  launch.function = "fused_cross_entropy_finish";
  launch.shape.grid_x = static_cast<unsigned>(ceil_divide(epilogue_.product.m, std::int64_t{P::kRows}));
  launch.shape.block_x = P::kThreads;
  P parameters;
  parameters.rows = static_cast<int>(epilogue_.product.m);
  parameters.parts_of_row = static_cast<int>(parts_of_row(tiling));
  parameters.vocabulary = static_cast<int>(epilogue_.product.n);
  parameters.z_loss = static_cast<float>(epilogue_.z_loss);
  launch.parameters = EpilogueLaunch::Parameters(parameters);
  launch.fields = {
      {offsetof(P, target_logits), Of::workspace, 0, 0, std::nullopt},
      {offsetof(P, parts), Of::workspace, 0, static_cast<std::int64_t>(target_logits_bytes()), std::nullopt},
      {offsetof(P, targets), Of::inputs, 2, 0, std::nullopt},
      {offsetof(P, losses), Of::results, epilogue_.losses, 0, std::nullopt}};
  if (epilogue_.log_sum_exps)
    launch.fields.push_back({offsetof(P, log_sum_exps), Of::results, *epilogue_.log_sum_exps, 0, std::nullopt});
  return launch;
}

namespace {

bool supports_cross_entropy(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  if (node.body == nullptr || node.inputs.size() != 3) return false;
  const std::optional<CrossEntropyEpilogue> found = cross_entropy_of(*node.body);
  if (!found || found->product.m == 0 || !are_whole_vectors({found->product.k})) return false;
  const std::int64_t vocabulary = found->product.n;
  return are_whole_vectors({vocabulary}) || padded_row(found->product.type(vocabulary));
}

OperandLayout cross_entropy_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index < 2 ? OperandLayout::batched_matrix : OperandLayout::dense;
}

bool has_aligned_logits(const KernelSpec& spec) {
  const std::optional<std::size_t> logits = cross_entropy_of(*spec.node.body)->logits;
  return !logits || line_of(spec.outputs[*logits], 1) > 0;
}

// Of logits whose rows are not padded, which take two steps.
constexpr EpilogueRate kUnalignedRate{
    .product = kUnalignedHalfProductRate, .memory_share = kRowRate.share, .reads = 1, .writes = 2};

constexpr KernelVariant cross_entropy_of_product(DType dtype, const char* entry, bool is_aligned) {
  KernelVariant variant = fused_product_variant<CrossEntropyPlan, cross_entropy_of>(
      dtype, kImage, entry, is_aligned ? kElementwiseEpilogueRate : kUnalignedRate);
  variant.supports_node = supports_cross_entropy;
  variant.layout = cross_entropy_layout;
  variant.padded_rows = true;
  if (is_aligned) variant.supports_layouts = has_aligned_logits;
  return variant;
}

constexpr const char* kBf16Entry = "fused_cross_entropy_128x128_2x1_bf16";
constexpr const char* kFp16Entry = "fused_cross_entropy_128x128_2x1_fp16";
constexpr KernelVariant kCrossEntropyOfProductVariants[] = {
    cross_entropy_of_product(DType::bf16, kBf16Entry, true),
    cross_entropy_of_product(DType::fp16, kFp16Entry, true),
    cross_entropy_of_product(DType::bf16, kBf16Entry, false),
    cross_entropy_of_product(DType::fp16, kFp16Entry, false),
};

}  // namespace

std::span<const KernelVariant> cross_entropy_of_product_variants() { return kCrossEntropyOfProductVariants; }

}  // namespace ridgepoint::cuda
