// The sum of squares over any number of tensors (src/ops/rules/reduce.cpp); the kernels of sum_of_squares.cu.
//
// Dense tensors in fp32, bf16 and fp16. One launch for every 1024 tensors, and one that adds the sums of all blocks.
#include <algorithm>
#include <vector>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/kernels/sum_of_squares/parameters.h"

namespace ridgepoint::cuda {
namespace {

SquaresElement element_of(DType dtype) {
  if (dtype == DType::bf16) return SquaresElement::bf16;
  return dtype == DType::fp16 ? SquaresElement::fp16 : SquaresElement::fp32;
}

std::int64_t chunks_of(const KernelSpec& spec) {
  std::int64_t chunks = 0;
  for (const TensorLayout& operand : spec.inputs)
    chunks += ceil_divide(operand.shape.elements(), std::int64_t{SquaresTable::kChunkElements});
  return chunks;
}

class SumOfSquares : public Kernel {
 public:
  SumOfSquares(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        entry_(variant.entry),
        function_(context.kernel(variant.image, variant.entry)),
        finish_(context, variant.image, variant.finish_entry,
                {.grid_x = 1, .block_x = static_cast<unsigned>(SquaresTable::kFinishThreads)}),
        chunks_(checked_int(chunks_of(spec), "the number of chunks of a sum of squares")) {
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      const std::int64_t elements = spec.inputs[i].shape.elements();
      if (elements == 0) continue;
      if (groups_.empty() || groups_.back().table.tensors == SquaresTable::kCapacity)
        groups_.push_back({.first_sum = groups_.empty() ? 0 : groups_.back().first_sum + groups_.back().chunks});
      Group& group = groups_.back();
      const auto slot = static_cast<std::size_t>(group.table.tensors++);
      group.table.first_chunk[slot] = group.chunks;
      group.table.elements[slot] = elements;
      group.table.types[slot] = element_of(spec.inputs[i].dtype);
      group.operands.push_back(i);
      group.chunks += block_count(elements, SquaresTable::kChunkElements);
    }
  }

  std::string_view name() const override { return entry_; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_) * sizeof(float); }

  void launch(const LaunchArguments& arguments) override {
    auto* const sums = static_cast<float*>(arguments.workspace);
    for (Group& group : groups_) {
      for (std::size_t slot = 0; slot < group.operands.size(); ++slot)
        group.table.operands[slot] = arguments.inputs[group.operands[slot]];
      float* own = sums + group.first_sum;
      void* parameters[] = {&group.table, &own};
      context_.launch(function_, {.grid_x = group.chunks, .block_x = static_cast<unsigned>(SquaresTable::kThreads)},
                      parameters, entry_);
    }
    finish_.launch(arguments.workspace, chunks_, arguments.outputs[0]);
  }

 private:
  // The tensors of one launch.
  struct Group {
    SquaresTable table = {};
    std::vector<std::size_t> operands = {};
    unsigned chunks = 0;
    std::size_t first_sum = 0;
  };

  CudaContext& context_;
  const char* entry_;
  CUfunction function_;
  Launchable finish_;
  std::int32_t chunks_;  // of all tensors
  std::vector<Group> groups_;
};

bool has_known_types(const KernelVariant& /*variant*/, const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.inputs, [&](Value operand) {
    const DType dtype = graph.type(operand).dtype;
    return dtype == DType::fp32 || is_low(dtype);
  });
}

std::size_t workspace_of_sums(const KernelVariant& /*variant*/, const CardFacts& /*card*/, const KernelSpec& spec) {
  return static_cast<std::size_t>(chunks_of(spec)) * sizeof(float);
}

constexpr KernelVariant variant(DType first) {
  return {.op = Op::sum_of_squares,
          .dtype = first,
          .supports_node = has_known_types,
          .tiling = {.columns = SquaresTable::kChunkElements, .threads = SquaresTable::kThreads},
          .image = "sum_of_squares",
          .entry = "sum_of_squares_forward_chunks",
          .finish_entry = "sum_of_squares_forward_finish",
          .workspace_bytes = workspace_of_sums,
          .rate = MemoryRate{.share = kRowRate.share, .fixed_seconds = 4 * kRowRate.fixed_seconds},
          .make = make_variant<SumOfSquares>};
}
constexpr KernelVariant kVariants[] = {variant(DType::fp32), variant(DType::bf16), variant(DType::fp16)};

}  // namespace

std::span<const KernelVariant> sum_of_squares_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
