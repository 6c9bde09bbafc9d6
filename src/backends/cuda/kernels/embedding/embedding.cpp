// Embedding (rows of a table by index) and its gradient (rows summed by index): the kernels of embedding.cu and
// embedding_backward.cu.
//
// Dense operands of any floating dtype. An index outside the table gives a row of NaN, and its gradient is omitted.
// Gradients are summed in fp32 (fp64 for fp64) and are bit for bit reproducible.
#include "backends/cuda/hand_written.h"

#include "backends/cuda/driver/kernel_launch.h"

namespace ridgepoint::cuda {
namespace {

constexpr unsigned kWarpLanes = 32;

class EmbeddingForward : public Kernel {
 public:
  EmbeddingForward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : table_rows_(spec.inputs[0].shape[0]),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(spec.inputs[0].dtype));
    const std::int64_t row_bytes = spec.inputs[0].shape[1] * element_bytes;
    const auto gather = [&](const char* entry, std::int64_t word_bytes) {
      const int words = checked_int(row_bytes / word_bytes, "the width of an embedding");
      const auto rows = static_cast<unsigned>(variant.tiling.rows);
      const unsigned grid_y = checked_grid_y(words, variant.tiling.columns, "the width of an embedding");
      const LaunchShape shape{
          .grid_x = block_count(count_, rows), .grid_y = grid_y, .block_x = kWarpLanes, .block_y = rows};
      return Gather{{context, variant.image, entry, shape}, words};
    };
    elements_ = gather(variant.scalar_entry, element_bytes);
    vectors_ = row_bytes % kVectorBytes == 0 ? gather(variant.entry, kVectorBytes) : elements_;
  }

  std::string_view name() const override { return vectors_.kernel.name; }

  void launch(const LaunchArguments& arguments) override {
    void* const* in = arguments.inputs;
    void* const output = arguments.outputs[0];
    const Gather& chosen = are_vector_aligned({in[0], output}) ? vectors_ : elements_;
    if (!chosen.kernel.is_empty()) chosen.kernel.launch(in[0], in[1], output, table_rows_, count_, chosen.words);
  }

 private:
  struct Gather {
    Launchable kernel;
    int words = 0;  // of a row
  };

  std::int64_t table_rows_;
  int count_;
  Gather vectors_;
  Gather elements_;
};

// The workspace of the backward has the offset of each row's positions, and the positions.
std::size_t backward_workspace_bytes(const KernelVariant& /*variant*/, const CardFacts& /*card*/,
                                     const KernelSpec& spec) {
  const std::int64_t rows = spec.outputs[0].shape[0];
  return static_cast<std::size_t>(rows + 1 + spec.inputs[1].shape.elements()) * sizeof(int);
}

// embedding_backward and embedding_backward_add: sorts the positions by index, then sums each row and writes it once.
class EmbeddingBackward : public Kernel {
 public:
  EmbeddingBackward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : block_rows_(variant.tiling.rows),
        rows_(checked_int(spec.outputs[0].shape[0], "the number of rows of an embedding")),
        columns_(checked_int(spec.outputs[0].shape[1], "the width of an embedding")),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")),
        workspace_bytes_(backward_workspace_bytes(variant, context.card(), spec)),
        adds_(spec.node.op == Op::embedding_backward_add) {
    divides_ = columns_ * static_cast<std::int64_t>(size_bytes(spec.outputs[0].dtype)) % kVectorBytes == 0;
    constexpr unsigned kSortRows = 256;  // as in embedding_backward.cu
    sort_ = {context, variant.image, variant.prepare_entry, {.grid_x = block_count(rows_, kSortRows), .block_x = 1024}};
    const auto sum = [&](const char* entry, std::int64_t slice_columns) {
      const unsigned grid_y = checked_grid_y(columns_, slice_columns, "the width of an embedding");
      const LaunchShape shape{.grid_x = block_count(rows_, block_rows_),
                              .grid_y = grid_y,
                              .block_x = kWarpLanes,
                              .block_y = static_cast<unsigned>(block_rows_)};
      return Launchable(context, variant.image, entry, shape);
    };
    constexpr std::int64_t kElementsPerSlice = 64;  // as in embedding_backward.cu
    vectors_ = sum(variant.entry, variant.tiling.columns);
    elements_ = sum(variant.scalar_entry, kElementsPerSlice);
  }

