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
      : context_(context),
        image_(variant.image),
        tiling_(variant.tiling),
        row_bytes_(spec.inputs[0].shape[1] * static_cast<std::int64_t>(size_bytes(spec.inputs[0].dtype))),
        table_rows_(spec.inputs[0].shape[0]),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")) {
    elements_ = gather(variant.scalar_entry, static_cast<std::int64_t>(size_bytes(spec.inputs[0].dtype)));
    vectors_ = row_bytes_ % kVectorBytes == 0 ? gather(variant.entry, kVectorBytes) : elements_;
  }

  std::string_view name() const override { return vectors_.launchable.name; }

  void launch(const LaunchArguments& arguments) override {
    table_ = arguments.inputs[0];
    indices_ = arguments.inputs[1];
    output_ = arguments.outputs[0];
    const Gather& chosen = are_vector_aligned({table_, output_}) ? vectors_ : elements_;
    if (chosen.launchable.is_empty()) return;
    words_ = chosen.words;
    context_.launch(chosen.launchable.function, chosen.launchable.shape, parameters_, chosen.launchable.name);
  }

 private:
  struct Gather {
    Launchable launchable;
    int words = 0;  // of a row
  };

  Gather gather(const char* entry, std::int64_t word_bytes) {
    Gather made;
    made.words = checked_int(row_bytes_ / word_bytes, "the width of an embedding");
    made.launchable = {context_.kernel(image_, entry),
                       entry,
                       {.grid_x = block_count(count_, tiling_.rows),
                        .grid_y = checked_grid_y(made.words, tiling_.columns, "the width of an embedding"),
                        .block_x = kWarpLanes,
                        .block_y = static_cast<unsigned>(tiling_.rows)}};
    return made;
  }

  CudaContext& context_;
  const char* image_;
  KernelTiling tiling_;
  std::int64_t row_bytes_;
  std::int64_t table_rows_;
  int count_;
  Gather vectors_;
  Gather elements_;
  const void* table_ = nullptr;
  const void* indices_ = nullptr;
  void* output_ = nullptr;
  int words_ = 0;
  void* parameters_[6] = {&table_, &indices_, &output_, &table_rows_, &count_, &words_};
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
      : context_(context),
        variant_(variant),
        rows_(checked_int(spec.outputs[0].shape[0], "the number of rows of an embedding")),
        columns_(checked_int(spec.outputs[0].shape[1], "the width of an embedding")),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")),
        workspace_bytes_(backward_workspace_bytes(variant, context.card(), spec)),
        adds_(spec.node.op == Op::embedding_backward_add) {
    divides_ = columns_ * static_cast<std::int64_t>(size_bytes(spec.outputs[0].dtype)) % kVectorBytes == 0;
    constexpr unsigned kSortRows = 256;  // as in embedding_backward.cu
    sort_ = {context.kernel(variant.image, variant.prepare_entry),
             variant.prepare_entry,
             {.grid_x = block_count(rows_, kSortRows), .block_x = 1024}};
    constexpr std::int64_t kElementsPerSlice = 64;  // as in embedding_backward.cu
    vectors_ = sum(variant.entry, variant.tiling.columns);
    elements_ = sum(variant.scalar_entry, kElementsPerSlice);
  }

  std::string_view name() const override { return divides_ ? vectors_.name : elements_.name; }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    if (rows_ == 0 || columns_ == 0) return;
    gradient_ = arguments.inputs[0];
    indices_ = arguments.inputs[1];
    addend_ = adds_ ? arguments.inputs[2] : nullptr;
    output_ = arguments.outputs[0];
    offsets_ = static_cast<int*>(arguments.workspace);
    positions_ = offsets_ + rows_ + 1;
    const Launchable& chosen = divides_ && are_vector_aligned({gradient_, addend_, output_}) ? vectors_ : elements_;
    LaunchShape shape = chosen.shape;
    if (addend_ == output_) {  // only rows with an index
      if (count_ == 0) return;
      shape.grid_x = block_count(count_, variant_.tiling.rows);
    }
    listed_ = addend_ == output_ ? indices_ : nullptr;
    context_.launch(sort_.function, sort_.shape, sort_parameters_, sort_.name);
    context_.launch(chosen.function, shape, sum_parameters_, chosen.name);
  }

 private:
  Launchable sum(const char* entry, std::int64_t slice_columns) {
    return {context_.kernel(variant_.image, entry),
            entry,
            {.grid_x = block_count(rows_, variant_.tiling.rows),
             .grid_y = checked_grid_y(columns_, slice_columns, "the width of an embedding"),
             .block_x = kWarpLanes,
             .block_y = static_cast<unsigned>(variant_.tiling.rows)}};
  }

  CudaContext& context_;
  KernelVariant variant_;
  int rows_;
  int columns_;
  int count_;
  std::size_t workspace_bytes_;
  bool adds_;
  bool divides_ = false;
  Launchable sort_;
  Launchable vectors_;
  Launchable elements_;
  const void* gradient_ = nullptr;
  const void* indices_ = nullptr;
  const void* listed_ = nullptr;
  const void* addend_ = nullptr;
  void* output_ = nullptr;
  int* offsets_ = nullptr;
  int* positions_ = nullptr;
  void* sort_parameters_[5] = {&indices_, &offsets_, &positions_, &rows_, &count_};
  void* sum_parameters_[8] = {&gradient_, &listed_, &offsets_, &positions_, &addend_, &output_, &rows_, &columns_};
};

std::unique_ptr<Kernel> make_forward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  return std::make_unique<EmbeddingForward>(context, spec, variant);
}

std::unique_ptr<Kernel> make_backward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  return std::make_unique<EmbeddingBackward>(context, spec, variant);
}

// A block copies `rows` rows, `columns` words of each: vectors, or elements if a row is not a whole number of vectors.
constexpr KernelVariant forward(DType dtype, const char* elements) {
  return {.op = Op::embedding,
          .dtype = dtype,
          .tiling = {.rows = 8, .columns = 64, .threads = 256},
          .image = "embedding",
          .entry = "embedding_forward_vectors",
          .scalar_entry = elements,
          .make = make_forward};
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
          .make = make_backward};
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
