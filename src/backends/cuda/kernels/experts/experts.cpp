// Mixture of experts: the kernels of routing.cu, grouped_matmul.cu and grouped_matmul_wgmma.cu.
//
// Dense operands of any floating dtype. An index outside its range is omitted; offsets are taken as if they were within
// the rows. Results are bit for bit reproducible.
#include <algorithm>
#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/kernels/experts/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr unsigned kWarpLanes = 32;

// Top-k or its gradient: two operands or two results beside the others, in the order of the kernels' parameters.
class TopK : public Kernel {
 public:
  TopK(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : is_backward_(spec.node.op == Op::top_k_backward) {
    const Shape& whole = is_backward_ ? spec.outputs[0].shape : spec.inputs[0].shape;
    const Shape& largest = is_backward_ ? spec.inputs[0].shape : spec.outputs[0].shape;
    width_ = checked_int(whole[-1], "the width of a top-k");
    k_ = static_cast<int>(largest[-1]);
    rows_ = checked_int(whole.elements() / width_, "the number of rows of a top-k");
    kernel_ = {context,
               variant.image,
               variant.entry,
               {.grid_x = block_count(rows_, variant.tiling.rows),
                .block_x = kWarpLanes,
                .block_y = static_cast<unsigned>(variant.tiling.rows)}};
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    void* const second = is_backward_ ? arguments.inputs[1] : arguments.outputs[0];
    void* const third = is_backward_ ? arguments.outputs[0] : arguments.outputs[1];
    kernel_.launch(arguments.inputs[0], second, third, rows_, width_, k_);
  }

 private:
  bool is_backward_;
  int rows_ = 0, width_ = 0, k_ = 0;
  Launchable kernel_;
};

// Offsets and positions, as the sort of embedding_backward.cu writes them.
std::size_t order_workspace_bytes(const KernelVariant& /*variant*/, const CardFacts& /*card*/, const KernelSpec& spec) {
  return static_cast<std::size_t>(spec.outputs[2].shape[0] + spec.inputs[0].shape.elements()) * sizeof(int);
}

class ExpertOrderKernel : public Kernel {
 public:
  ExpertOrderKernel(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : count_(checked_int(spec.inputs[0].shape.elements(), "the number of choices of experts")),
        k_(static_cast<int>(spec.inputs[0].shape[1])),
        experts_(checked_int(spec.outputs[2].shape[0] - 1, "the number of experts")),
        workspace_bytes_(order_workspace_bytes(variant, context.card(), spec)) {
    constexpr const char* kSort = "embedding_backward_sort";
    constexpr unsigned kSortRows = 256;  // as in embedding_backward.cu
    sort_ = {context, "embedding_backward", kSort, {.grid_x = block_count(experts_, kSortRows), .block_x = 1024}};
    const auto threads = static_cast<unsigned>(variant.tiling.threads);
    widen_ = {context,
              variant.image,
              variant.entry,
              {.grid_x = block_count(std::max(count_, experts_ + 1), threads), .block_x = threads}};
  }

  std::string_view name() const override { return widen_.name; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    void* const* out = arguments.outputs;
    auto* const sorted_offsets = static_cast<int*>(arguments.workspace);
    int* const positions = sorted_offsets + experts_ + 1;
    sort_.launch(arguments.inputs[0], sorted_offsets, positions, experts_, count_);
    widen_.launch(sorted_offsets, positions, out[0], out[1], out[2], count_, experts_, k_);
  }

 private:
  int count_;
  int k_;
  int experts_;
  std::size_t workspace_bytes_;
  Launchable sort_;
  Launchable widen_;
};

// The parameters without addresses.
GroupedMatmul sizes_of_grouped(const KernelSpec& spec) {
  GroupedMatmul sizes;
  sizes.experts = checked_int(spec.inputs[2].shape[0] - 1, "the number of experts");
  sizes.rows = checked_int(spec.inputs[0].shape[0], "the number of rows of a grouped matmul");
  sizes.inner = checked_int(spec.inputs[0].shape[1], "the inner size of a grouped matmul");
  sizes.columns = checked_int(spec.outputs[0].shape[-1], "the width of a grouped matmul");
  return sizes;
}

class GroupedMatmulKernel : public Kernel {
 public:
  GroupedMatmulKernel(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : parameters_(sizes_of_grouped(spec)) {
    const bool sums_rows = spec.node.op == Op::grouped_matmul_weights;
    const std::int64_t tiles = sums_rows
                                   ? ceil_divide(parameters_.inner, kGroupedTile)
                                   : ceil_divide(parameters_.rows, kGroupedTile) + std::int64_t{parameters_.experts};
    kernel_ = {context,
               variant.image,
               variant.entry,
               {.grid_x = block_count(parameters_.columns, kGroupedTile),
                .grid_y = checked_grid_y(tiles, 1, "the number of tiles of a grouped matmul"),
                .grid_z = sums_rows ? checked_grid_y(parameters_.experts, 1, "the number of experts") : 1U,
                .block_x = static_cast<unsigned>(variant.tiling.threads)}};
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    parameters_.a = arguments.inputs[0];
    parameters_.b = arguments.inputs[1];
    parameters_.offsets = static_cast<const long long*>(arguments.inputs[2]);
    parameters_.c = arguments.outputs[0];
    kernel_.launch(parameters_);
  }

 private:
  GroupedMatmul parameters_;
  Launchable kernel_;
};

template <bool kTransposed>
bool has_form(const KernelVariant& /*variant*/, const Graph& /*graph*/, const Node& node) {
  return node.attributes.get<bool>("transposed") == kTransposed;
}

constexpr std::uint32_t kPanelColumns = 64;

GroupedForm form_of(const Node& node) {
  if (node.op == Op::grouped_matmul_weights) return GroupedForm::weights;
  return node.attributes.get<bool>("transposed") ? GroupedForm::transposed : GroupedForm::plain;
}

// A dense [rows,columns] or [experts,rows,columns], in boxes of `lines` rows and 64 columns.
TensorMapShape shape_of_map(const TensorLayout& layout, int lines) {
  const Shape& shape = layout.shape;
  const std::int64_t columns = shape[-1];
  return {.dtype = layout.dtype,
          .sizes = {columns, shape[-2], shape.rank() > 2 ? shape[0] : 1, 1},
          .strides = {columns, columns * shape[-2], 0},
          .box = {kPanelColumns, static_cast<std::uint32_t>(lines), 1, 1}};
}

// Of grouped_matmul_wgmma.cu. `portable` runs where an operand does not begin at a multiple of 16 bytes, as the copy
// engine needs it.
class HopperGroupedMatmulKernel : public Kernel {
 public:
  HopperGroupedMatmulKernel(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant,
                            std::unique_ptr<Kernel> portable)
      : context_(context), portable_(std::move(portable)) {
    const GroupedForm form = form_of(spec.node);
    const bool sums_rows = form == GroupedForm::weights;
    const GroupedMatmul sizes = parameters_.rest = sizes_of_grouped(spec);
    a_ = shape_of_map(spec.inputs[0], sums_rows ? HopperGroupedTiling::kInner : HopperGroupedTiling::kRows);
    b_ = shape_of_map(spec.inputs[1],
                      form == GroupedForm::transposed ? HopperGroupedTiling::kColumns : HopperGroupedTiling::kInner);
    const std::int64_t tiles = sums_rows
                                   ? ceil_divide(sizes.inner, HopperGroupedTiling::kRows)
                                   : ceil_divide(sizes.rows, HopperGroupedTiling::kRows) + std::int64_t{sizes.experts};
    const std::int64_t bands = ceil_divide(tiles, HopperGroupedTiling::kRowsOfBand);
    kernel_ = {context,
               variant.image,
               variant.entry,
               {.grid_x = HopperGroupedTiling::kRowsOfBand,
                .grid_y = checked_grid_y(sizes.columns, HopperGroupedTiling::kColumns, "the width of a grouped matmul"),
                .grid_z = checked_grid_y(sums_rows ? bands * sizes.experts : bands, 1, "the tiles of a grouped matmul"),
                .block_x = HopperGroupedTiling::kThreads,
                .shared_bytes = HopperGroupedTiling::kSharedBytes}};
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    const void* a = arguments.inputs[0];
    const void* b = arguments.inputs[1];
    if (!are_vector_aligned({a, b, arguments.outputs[0]})) return portable_->launch(arguments);
    const CudaContext::Scope scope(context_);
    if (std::exchange(a_data_, a) != a) parameters_.a = make_tensor_map(a_, a);
    if (std::exchange(b_data_, b) != b) parameters_.b = make_tensor_map(b_, b);
    parameters_.rest.offsets = static_cast<const long long*>(arguments.inputs[2]);
    parameters_.rest.c = arguments.outputs[0];
    kernel_.launch(parameters_);
  }

