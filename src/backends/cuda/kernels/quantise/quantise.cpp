// quantise (src/ops/rules/quantise.cpp) by the kernels of quantise.cu: dense x in fp32, bf16 or fp16, whose sizes are
// multiples of 16, as products in 8 bits need them. The first kernel reads magnitudes instead of x where the node has
// them. transpose_codes by the first of these kernels and that of transpose_codes.cu, of such sizes too; with one scale
// by the latter alone.
#include "backends/cuda/hand_written.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/quantise/parameters.h"
#include "core/types/float8.h"
#include "ops/float8_product.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::int64_t kMultiple = 16;
constexpr const char* kLargestOfFp32 = "quantise_forward_largest_fp32";

// The first kernel, for so many elements.
struct LargestMagnitude {
  LargestMagnitude(CudaContext& context, const char* entry, const TensorLayout& searched)
      : elements(searched.shape.elements()) {
    const int threads = QuantiseGrid::largest_threads(searched.dtype == DType::fp32);
    const std::int64_t share = threads * kVectorBytes / static_cast<std::int64_t>(size_bytes(searched.dtype));
    const unsigned blocks = std::min(block_count(elements, share), unsigned{QuantiseGrid::kMostShares});
    shares = static_cast<std::int32_t>(blocks);
    kernel = {context,
              "quantise",
              entry,
              {.grid_x = blocks, .block_x = static_cast<unsigned>(threads), .waits_by_itself = true}};
  }

  void launch(const void* from, void* to) { kernel.launch(from, elements, to); }

  std::int64_t elements;
  std::int32_t shares = 0;
  Launchable kernel;
};

// A block for each tile of a matrix.
Launchable tiles_of(CudaContext& context, const KernelVariant& variant, const Shape& shape) {
  return {context,
          variant.image,
          variant.entry,
          {.grid_x = block_count(shape[1], variant.tiling.columns),
           .grid_y = checked_grid_y(shape[0], variant.tiling.rows, "the rows of a matrix in 8 bits"),
           .block_x = static_cast<unsigned>(variant.tiling.threads),
           .waits_by_itself = true}};
}

