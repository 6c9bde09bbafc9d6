// Embedding and its gradient.

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::cpu {
namespace {

void check_index(std::int64_t index, std::int64_t rows, std::int64_t position) {
  if (index >= 0 && index < rows) return;
  throw_error("index {} at position {} is outside a table of {} rows; check the tokens that were written", index,
              position, rows);
}

class EmbeddingForward : public Kernel {
 public:
  explicit EmbeddingForward(const KernelSpec& spec)
      : rows_(spec.inputs[0].shape[0]),
        width_(spec.inputs[0].shape[1]),
        count_(spec.inputs[1].shape.elements()),
        row_bytes_(static_cast<std::size_t>(width_) * size_bytes(spec.inputs[0].dtype)) {}

  std::string_view name() const override { return "embedding_forward_rows"; }

  void launch(const LaunchArguments& arguments) override {
    const auto* table = static_cast<const std::byte*>(arguments.inputs[0]);
    const auto* indices = static_cast<const std::int64_t*>(arguments.inputs[1]);
    auto* output = static_cast<std::byte*>(arguments.outputs[0]);
    parallel_for(count_, rows_per_range(width_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        check_index(indices[i], rows_, i);
        if (row_bytes_ == 0) continue;
        std::memcpy(output + static_cast<std::size_t>(i) * row_bytes_,
                    table + static_cast<std::size_t>(indices[i]) * row_bytes_, row_bytes_);
      }
    });
  }

 private:
  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t count_;
  std::size_t row_bytes_;
};

// embedding_backward and embedding_backward_add.
// A counting sort orders the positions by index and keeps their order within an index; then one thread sums each output
// row and writes it once, or leaves a row of the addend without an index as it is.
class EmbeddingBackward : public Kernel {
 public:
  explicit EmbeddingBackward(const KernelSpec& spec)
      : adds_(spec.node.op == Op::embedding_backward_add),
        dtype_(spec.outputs[0].dtype),
        rows_(spec.outputs[0].shape[0]),
        width_(spec.outputs[0].shape[1]),
        count_(spec.inputs[1].shape.elements()) {}

  std::string_view name() const override { return "embedding_backward_sorted"; }

  // The workspace holds the end of each row's positions (and one element for the sort), and the positions.
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(rows_ + 1 + count_) * sizeof(std::int64_t);
  }

  void launch(const LaunchArguments& arguments) override {
    auto* ends = static_cast<std::int64_t*>(arguments.workspace);
    std::int64_t* positions = ends + rows_ + 1;
    sort_positions(static_cast<const std::int64_t*>(arguments.inputs[1]), ends, positions);
    const Operands operands{arguments.inputs[0], adds_ ? arguments.inputs[2] : nullptr, arguments.outputs[0]};
    parallel_for(rows_, rows_per_range(width_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row == 0 ? 0 : ends[row - 1];
        if (first == ends[row] && operands.addend == operands.output) continue;
        sum_row_of_dtype(operands, row, {positions + first, static_cast<std::size_t>(ends[row] - first)});
      }
    });
  }

 private:
  using Positions = std::span<const std::int64_t>;
  struct Operands {
    const void* gradient;
    const void* addend;  // may be null, or the output
    void* output;
  };

  // After the prefix sum, ends[row] is where the row's positions begin; placing them moves it to their end.
  void sort_positions(const std::int64_t* indices, std::int64_t* ends, std::int64_t* positions) const {
    std::fill_n(ends, rows_ + 1, 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      check_index(indices[i], rows_, i);
      ++ends[indices[i] + 1];
    }
    for (std::int64_t row = 0; row < rows_; ++row) ends[row + 1] += ends[row];
    for (std::int64_t i = 0; i < count_; ++i) positions[ends[indices[i]]++] = i;
  }

  void sum_row_of_dtype(const Operands& operands, std::int64_t row, Positions positions) const {
    if (dtype_ == DType::fp32) return sum_row<float>(operands, row, positions);
    if (dtype_ == DType::fp64) return sum_row<double>(operands, row, positions);
    sum_narrow_row(operands, row, positions);
  }

  template <typename T>
  void sum_row(const Operands& operands, std::int64_t row, Positions positions) const {
    const T* gradient = static_cast<const T*>(operands.gradient);
    T* sum = static_cast<T*>(operands.output) + row * width_;
    if (operands.addend == nullptr) {
      std::fill_n(sum, width_, T{0});
    } else if (operands.addend != operands.output) {
      std::copy_n(static_cast<const T*>(operands.addend) + row * width_, width_, sum);
    }
    for (const std::int64_t position : positions) {
      const T* term = gradient + position * width_;
      for (std::int64_t i = 0; i < width_; ++i) sum[i] += term[i];
    }
  }

  void sum_narrow_row(const Operands& operands, std::int64_t row, Positions positions) const {
    const auto element = [&](const void* tensor, std::int64_t r, std::int64_t column) {
      return load_element(dtype_, static_cast<const std::byte*>(tensor) + (r * width_ + column) * kNarrowBytes);
    };
    std::byte* output = static_cast<std::byte*>(operands.output) + row * width_ * kNarrowBytes;
    for (std::int64_t i = 0; i < width_; ++i) {
      float sum = operands.addend == nullptr ? 0.0F : static_cast<float>(element(operands.addend, row, i));
      for (const std::int64_t position : positions) sum += static_cast<float>(element(operands.gradient, position, i));
      store_element(dtype_, output + i * kNarrowBytes, sum);
    }
  }

  static constexpr std::int64_t kNarrowBytes = 2;

  bool adds_;
  DType dtype_;
  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(const KernelSpec& spec) {
  return std::make_unique<EmbeddingForward>(spec);
}

std::unique_ptr<Kernel> make_embedding_backward_kernel(const KernelSpec& spec) {
  return std::make_unique<EmbeddingBackward>(spec);
}

}  // namespace ridgepoint::cpu
