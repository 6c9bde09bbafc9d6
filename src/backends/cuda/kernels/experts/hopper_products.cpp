#include "backends/cuda/kernels/experts/hopper_products.h"

#include <utility>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/kernels/experts/parameters.h"

namespace ridgepoint::cuda {
namespace {

using Tiling = HopperGroupedTiling;
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

class HopperGroupedMatmulKernel : public Kernel {
 public:
  HopperGroupedMatmulKernel(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant,
                            std::unique_ptr<Kernel> portable)
      : context_(context), portable_(std::move(portable)) {
    const GroupedForm form = form_of(spec.node);
    const bool sums_rows = form == GroupedForm::weights;
    GroupedMatmul& sizes = parameters_.rest;
    sizes.experts = checked_int(spec.inputs[2].shape[0] - 1, "the number of experts");
    sizes.rows = checked_int(spec.inputs[0].shape[0], "the number of rows of a grouped matmul");
    sizes.inner = checked_int(spec.inputs[0].shape[1], "the inner size of a grouped matmul");
    sizes.columns = checked_int(spec.outputs[0].shape[-1], "the width of a grouped matmul");
    a_ = shape_of_map(spec.inputs[0], sums_rows ? Tiling::kInner : Tiling::kRows);
    b_ = shape_of_map(spec.inputs[1], form == GroupedForm::transposed ? Tiling::kColumns : Tiling::kInner);
    const std::int64_t tiles = sums_rows ? ceil_divide(sizes.inner, Tiling::kRows)
                                         : ceil_divide(sizes.rows, Tiling::kRows) + std::int64_t{sizes.experts};
    const std::int64_t bands = ceil_divide(tiles, Tiling::kRowsOfBand);
    kernel_ = {context.kernel(variant.image, variant.entry),
               variant.entry,
               {.grid_x = Tiling::kRowsOfBand,
                .grid_y = checked_grid_y(sizes.columns, Tiling::kColumns, "the width of a grouped matmul"),
                .grid_z = checked_grid_y(sums_rows ? bands * sizes.experts : bands, 1, "the tiles of a grouped matmul"),
                .block_x = Tiling::kThreads,
                .shared_bytes = Tiling::kSharedBytes}};
    context.allow_shared(kernel_.function, kernel_.shape.shared_bytes);
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
    void* list[] = {&parameters_};
    context_.launch(kernel_.function, kernel_.shape, list, kernel_.name);
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

}  // namespace

bool has_hopper_products(const Graph& graph, const Node& node) {
  constexpr std::int64_t kVector = 8;  // 16-bit elements of a vector
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& result = graph.type(node.outputs[0]).shape;
  if (graph.type(node.inputs[2]).shape[0] < 2 || a[0] == 0) return false;
  return a[1] > 0 && a[1] % kVector == 0 && result[-1] > 0 && result[-1] % kVector == 0;
}

std::unique_ptr<Kernel> make_hopper_products(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant,
                                             std::unique_ptr<Kernel> portable) {
  return std::make_unique<HopperGroupedMatmulKernel>(context, spec, variant, std::move(portable));
}

}  // namespace ridgepoint::cuda