 private:
  CudaContext& context_;
  std::unique_ptr<Kernel> portable_;
  HopperGroupedMatmul parameters_;
  TensorMapShape a_, b_;
  const void* a_data_ = nullptr;  // for which the maps are
  const void* b_data_ = nullptr;
  Launchable kernel_;
};

// Whether rows of the operands and of the result are whole vectors, and none of them is empty.
bool has_hopper_products(const Graph& graph, const Node& node) {
  constexpr std::int64_t kVector = 8;  // 16-bit elements of a vector
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& result = graph.type(node.outputs[0]).shape;
  if (graph.type(node.inputs[2]).shape[0] < 2 || a[0] == 0) return false;
  return a[1] > 0 && a[1] % kVector == 0 && result[-1] > 0 && result[-1] % kVector == 0;
}

bool has_hopper_weights(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return has_hopper_products(graph, node);
}
template <bool kTransposed>
bool has_hopper_form(const KernelVariant& variant, const Graph& graph, const Node& node) {
  return has_form<kTransposed>(variant, graph, node) && has_hopper_products(graph, node);
}

std::unique_ptr<Kernel> make_hopper(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  for (const KernelVariant& portable : experts_variants()) {
    if (portable.is_for_that_capability_alone || !portable.is_candidate(context.card(), spec.graph, spec.node))
      continue;
    return std::make_unique<HopperGroupedMatmulKernel>(context, spec, variant, portable.make(context, spec, portable));
  }
  throw Error("a grouped matmul on Hopper has no portable kernel", ErrorKind::unsupported);
}

// A warp computes a row.
constexpr KernelVariant top_k(Op op, DType dtype, const char* entry) {
  return {.op = op,
          .dtype = dtype,
          .tiling = {.rows = 8, .threads = 256},
          .image = "routing",
          .entry = entry,
          .make = make_variant<TopK>};
}
// In bf16 grouped products ran at 85 to 95 % of the rate of other products.
constexpr KernelRate rate_of_grouped(DType dtype) {
  if (dtype == DType::fp64) return {};
  return dtype == DType::fp32 ? kGroupedFp32ProductRate : kHalfProductRate;
}

// A block computes a tile.
constexpr KernelVariant grouped(Op op, DType dtype, const char* entry,
                                bool (*supports)(const KernelVariant&, const Graph&, const Node&)) {
  return {.op = op,
          .dtype = dtype,
          .supports_node = supports,
          .tiling = {.rows = kGroupedTile, .columns = kGroupedTile, .threads = 128},
          .image = "grouped_matmul",
          .entry = entry,
          .rate = rate_of_grouped(dtype),
          .make = make_variant<GroupedMatmulKernel>};
}

constexpr KernelVariant hopper_grouped(Op op, DType dtype, const char* entry,
                                       bool (*supports)(const KernelVariant&, const Graph&, const Node&)) {
  using Tiling = HopperGroupedTiling;
  return {.op = op,
          .dtype = dtype,
          .least_capability = {9, 0},
          .is_for_that_capability_alone = true,
          .supports_node = supports,
          .tiling = {.rows = Tiling::kRows,
                     .columns = Tiling::kColumns,
                     .threads = Tiling::kThreads,
                     .shared_bytes = Tiling::kSharedBytes},
          .image = "grouped_matmul_wgmma",
          .entry = entry,
          .rate = kHalfProductRate,
          .make = make_hopper};
}

constexpr KernelVariant kVariants[] = {
    top_k(Op::top_k, DType::fp64, "top_k_forward_warp_row_fp64"),
    top_k(Op::top_k, DType::fp32, "top_k_forward_warp_row_fp32"),
    top_k(Op::top_k, DType::bf16, "top_k_forward_warp_row_bf16"),
    top_k(Op::top_k, DType::fp16, "top_k_forward_warp_row_fp16"),
    top_k(Op::top_k_backward, DType::fp64, "top_k_backward_warp_row_fp64"),
    top_k(Op::top_k_backward, DType::fp32, "top_k_backward_warp_row_fp32"),
    top_k(Op::top_k_backward, DType::bf16, "top_k_backward_warp_row_bf16"),
    top_k(Op::top_k_backward, DType::fp16, "top_k_backward_warp_row_fp16"),
    {.op = Op::expert_order,
     .dtype = DType::int64,
     .tiling = {.threads = 256},
     .image = "routing",
     .entry = "expert_order_forward_sorted",
     .workspace_bytes = order_workspace_bytes,
     .make = make_variant<ExpertOrderKernel>},
    hopper_grouped(Op::grouped_matmul, DType::bf16, "grouped_matmul_forward_hopper_plain_bf16", has_hopper_form<false>),
    hopper_grouped(Op::grouped_matmul, DType::bf16, "grouped_matmul_forward_hopper_transposed_bf16",
                   has_hopper_form<true>),
    hopper_grouped(Op::grouped_matmul_weights, DType::bf16, "grouped_matmul_weights_forward_hopper_bf16",
                   has_hopper_weights),
    hopper_grouped(Op::grouped_matmul, DType::fp16, "grouped_matmul_forward_hopper_plain_fp16", has_hopper_form<false>),
    hopper_grouped(Op::grouped_matmul, DType::fp16, "grouped_matmul_forward_hopper_transposed_fp16",
                   has_hopper_form<true>),
    hopper_grouped(Op::grouped_matmul_weights, DType::fp16, "grouped_matmul_weights_forward_hopper_fp16",
                   has_hopper_weights),
    grouped(Op::grouped_matmul, DType::fp64, "grouped_matmul_forward_plain_fp64", has_form<false>),
    grouped(Op::grouped_matmul, DType::fp32, "grouped_matmul_forward_plain_fp32", has_form<false>),
    grouped(Op::grouped_matmul, DType::bf16, "grouped_matmul_forward_plain_bf16", has_form<false>),
    grouped(Op::grouped_matmul, DType::fp16, "grouped_matmul_forward_plain_fp16", has_form<false>),
    grouped(Op::grouped_matmul, DType::fp64, "grouped_matmul_forward_transposed_fp64", has_form<true>),
    grouped(Op::grouped_matmul, DType::fp32, "grouped_matmul_forward_transposed_fp32", has_form<true>),
    grouped(Op::grouped_matmul, DType::bf16, "grouped_matmul_forward_transposed_bf16", has_form<true>),
    grouped(Op::grouped_matmul, DType::fp16, "grouped_matmul_forward_transposed_fp16", has_form<true>),
    grouped(Op::grouped_matmul_weights, DType::fp64, "grouped_matmul_weights_forward_tiles_fp64", nullptr),
    grouped(Op::grouped_matmul_weights, DType::fp32, "grouped_matmul_weights_forward_tiles_fp32", nullptr),
    grouped(Op::grouped_matmul_weights, DType::bf16, "grouped_matmul_weights_forward_tiles_bf16", nullptr),
    grouped(Op::grouped_matmul_weights, DType::fp16, "grouped_matmul_weights_forward_tiles_fp16", nullptr),
};

}  // namespace

std::span<const KernelVariant> experts_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
