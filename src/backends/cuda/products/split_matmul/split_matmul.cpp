#include "backends/cuda/products/split_matmul/split_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/products/operands/mapping.h"
#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

// The tilings of the kernels in split_matmul_wgmma.cu.
constexpr std::array<SplitTiling, 4> kShapes = {{{128, 128}, {128, 64}, {64, 128}, {64, 64}}};
constexpr int kAlignmentBytes = 1024;

constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;
constexpr std::int64_t kLargestK = std::int64_t{1} << 24;
constexpr std::int64_t kVector = 4;

// An operand as lines of contiguous elements; nullopt if vectors would cross 16-byte boundaries.
struct Lines {
  SplitMatmul::Matrix layout;
  bool rows_contiguous = true;
};
std::optional<Lines> lines_of(const StridedMatrix& matrix, std::int64_t vector) {
  if (matrix.immediate) return std::nullopt;
  const std::optional<BlasLayout> blas = blas_layout(matrix);
  if (!blas) return std::nullopt;
  const std::int64_t length = blas->transposed ? matrix.rows : matrix.columns;
  if (blas->leading % vector != 0 || length % vector != 0) return std::nullopt;
  Lines lines;
  lines.layout.leading = blas->leading;
  lines.rows_contiguous = !blas->transposed;
  return lines;
}

int shared_bytes(const SplitTiling& tiling) {
  return SplitMatmul::stages(tiling.rows, tiling.columns) * SplitMatmul::stage_bytes(tiling.rows, tiling.columns) +
         kAlignmentBytes;
}

}  // namespace

std::string SplitTiling::to_text() const { return fmt::format("{}x{} in {}", rows, columns, blocks); }

std::optional<SplitTiling> SplitTiling::from_text(std::string_view text) {
  SplitTiling tiling;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto number = [&](int& value) {
    const auto read = std::from_chars(at, end, value);
    at = read.ptr;
    return read.ec == std::errc();
  };
  const auto word = [&](std::string_view expected) {
    if (!std::string_view(at, static_cast<std::size_t>(end - at)).starts_with(expected)) return false;
    at += expected.size();
    return true;
  };
  if (!number(tiling.rows) || !word("x") || !number(tiling.columns) || !word(" in ") || !number(tiling.blocks))
    return std::nullopt;
  return at == end ? std::optional(tiling) : std::nullopt;
}

std::optional<SplitMatmulPlan> SplitMatmulPlan::of(const MatmulProblem& problem) {
  if (problem.a.dtype != DType::fp32 || problem.flops() == 0) return std::nullopt;
  const std::optional<Lines> a = lines_of(problem.a, kVector);
  const std::optional<Lines> b = lines_of(problem.b, kVector);
  const std::optional<Lines> c = lines_of(problem.c, 2);
  if (!a || !b || !c || !c->rows_contiguous) return std::nullopt;
  const std::vector<BatchAxis> axes = merged_batch(problem);
  if (axes.size() > SplitMatmul::kMaxBatchAxes) return std::nullopt;

  SplitMatmulPlan plan;
  SplitMatmul& product = plan.product_;
  product.a_layout = a->layout;
  product.b_layout = b->layout;
  product.c_layout = c->layout;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = SplitMatmul::kMaxBatchAxes - axes.size() + i;
    const auto& [size, strides] = axes[i];
    if (size > kLargestSize || strides[0] % kVector != 0 || strides[1] % kVector != 0 || strides[2] % 2 != 0)
      return std::nullopt;
    product.batch_sizes[axis] = static_cast<int>(size);
    product.a_layout.batch_strides[axis] = strides[0];
    product.b_layout.batch_strides[axis] = strides[1];
    product.c_layout.batch_strides[axis] = strides[2];
  }
  if (problem.c.rows > kLargestSize || problem.c.columns > kLargestSize || problem.a.columns > kLargestK)
    return std::nullopt;
  product.m = static_cast<int>(problem.c.rows);
  product.n = static_cast<int>(problem.c.columns);
  product.k = static_cast<int>(problem.a.columns);
  plan.a_rows_contiguous_ = a->rows_contiguous;
  plan.b_columns_contiguous_ = !b->rows_contiguous;
  if (plan.tiles({64, 64, 0}) > kLargestSize) return std::nullopt;
  return plan;
}

