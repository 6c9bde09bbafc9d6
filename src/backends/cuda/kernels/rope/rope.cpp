// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp); the kernels of rope.cu.
//
// fp32, bf16 or fp16, fewer than 2^32 elements: x [...,D] with any strides; cosines and sines [S,D/2] dense; output
// dense or with aligned rows; arithmetic in fp32.
#include "backends/cuda/hand_written.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/rope/parameters.h"

namespace ridgepoint::cuda {
namespace {

struct Axis {
  std::int64_t size;
  std::int64_t stride;
  std::int64_t output_stride;
  bool is_position;
};

bool is_one_axis(const Axis& outer, const Axis& inner) {
  return !outer.is_position && !inner.is_position && outer.stride == inner.size * inner.stride &&
         outer.output_stride == inner.size * inner.output_stride;
}

// The leading axes of x and the output, outermost first, without those of size 1; neighbours with one even stride are
// merged.
std::vector<Axis> leading_axes(const TensorLayout& x, const TensorLayout& output, int position_axis) {
  std::vector<Axis> axes;
  for (int i = 0; i < x.shape.rank() - 1; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Axis axis{x.shape[i], x.strides[at], output.strides[at], i == position_axis};
    if (axis.size == 1) continue;
    if (!axes.empty() && is_one_axis(axes.back(), axis)) {
      axes.back() = {axes.back().size * axis.size, axis.stride, axis.output_stride, false};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

RopeRows make_rows(const KernelSpec& spec, const std::vector<Axis>& axes, std::int64_t elements_per_item) {
  const TensorLayout& x = spec.inputs[0];
  RopeRows rows;
  rows.items = static_cast<std::uint32_t>(x.shape.elements() / elements_per_item);
  rows.items_per_row = Divisor(static_cast<std::uint32_t>(std::max<std::int64_t>(x.shape[-1] / elements_per_item, 1)));
  rows.depth = static_cast<std::int32_t>(axes.size());
  rows.position_axis = -1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    rows.sizes[i] = Divisor(static_cast<std::uint32_t>(std::max<std::int64_t>(axes[i].size, 1)));
    rows.strides[i] = axes[i].stride;
    rows.output_strides[i] = axes[i].output_stride;
    if (axes[i].is_position) rows.position_axis = static_cast<std::int32_t>(i);
  }
  rows.element_stride = x.strides[static_cast<std::size_t>(x.shape.rank() - 1)];
  rows.sine_sign = spec.node.attributes.get<bool>("inverse") ? -1.0F : 1.0F;
  return rows;
}

bool moves_in_vectors(const TensorLayout& x, const std::vector<Axis>& axes, std::int64_t width) {
  const bool unit = x.strides[static_cast<std::size_t>(x.shape.rank() - 1)] == 1;
  return unit && x.shape[-1] % width == 0 && std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) {
           return axis.stride % width == 0 && axis.output_stride % width == 0;
         });
}

class Rope : public Kernel {
 public:
  Rope(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
    const TensorLayout& x = spec.inputs[0];
    const std::int64_t width = kVectorBytes / static_cast<std::int64_t>(size_bytes(x.dtype));
    const int position_axis = normalise_axis(spec.node.attributes.get<std::int64_t>("axis"), x.shape.rank());
    const std::vector<Axis> axes = leading_axes(x, spec.outputs[0], position_axis);
    const auto rotation = [&](const char* entry, const RopeRows& rows) {
      const LaunchShape shape{.grid_x = block_count(rows.items, variant.tiling.columns),
                              .block_x = static_cast<unsigned>(variant.tiling.threads)};
      return Rotation{{context, variant.image, entry, shape}, rows};
    };
    pairs_ = rotation(variant.scalar_entry, make_rows(spec, axes, 2));
    vectors_ = moves_in_vectors(x, axes, width) ? rotation(variant.entry, make_rows(spec, axes, width)) : pairs_;
  }

  std::string_view name() const override { return vectors_.kernel.name; }

  void launch(const LaunchArguments& arguments) override {
    void* const* in = arguments.inputs;
    void* const output = arguments.outputs[0];
    const Rotation& chosen = are_vector_aligned({in[0], in[1], in[2], output}) ? vectors_ : pairs_;
    if (chosen.rows.items > 0) chosen.kernel.launch(chosen.rows, in[0], in[1], in[2], output);
  }

 private:
  struct Rotation {
    Launchable kernel;
    RopeRows rows;
  };

  Rotation vectors_;
  Rotation pairs_;
};

bool fits_32_bits(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return graph.type(node.inputs[0]).elements() / 2 < INT32_MAX;
}

// x may have any strides, except a constant, which has no storage until it is copied.
OperandLayout rope_layout(const Graph& graph, const Node& node, int index) {
  const bool is_constant = graph.producer_node(view_root(graph, node.inputs[0])).op == Op::constant;
  return index == 0 && !is_constant ? OperandLayout::any : OperandLayout::dense;
}

// A block computes `columns` vectors, or pairs if the operand or the output cannot be accessed in vectors.
constexpr KernelVariant variant(DType dtype, const char* vectors, const char* pairs) {
  return {.op = Op::rope,
          .dtype = dtype,
          .supports_node = fits_32_bits,
          .tiling = {.columns = 512, .threads = 256},
          .image = "rope",
          .entry = vectors,
          .scalar_entry = pairs,
          .layout = rope_layout,
          .strided_results = true,
          .make = make_variant<Rope>};
}
constexpr KernelVariant kVariants[] = {
    variant(DType::fp32, "rope_forward_vectors_fp32", "rope_forward_pairs_fp32"),
    variant(DType::bf16, "rope_forward_vectors_bf16", "rope_forward_pairs_bf16"),
    variant(DType::fp16, "rope_forward_vectors_fp16", "rope_forward_pairs_fp16"),
};

}  // namespace

std::span<const KernelVariant> rope_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
