// dequantise (src/ops/rules/dequantise.cpp) by the kernels of dequantise.cu: one launch for each weight.
#include <algorithm>
#include <vector>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/kernels/dequantise/parameters.h"
#include "core/dynamic_code.h"
#include "ir/packed_weight.h"

namespace ridgepoint::cuda {
namespace {

Nf4Levels nf4_levels() {
  Nf4Levels levels;
  std::ranges::copy(kNf4Levels, levels.elements);
  std::ranges::copy(dynamic_levels(DType::dynamic8), levels.magnitudes);
  return levels;
}

class Dequantise : public Kernel {
 public:
  Dequantise(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : element_bytes_(static_cast<std::int64_t>(size_bytes(spec.outputs[0].dtype))), levels_(nf4_levels()) {
    for (const PackedPart& part : packed_parts(spec.node.attributes)) {
      const PackedMatrix& matrix = part.matrix;
      is_nf4_ = is_of_4_bits(matrix.format);
      const LaunchShape shape{.grid_x = block_count(matrix.elements(), PackedGrid::kElementsPerBlock),
                              .block_x = static_cast<unsigned>(variant.tiling.threads)};
      parts_.push_back({part,
                        {.elements = checked_int(matrix.elements(), "the number of elements of a packed weight"),
                         .columns = checked_int(matrix.columns, "the columns of a packed weight"),
                         .scales = matrix.scales(),
                         .outer_scales = matrix.format == BaseWeights::nf4 ? matrix.outer_scales() : 0,
                         .mean = matrix.mean(),
                         .head_size = static_cast<std::int32_t>(matrix.order.head_size),
                         .rotated = static_cast<std::int32_t>(matrix.order.rotated),
                         .kept = static_cast<std::int32_t>(matrix.order.kept)},
                        {context, variant.image, is_nf4_ ? variant.entry : variant.scalar_entry, shape}});
    }
  }

  std::string_view name() const override { return parts_.front().kernel.name; }

  void launch(const LaunchArguments& arguments) override {
    for (const Part& part : parts_) {
      void* const packed = static_cast<std::byte*>(arguments.inputs[0]) + part.at.first_byte;
      void* const result =
          static_cast<std::byte*>(arguments.outputs[0]) + part.at.first_row * part.at.matrix.columns * element_bytes_;
      if (is_nf4_) {
        part.kernel.launch(part.grid, levels_, packed, result);
      } else {
        part.kernel.launch(part.grid, packed, result);
      }
    }
  }

 private:
  struct Part {
    PackedPart at;
    PackedGrid grid;
    Launchable kernel;
  };

  std::int64_t element_bytes_;
  Nf4Levels levels_;
  bool is_nf4_ = false;
  std::vector<Part> parts_;
};

template <DType kResult>
bool makes(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return graph.type(node.outputs[0]).dtype == kResult;
}

template <DType kResult>
constexpr KernelVariant variant(const char* nf4, const char* int8) {
  return {.op = Op::dequantise,
          .dtype = DType::packed,
          .supports_node = makes<kResult>,
          .tiling = {.threads = PackedGrid::kThreads},
          .image = "dequantise",
          .entry = nf4,
          .scalar_entry = int8,
          .make = make_variant<Dequantise>};
}
constexpr KernelVariant kVariants[] = {
    variant<DType::bf16>("dequantise_forward_nf4_bf16", "dequantise_forward_int8_bf16"),
    variant<DType::fp16>("dequantise_forward_nf4_fp16", "dequantise_forward_int8_fp16"),
    variant<DType::fp32>("dequantise_forward_nf4_fp32", "dequantise_forward_int8_fp32"),
};

}  // namespace

std::span<const KernelVariant> dequantise_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