  std::string_view name() const override { return divides_ ? vectors_.name : elements_.name; }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    if (rows_ == 0 || columns_ == 0) return;
    void* const gradient = arguments.inputs[0];
    void* const indices = arguments.inputs[1];
    void* const addend = adds_ ? arguments.inputs[2] : nullptr;
    void* const output = arguments.outputs[0];
    auto* const offsets = static_cast<int*>(arguments.workspace);
    int* const positions = offsets + rows_ + 1;
    Launchable chosen = divides_ && are_vector_aligned({gradient, addend, output}) ? vectors_ : elements_;
    if (addend == output) {  // only rows with an index
      if (count_ == 0) return;
      chosen.shape.grid_x = block_count(count_, block_rows_);
    }
    void* const listed = addend == output ? indices : nullptr;
    sort_.launch(indices, offsets, positions, rows_, count_);
    chosen.launch(gradient, listed, offsets, positions, addend, output, rows_, columns_);
  }

 private:
  int block_rows_;
  int rows_;
  int columns_;
  int count_;
  std::size_t workspace_bytes_;
  bool adds_;
  bool divides_ = false;
  Launchable sort_;
  Launchable vectors_;
  Launchable elements_;
};

// A block copies `rows` rows, `columns` words of each: vectors, or elements if a row is not a whole number of vectors.
constexpr KernelVariant forward(DType dtype, const char* elements) {
  return {.op = Op::embedding,
          .dtype = dtype,
          .tiling = {.rows = 8, .columns = 64, .threads = 256},
          .image = "embedding",
          .entry = "embedding_forward_vectors",
          .scalar_entry = elements,
          .make = make_variant<EmbeddingForward>};
}
// A block sums `rows` rows of the table's gradient, `columns` elements of each.
constexpr KernelVariant backward(Op op, DType dtype, int columns, const char* vectors, const char* elements) {
  return {.op = op,
          .dtype = dtype,
          .tiling = {.rows = 16, .columns = columns, .threads = 512},
          .image = "embedding_backward",
          .entry = vectors,
          .scalar_entry = elements,
          .prepare_entry = "embedding_backward_sort",
          .workspace_bytes = backward_workspace_bytes,
          .make = make_variant<EmbeddingBackward>};
}
constexpr KernelVariant kVariants[] = {
    forward(DType::fp64, "embedding_forward_doubles"),
    forward(DType::fp32, "embedding_forward_singles"),
    forward(DType::bf16, "embedding_forward_halves"),
    forward(DType::fp16, "embedding_forward_halves"),
    backward(Op::embedding_backward, DType::fp64, 128, "embedding_backward_vectors_fp64",
             "embedding_backward_elements_fp64"),
    backward(Op::embedding_backward, DType::fp32, 256, "embedding_backward_vectors_fp32",
             "embedding_backward_elements_fp32"),
    backward(Op::embedding_backward, DType::bf16, 256, "embedding_backward_vectors_bf16",
             "embedding_backward_elements_bf16"),
    backward(Op::embedding_backward, DType::fp16, 256, "embedding_backward_vectors_fp16",
             "embedding_backward_elements_fp16"),
    backward(Op::embedding_backward_add, DType::fp64, 128, "embedding_backward_vectors_fp64",
             "embedding_backward_elements_fp64"),
    backward(Op::embedding_backward_add, DType::fp32, 256, "embedding_backward_vectors_fp32",
             "embedding_backward_elements_fp32"),
    backward(Op::embedding_backward_add, DType::bf16, 256, "embedding_backward_vectors_bf16",
             "embedding_backward_elements_bf16"),
    backward(Op::embedding_backward_add, DType::fp16, 256, "embedding_backward_vectors_fp16",
             "embedding_backward_elements_fp16"),
};

}  // namespace

std::span<const KernelVariant> embedding_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
