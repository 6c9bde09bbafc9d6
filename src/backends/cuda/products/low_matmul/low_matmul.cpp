#include "backends/cuda/products/low_matmul/low_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/products/operands/mapping.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;
constexpr std::uint32_t kPanel = 64;  // lines or columns

// The tilings of the kernels in low_matmul_kernels.cuh: {rows, columns, rows and columns of a cluster, by turns}.
constexpr std::array<LowTiling, 13> kLowShapes = {{
    {128, 128, 1, 1, true},
    {128, 128, 2, 1, true},
    {128, 128, 1, 2, true},
    {128, 192, 2, 1, true},
    {128, 256, 1, 1, false},
    {128, 256, 2, 1, false},
    {256, 128, 1, 1, false},
    {256, 128, 1, 2, false},
    {128, 192, 1, 1, false},
    {128, 64, 1, 1, false},
    {128, 160, 1, 1, true},
    {128, 144, 1, 1, false},
    {128, 96, 1, 1, false},
}};
// With more tiles than this for each cluster, the last round is too small a part of the time to be shared.
constexpr std::int64_t kMostSharedRounds = 4;

std::string shape_text(const LowTiling& tiling) {
  return fmt::format("{}x{}_{}x{}{}", tiling.rows, tiling.columns, tiling.cluster_rows, tiling.cluster_columns,
                     tiling.by_turns ? "_turns" : "");
}

bool takes_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string LowTiling::to_text() const {
  return fmt::format("{} in {}{}", shape_text(*this), blocks, shares ? " shared" : "");
}

std::optional<LowTiling> LowTiling::from_text(std::string_view text) {
  for (LowTiling tiling : kLowShapes) {
    std::string_view rest = text;
    if (!takes_prefix(rest, shape_text(tiling) + " in ")) continue;
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), tiling.blocks);
    if (read.ec != std::errc()) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(read.ptr - rest.data()));
    tiling.shares = takes_prefix(rest, " shared");
    return rest.empty() ? std::optional(tiling) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<LowMatmulPlan::Matrix> LowMatmulPlan::matrix_of(const StridedMatrix& matrix, std::int64_t batch_stride,
                                                              bool& rows_contiguous) {
  const std::optional<BlasLayout> blas = blas_layout(matrix);
  if (!blas || matrix.rows > kLargestSize || matrix.columns > kLargestSize) return std::nullopt;
  rows_contiguous = !blas->transposed;
  const auto [contiguous, other] =
      blas->transposed ? std::pair(matrix.rows, matrix.columns) : std::pair(matrix.columns, matrix.rows);
  return Matrix{contiguous, other, blas->leading, batch_stride};
}

std::optional<LowMatmulPlan> LowMatmulPlan::of(const MatmulProblem& problem) {
  LowMatmulPlan plan;
  plan.dtype_ = problem.a.dtype;
  plan.result_dtype_ = problem.c.dtype;
  if ((plan.dtype_ != DType::bf16 && plan.dtype_ != DType::fp16) || problem.flops() == 0) return std::nullopt;
  const std::vector<BatchAxis> axes = merged_batch(problem);
  if (axes.size() > 1) return std::nullopt;
  const std::array<std::int64_t, 3> strides = axes.empty() ? std::array<std::int64_t, 3>{} : axes[0].strides;
  bool b_rows_contiguous = true;
  bool c_rows_contiguous = true;
  const std::optional<Matrix> a = matrix_of(problem.a, strides[0], plan.a_rows_contiguous_);
  const std::optional<Matrix> b = matrix_of(problem.b, strides[1], b_rows_contiguous);
  const std::optional<Matrix> c = matrix_of(problem.c, strides[2], c_rows_contiguous);
  if (!a || !b || !c || !c_rows_contiguous) return std::nullopt;
  plan.a_ = *a;
  plan.b_ = *b;
  plan.c_ = *c;
  plan.b_columns_contiguous_ = !b_rows_contiguous;
  plan.m_ = problem.c.rows;
  plan.n_ = problem.c.columns;
  plan.k_ = problem.a.columns;
  plan.batch_ = axes.empty() ? 1 : axes[0].size;
  if (!plan.a_rows_contiguous_ && plan.b_columns_contiguous_) return std::nullopt;
  for (const auto& [matrix, dtype] : {std::pair(*a, plan.dtype_), {*b, plan.dtype_}, {*c, plan.result_dtype_}}) {
    if (!has_tensor_map(plan.map_of(matrix, dtype))) return std::nullopt;
  }
  const bool has_pairs = !problem.adds || plan.n_ % 2 == 0;  // an addend is read in pairs
  if (!has_pairs || plan.tiles({128, 64}) > kLargestSize) return std::nullopt;
  return plan;
}

