#include "backends/cuda/kernels/embedding/embedding.h"

#include <string>

#include "backends/cuda/driver/kernel_launch.h"

namespace ridgepoint::cuda {
namespace {

constexpr unsigned kWarpLanes = 32;

class EmbeddingForward : public Kernel {
 public:
  EmbeddingForward(CudaContext& context, const KernelSpec& spec)
      : context_(context),
        row_bytes_(spec.inputs[0].shape[1] * static_cast<std::int64_t>(size_bytes(spec.inputs[0].dtype))),
        table_rows_(spec.inputs[0].shape[0]),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")) {
    elements_ =
        variant(element_word(spec.inputs[0].dtype), static_cast<std::int64_t>(size_bytes(spec.inputs[0].dtype)));
    vectors_ = row_bytes_ % kVectorBytes == 0 ? variant("embedding_forward_vectors", kVectorBytes) : elements_;
  }

  std::string_view name() const override { return vectors_.launchable.name; }

  void launch(const LaunchArguments& arguments) override {
    table_ = arguments.inputs[0];
    indices_ = arguments.inputs[1];
    output_ = arguments.outputs[0];
    const Variant& chosen = are_vector_aligned({table_, output_}) ? vectors_ : elements_;
    if (chosen.launchable.is_empty()) return;
    words_ = chosen.words;
    context_.launch(chosen.launchable.function, chosen.launchable.shape, parameters_, chosen.launchable.name);
  }

 private:
  struct Variant {
    Launchable launchable;
    int words = 0;  // of a row
  };

  static const char* element_word(DType dtype) {
    switch (size_bytes(dtype)) {
      case 8:
        return "embedding_forward_doubles";
      case 4:
        return "embedding_forward_singles";
      default:
        return "embedding_forward_halves";
    }
  }

  // The constants are those of kernels/embedding.cu.
  Variant variant(const char* function, std::int64_t word_bytes) {
    constexpr unsigned kRowsPerBlock = 8;
    constexpr std::int64_t kWordsPerWarp = 64;
    Variant made;
    made.words = checked_int(row_bytes_ / word_bytes, "the width of an embedding");
    made.launchable = {context_.kernel("embedding/embedding", function),
                       function,
                       {.grid_x = block_count(count_, kRowsPerBlock),
                        .grid_y = checked_grid_y(made.words, kWordsPerWarp, "the width of an embedding"),
                        .block_x = kWarpLanes,
                        .block_y = kRowsPerBlock}};
    return made;
  }

  CudaContext& context_;
  std::int64_t row_bytes_;
  std::int64_t table_rows_;
  int count_;
  Variant vectors_;
  Variant elements_;
  const void* table_ = nullptr;
  const void* indices_ = nullptr;
  void* output_ = nullptr;
  int words_ = 0;
  void* parameters_[6] = {&table_, &indices_, &output_, &table_rows_, &count_, &words_};
};

// Sorts the positions by index, then sums and writes every row once.
class EmbeddingBackward : public Kernel {
 public:
  EmbeddingBackward(CudaContext& context, const KernelSpec& spec)
      : context_(context),
        rows_(checked_int(spec.outputs[0].shape[0], "the number of rows of an embedding")),
        columns_(checked_int(spec.outputs[0].shape[1], "the width of an embedding")),
        count_(checked_int(spec.inputs[1].shape.elements(), "the number of indices of an embedding")) {
    const DType dtype = spec.outputs[0].dtype;
    vectors_name_ = fmt::format("embedding_backward_vectors_{}", ridgepoint::name(dtype));
    elements_name_ = fmt::format("embedding_backward_elements_{}", ridgepoint::name(dtype));
    const std::int64_t width = kVectorBytes / static_cast<std::int64_t>(size_bytes(dtype));
    divides_ = columns_ % width == 0;
    constexpr unsigned kSortRows = 256;
    sort_ = {context.kernel(kImage, "embedding_backward_sort"),
             "embedding_backward_sort",
             {.grid_x = block_count(rows_, kSortRows), .block_x = 1024}};
    vectors_ = sum(vectors_name_, width > 4 ? kWarpLanes * width : 2 * kWarpLanes * width);
    elements_ = sum(elements_name_, 2 * kWarpLanes);
  }

  std::string_view name() const override { return divides_ ? vectors_name_ : elements_name_; }

  // Where each row's positions begin, and the positions.
  std::size_t workspace_bytes() const override {
    return (static_cast<std::size_t>(rows_) + 1 + static_cast<std::size_t>(count_)) * sizeof(int);
  }

  void launch(const LaunchArguments& arguments) override {
    if (rows_ == 0 || columns_ == 0) return;
    gradient_ = arguments.inputs[0];
    indices_ = arguments.inputs[1];
    output_ = arguments.outputs[0];
    offsets_ = static_cast<int*>(arguments.workspace);
    positions_ = offsets_ + rows_ + 1;
    const Launchable& chosen = divides_ && are_vector_aligned({gradient_, output_}) ? vectors_ : elements_;
    context_.launch(sort_.function, sort_.shape, sort_parameters_, sort_.name);
    context_.launch(chosen.function, chosen.shape, sum_parameters_, chosen.name);
  }

 private:
  static constexpr std::string_view kImage = "embedding/embedding_backward";

  // The constants are those of kernels/embedding_backward.cu.
  Launchable sum(const std::string& function, std::int64_t slice_columns) {
    constexpr unsigned kRowsPerBlock = 16;
    return {context_.kernel(kImage, function.c_str()),
            function.c_str(),
            {.grid_x = block_count(rows_, kRowsPerBlock),
             .grid_y = checked_grid_y(columns_, slice_columns, "the width of an embedding"),
             .block_x = kWarpLanes,
             .block_y = kRowsPerBlock}};
  }

  CudaContext& context_;
  int rows_;
  int columns_;
  int count_;
  bool divides_ = false;
  std::string vectors_name_;
  std::string elements_name_;
  Launchable sort_;
  Launchable vectors_;
  Launchable elements_;
  const void* gradient_ = nullptr;
  const void* indices_ = nullptr;
  void* output_ = nullptr;
  int* offsets_ = nullptr;
  int* positions_ = nullptr;
  void* sort_parameters_[5] = {&indices_, &offsets_, &positions_, &rows_, &count_};
  void* sum_parameters_[6] = {&gradient_, &offsets_, &positions_, &output_, &rows_, &columns_};
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<EmbeddingForward>(context, spec);
}

std::unique_ptr<Kernel> make_embedding_backward_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<EmbeddingBackward>(context, spec);
}

}  // namespace ridgepoint::cuda