class Quantise : public Kernel {
 public:
  Quantise(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : layout_(quantise_layout(spec.node.attributes)),
        searched_(spec.inputs.size() - 1),
        largest_(context, variant.prepare_entry, spec.inputs.back()),
        tiles_(tiles_of(context, variant, spec.inputs[0].shape)) {
    const Shape& shape = spec.inputs[0].shape;
    const DType codes = spec.outputs[0].dtype;
    grid_.rows = checked_int(shape[0], "the rows of a matrix in 8 bits");
    grid_.columns = checked_int(shape[1], "the columns of a matrix in 8 bits");
    grid_.is_e5m2 = codes == DType::e5m2 ? 1 : 0;
    grid_.largest_code = float8_format(codes).largest;
    grid_.least_magnitude = static_cast<float>(kLeastFloat8Magnitude);
    grid_.shares = largest_.shares;
  }

  std::string_view name() const override { return tiles_.name; }
  std::size_t workspace_bytes() const override { return QuantiseGrid::kMostShares * sizeof(std::uint32_t); }

  void launch(const LaunchArguments& arguments) override {
    const void* x = arguments.inputs[0];
    void* shares = arguments.workspace;
    void* const* codes = arguments.outputs;
    void* rows = layout_.rows ? *codes++ : nullptr;
    void* columns = layout_.columns ? *codes++ : nullptr;
    void* scale = *codes;
    const void* searched = arguments.inputs[searched_];
    largest_.launch(searched, shares);
    tiles_.launch(grid_, x, shares, rows, columns, scale);
  }

 private:
  QuantiseLayout layout_;
  std::size_t searched_;  // the operand whose largest magnitude is that of x
  QuantiseGrid grid_;
  LargestMagnitude largest_;
  Launchable tiles_;
};

class TransposeCodes : public Kernel {
 public:
  TransposeCodes(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : tiles_(tiles_of(context, variant, spec.inputs[0].shape)) {
    if (spec.inputs[1].shape.rank() > 0) largest_.emplace(context, kLargestOfFp32, spec.inputs[1]);
    const Shape& shape = spec.inputs[0].shape;
    grid_.rows = checked_int(shape[0], "the rows of a matrix in 8 bits");
    grid_.columns = checked_int(shape[1], "the columns of a matrix in 8 bits");
    grid_.shares = largest_ ? largest_->shares : 0;
  }

  std::string_view name() const override { return tiles_.name; }
  std::size_t workspace_bytes() const override {
    return largest_ ? QuantiseGrid::kMostShares * sizeof(std::uint32_t) : 0;
  }

  void launch(const LaunchArguments& arguments) override {
    const void* codes = arguments.inputs[0];
    const void* scales = arguments.inputs[1];
    void* shares = arguments.workspace;
    void* columns = arguments.outputs[0];
    void* scale = arguments.outputs[1];
    if (largest_) largest_->launch(scales, shares);
    tiles_.launch(grid_, codes, scales, shares, columns, scale);
  }

 private:
  TransposedCodes grid_;
  std::optional<LargestMagnitude> largest_;  // of scales of rows
  Launchable tiles_;
};

bool has_whole_groups(const Graph& graph, const Node& node) {
  const Shape& shape = graph.type(node.inputs[0]).shape;
  return shape[0] % kMultiple == 0 && shape[1] % kMultiple == 0;
}

bool searches_matrix(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return node.inputs.size() == 1 && has_whole_groups(graph, node);
}

bool reads_magnitudes(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  constexpr std::int64_t kVector = kVectorBytes / sizeof(float);
  return node.inputs.size() == 2 && has_whole_groups(graph, node) &&
         graph.type(node.inputs[1]).elements() % kVector == 0;
}

bool reads_scales_of_rows(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return has_whole_groups(graph, node) && graph.type(node.inputs[1]).shape.rank() > 0;
}

bool reads_one_scale(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return has_whole_groups(graph, node) && graph.type(node.inputs[1]).shape.rank() == 0;
}

std::size_t workspace_of_quantise(const KernelVariant& /*variant*/, const CardFacts& /*card*/,
                                  const KernelSpec& /*spec*/) {
  return QuantiseGrid::kMostShares * sizeof(std::uint32_t);
}

constexpr KernelVariant variant(DType dtype, const char* largest, const char* tiles) {
  return {.op = Op::quantise,
          .dtype = dtype,
          .supports_node = searches_matrix,
          .tiling = {.rows = 128, .columns = 64, .threads = 256},
          .image = "quantise",
          .entry = tiles,
          .prepare_entry = largest,
          .workspace_bytes = workspace_of_quantise,
          .rate = MemoryRate{.share = kRowRate.share, .fixed_seconds = 2 * kRowRate.fixed_seconds, .reads = 2},
          .make = make_variant<Quantise>};
}

constexpr KernelVariant with_magnitudes(KernelVariant variant) {
  variant.supports_node = reads_magnitudes;
  variant.prepare_entry = kLargestOfFp32;
  variant.rate = MemoryRate{.share = kRowRate.share, .fixed_seconds = 2 * kRowRate.fixed_seconds};
  return variant;
}

constexpr KernelVariant kBf16 = variant(DType::bf16, "quantise_forward_largest_bf16", "quantise_forward_tiles_bf16");
constexpr KernelVariant kFp16 = variant(DType::fp16, "quantise_forward_largest_fp16", "quantise_forward_tiles_fp16");
constexpr KernelVariant kFp32 = variant(DType::fp32, kLargestOfFp32, "quantise_forward_tiles_fp32");

constexpr KernelVariant transposing(DType dtype, const char* tiles) {
  return {.op = Op::transpose_codes,
          .dtype = dtype,
          .supports_node = reads_scales_of_rows,
          .tiling = {.rows = 128, .columns = 128, .threads = 256},
          .image = "transpose_codes",
          .entry = tiles,
          .workspace_bytes = workspace_of_quantise,
          .rate = MemoryRate{.share = kRowRate.share, .fixed_seconds = 2 * kRowRate.fixed_seconds},
          .make = make_variant<TransposeCodes>};
}

constexpr KernelVariant with_one_scale(KernelVariant variant) {
  variant.supports_node = reads_one_scale;
  variant.workspace_bytes = nullptr;
  variant.rate = kRowRate;
  return variant;
}

constexpr KernelVariant kOfE4m3 = transposing(DType::e4m3, "transpose_codes_forward_e4m3");
constexpr KernelVariant kOfE5m2 = transposing(DType::e5m2, "transpose_codes_forward_e5m2");

constexpr KernelVariant kVariants[] = {kBf16,
                                       kFp16,
                                       kFp32,
                                       with_magnitudes(kBf16),
                                       with_magnitudes(kFp16),
                                       with_magnitudes(kFp32),
                                       kOfE4m3,
                                       kOfE5m2,
                                       with_one_scale(kOfE4m3),
                                       with_one_scale(kOfE5m2)};

}  // namespace

std::span<const KernelVariant> quantise_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