TensorMapShape LowMatmulPlan::map_of(const Matrix& matrix, DType dtype) const {
  return {.dtype = dtype,
          .sizes = {matrix.contiguous, matrix.other, batch_, 1},
          .strides = {matrix.leading, matrix.batch_stride, 0}};
}

std::int64_t LowMatmulPlan::steps() const { return ceil_divide(k_, LowMatmulTiling::kStepK); }

// Of a cluster.
std::int64_t LowMatmulPlan::tiles(const LowTiling& tiling) const {
  return batch_ * ceil_divide(m_, std::int64_t{tiling.rows} * tiling.cluster_rows) *
         ceil_divide(n_, std::int64_t{tiling.columns} * tiling.cluster_columns);
}

// Whole tiles only; or, if they would leave multiprocessors idle, shared steps: by as many clusters as there are, or by
// a whole number of clusters for each tile, which has fewer partial sums.
std::vector<LowTiling> LowMatmulPlan::candidates(int multiprocessors, std::size_t workspace_bytes) const {
  std::vector<LowTiling> found;
  for (LowTiling shape : kLowShapes) {
    // Part of a panel of b's lines of k is loaded whole, and a block beside those with the product's rows has none.
    if (!b_columns_contiguous_ && shape.columns % kPanel != 0) continue;
    if (m_ <= std::int64_t{shape.rows} * (shape.cluster_rows - 1)) continue;
    if (n_ <= std::int64_t{shape.columns} * (shape.cluster_columns - 1)) continue;
    const std::int64_t most = std::min(multiprocessors, kMostBlocks) / shape.cluster_blocks();
    const std::int64_t count = tiles(shape);
    const auto add = [&](std::int64_t clusters, bool shares) {
      shape.blocks = static_cast<int>(clusters * shape.cluster_blocks());
      shape.shares = shares;
      const auto partial = sizeof(float) * static_cast<std::size_t>(shape.blocks) * shape.rows * shape.columns;
      if (shares && partial > workspace_bytes) return;
      if (found.empty() || found.back() != shape) found.push_back(shape);
    };
    if (most == 0) continue;
    add(std::min(count, most), false);
    if (count % most == 0 || count > kMostSharedRounds * most) continue;
    if (count * steps() >= most) add(most, true);
    for (const std::int64_t splits : {most / count, most / count / 2}) {
      if (splits >= 2 && splits * 2 <= steps()) add(count * splits, true);
    }
  }
  return found;
}

bool LowMatmulPlan::supports(const LowTiling& tiling, int multiprocessors, std::size_t workspace_bytes) const {
  const std::vector<LowTiling> known = candidates(multiprocessors, workspace_bytes);
  return std::find(known.begin(), known.end(), tiling) != known.end();
}

LowMatmul LowMatmulPlan::parameters(const LowTiling& tiling) const {
  LowMatmul product;
  const std::int64_t clusters = tiling.blocks / tiling.cluster_blocks();
  const std::int64_t count = tiles(tiling);
  product.leading = c_.leading;
  product.batch_stride = c_.batch_stride;
  product.m = static_cast<int>(m_);
  product.n = static_cast<int>(n_);
  product.steps = static_cast<int>(steps());
  product.tiles_m = static_cast<int>(ceil_divide(m_, std::int64_t{tiling.rows} * tiling.cluster_rows));
  product.tiles_n = static_cast<int>(ceil_divide(n_, std::int64_t{tiling.columns} * tiling.cluster_columns));
  product.tiles = static_cast<int>(count);
  if (!tiling.shares) {
    product.whole_rounds = static_cast<int>(ceil_divide(count, clusters));
    return product;
  }
  // One round fewer if tiles remain: ranges of one to two tiles' steps end within a tile less often.
  const std::int64_t whole = count / clusters;
  product.whole_rounds = static_cast<int>(count % clusters == 0 ? whole : std::max<std::int64_t>(whole - 1, 0));
  product.shared_steps = static_cast<int>((count - product.whole_rounds * clusters) * steps());
  return product;
}