std::int64_t SplitMatmulPlan::tiles(const SplitTiling& tiling) const {
  std::int64_t count = ceil_divide(product_.m, tiling.rows) * ceil_divide(product_.n, tiling.columns);
  for (const int size : product_.batch_sizes) count *= size;
  return count;
}

std::int64_t SplitMatmulPlan::steps() const { return ceil_divide(product_.k, SplitMatmul::kStepK); }

// If whole tiles would not fill the GPU, more blocks share the steps (split-K), but also fewer than there are
// multiprocessors, because partial sums cost time.
std::vector<SplitTiling> SplitMatmulPlan::candidates(int multiprocessors) const {
  const std::int64_t most = std::min(multiprocessors, kMostBlocks);
  std::vector<SplitTiling> found;
  for (SplitTiling shape : kShapes) {
    const std::int64_t count = tiles(shape);
    for (const std::int64_t blocks : {count, count * steps() / 4, count * steps() / 2, count * steps()}) {
      shape.blocks = static_cast<int>(std::clamp<std::int64_t>(blocks, std::min(count, most), most));
      if (found.empty() || found.back() != shape) found.push_back(shape);
    }
  }
  return found;
}

bool SplitMatmulPlan::supports(const SplitTiling& tiling, int multiprocessors) const {
  const std::vector<SplitTiling> known = candidates(multiprocessors);
  return std::find(known.begin(), known.end(), tiling) != known.end();
}

std::size_t SplitMatmulPlan::workspace_bytes() const {
  std::int64_t most = 0;
  for (const SplitTiling& shape : kShapes) {
    if (steps() == 1) continue;  // whole tiles only
    const std::int64_t blocks = std::min<std::int64_t>(tiles(shape) * steps(), kMostBlocks);
    most = std::max(most, blocks * shape.rows * shape.columns);
  }
  return static_cast<std::size_t>(most) * sizeof(float);
}

SplitMatmul SplitMatmulPlan::parameters(const SplitTiling& tiling) const {
  SplitMatmul product = product_;
  const std::int64_t count = tiles(tiling);
  const std::int64_t whole = count / tiling.blocks;
  product.tiles_m = static_cast<int>(ceil_divide(product.m, tiling.rows));
  product.tiles_n = static_cast<int>(ceil_divide(product.n, tiling.columns));
  product.steps = static_cast<int>(steps());
  // One round fewer if tiles remain: ranges of one to two tiles' steps end within a tile less often.
  product.whole_rounds = static_cast<int>(count % tiling.blocks == 0 ? whole : std::max<std::int64_t>(whole - 1, 0));
  product.shared_steps = static_cast<int>((count - product.whole_rounds * std::int64_t{tiling.blocks}) * steps());
  return product;
}

std::string SplitMatmulPlan::function_name(const SplitTiling& tiling) const {
  return fmt::format("split_matmul_{}x{}_{}{}", tiling.rows, tiling.columns, a_rows_contiguous_ ? 'n' : 't',
                     b_columns_contiguous_ ? 't' : 'n');
}

bool has_split_matmul(const CardFacts& card) { return card.capability.number() == 90; }

SplitMatmulLaunch::SplitMatmulLaunch(CudaContext& context, const SplitMatmulPlan& plan, const SplitTiling& tiling)
    : context_(context),
      name_(plan.function_name(tiling)),
      parameters_(plan.parameters(tiling)),
      function_(context.kernel("split_matmul_wgmma", name_.c_str())) {
  shape_.grid_x = static_cast<unsigned>(tiling.blocks);
  shape_.block_x = static_cast<unsigned>(tiling.rows / 64 * 128 + SplitMatmul::kReaderThreads);
  shape_.shared_bytes = static_cast<unsigned>(shared_bytes(tiling));
  parameters_.is_written = block_flags(context);
  context.allow_shared(function_, shape_.shared_bytes);
}

void SplitMatmulLaunch::launch(const Addresses& at) {
  parameters_.a = static_cast<const float*>(at.a);
  parameters_.b = static_cast<const float*>(at.b);
  parameters_.addend = static_cast<const float*>(at.addend);
  parameters_.c = static_cast<float*>(at.c);
  parameters_.partial_sums = at.workspace;
  void* arguments[] = {&parameters_};
  if (parameters_.shared_steps > 0) {
    context_.launch_together(function_, shape_, arguments, name_.c_str());
  } else {
    context_.launch(function_, shape_, arguments, name_.c_str());
  }
}

}  // namespace ridgepoint::cuda