std::array<TensorMapShape, 3> LowMatmulPlan::maps(const LowTiling& tiling) const {
  std::array<TensorMapShape, 3> maps = {map_of(a_, dtype_), map_of(b_, dtype_), map_of(c_, result_dtype_)};
  const auto lines_of_a = static_cast<std::uint32_t>(a_rows_contiguous_ ? tiling.rows : LowMatmulTiling::kStepK);
  const auto lines_of_b = static_cast<std::uint32_t>(b_columns_contiguous_ ? tiling.columns : LowMatmulTiling::kStepK);
  maps[0].box = {kPanel, lines_of_a / static_cast<std::uint32_t>(tiling.cluster_columns), 1, 1};
  maps[1].box = {kPanel, lines_of_b / static_cast<std::uint32_t>(tiling.cluster_rows), 1, 1};
  const int result_bytes = static_cast<int>(size_bytes(result_dtype_));
  maps[2].line_bytes = LowMatmulTiling::line_bytes(tiling.columns, result_bytes);
  maps[2].box = {static_cast<std::uint32_t>(maps[2].line_bytes / result_bytes), kPanel, 1, 1};
  return maps;
}

int LowMatmulPlan::shared_bytes(const LowTiling& tiling) const {
  return LowMatmulTiling::shared_bytes(tiling.rows, tiling.columns, b_columns_contiguous_,
                                       static_cast<int>(size_bytes(result_dtype_)));
}

std::string LowMatmulPlan::function_name(const LowTiling& tiling) const {
  return fmt::format("low_matmul_{}{}_{}_{}{}", name(dtype_),
                     result_dtype_ == dtype_ ? "" : fmt::format("_{}", name(result_dtype_)), shape_text(tiling),
                     a_rows_contiguous_ ? 'n' : 't', b_columns_contiguous_ ? 't' : 'n');
}

std::string LowMatmulPlan::image() const { return fmt::format("low_matmul_{}_wgmma", name(dtype_)); }

bool has_low_matmul(const CardFacts& card) { return card.capability.number() == 90; }

LowMatmulLaunch::LowMatmulLaunch(CudaContext& context, const LowMatmulPlan& plan, const LowTiling& tiling)
    : context_(context),
      name_(plan.function_name(tiling)),
      parameters_(plan.parameters(tiling)),
      maps_(plan.maps(tiling)),
      function_(context.kernel(plan.image(), name_.c_str())) {
  shape_.grid_x = static_cast<unsigned>(tiling.blocks);
  shape_.block_x = LowMatmulTiling::kThreads;
  shape_.shared_bytes = static_cast<unsigned>(plan.shared_bytes(tiling));
  shape_.waits_by_itself = true;
  if (tiling.shares) parameters_.is_written = block_flags(context);
  context.allow_shared(function_, shape_.shared_bytes);
}

void LowMatmulLaunch::launch(const Addresses& at) {
  const CudaContext::Scope scope(context_);
  const std::array<const void*, 3> addresses = {at.a, at.b, at.c};
  const std::array<TensorMap*, 3> maps = {&parameters_.a, &parameters_.b, &parameters_.c};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (std::exchange(mapped_[i], addresses[i]) != addresses[i]) *maps[i] = make_tensor_map(maps_[i], addresses[i]);
  }
  parameters_.addend = at.addend;
  parameters_.partial_sums = static_cast<float*>(at.workspace);
  void* arguments[] = {&parameters_};
  if (parameters_.shared_steps > 0) {
    context_.launch_together(function_, shape_, arguments, name_.c_str());
  } else {
    context_.launch(function_, shape_, arguments, name_.c_str());
  }
}

}  // namespace ridgepoint::cuda
