// embedding (rows of a table by index) and its gradient (rows summed by index), and packed weights. An index outside
// the table throws Error at launch, before anything is read or written out of bounds.
#include <algorithm>
#include <optional>
#include <vector>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "ir/packed_weight.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::reference {
namespace {

std::int64_t checked_row(double index, std::int64_t rows) {
  if (!(index >= 0.0 && index < static_cast<double>(rows))) {
    throw Error("index " + std::to_string(static_cast<std::int64_t>(index)) + " is outside a table of " +
                std::to_string(rows) + " rows; check the tokens that were written");
  }
  return static_cast<std::int64_t>(index);
}

// A loop over the indices [...]: operand 0 is the index, operand 1 the row [...,D] that belongs to it.
LoopNest index_loops(const TensorLayout& indices, const TensorLayout& rows) {
  Strides row_strides{};
  if (!rows.immediate)
    std::copy_n(rows.strides.begin(), static_cast<std::size_t>(indices.shape.rank()), row_strides.begin());
  return LoopNest(indices.shape, std::array{broadcast_strides(indices, indices.shape), row_strides});
}

class EmbeddingKernel : public ReferenceKernel {
 public:
  explicit EmbeddingKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        table_(spec.inputs[0]),
        indices_(spec.inputs[1]),
        output_(spec.outputs[0]),
        width_(table_.shape[1]),
        loops_(index_loops(indices_, output_)) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(width_) * sizeof(double); }

  void launch(const LaunchArguments& arguments) override {
    auto* row = static_cast<double*>(arguments.workspace);
    loops_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      load_run(indices_, arguments.inputs[1], offsets[0], loops_.run_stride(0), count, run_.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t index = checked_row(run_[static_cast<std::size_t>(i)], table_.shape[0]);
        load_run(table_, arguments.inputs[0], index * stride_of(table_, 0), stride_of(table_, 1), width_, row);
        store_run(output_.dtype, arguments.outputs[0], offsets[1] + i * loops_.run_stride(1), stride_of(output_, -1),
                  width_, row);
      }
    });
  }

 private:
  TensorLayout table_;
  TensorLayout indices_;
  TensorLayout output_;
  std::int64_t width_;
  LoopNest loops_;
  std::array<double, kRunElements> run_{};
};

class EmbeddingBackwardKernel : public ReferenceKernel {
 public:
  explicit EmbeddingBackwardKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        gradient_(spec.inputs[0]),
        indices_(spec.inputs[1]),
        addend_(spec.inputs.size() > 2 ? std::optional(spec.inputs[2]) : std::nullopt),
        output_(spec.outputs[0]),
        rows_(output_.shape[0]),
        width_(output_.shape[1]),
        loops_(index_loops(indices_, gradient_)) {}

  // The workspace holds the sums in double and one row of the gradient.
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((rows_ + 1) * width_) * sizeof(double);
  }

  void launch(const LaunchArguments& arguments) override {
    auto* sums = static_cast<double*>(arguments.workspace);
    double* row = sums + rows_ * width_;
    std::fill_n(sums, rows_ * width_, 0.0);
    for (std::int64_t r = 0; addend_ && r < rows_; ++r)
      load_run(*addend_, arguments.inputs[2], r * stride_of(*addend_, 0), stride_of(*addend_, 1), width_,
               sums + r * width_);
    loops_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      load_run(indices_, arguments.inputs[1], offsets[0], loops_.run_stride(0), count, run_.data());
      for (std::int64_t i = 0; i < count; ++i) {
        load_run(gradient_, arguments.inputs[0], offsets[1] + i * loops_.run_stride(1), stride_of(gradient_, -1),
                 width_, row);
        double* sum = sums + checked_row(run_[static_cast<std::size_t>(i)], rows_) * width_;
        for (std::int64_t d = 0; d < width_; ++d) sum[d] += row[d];
      }
    });
    store_run(output_.dtype, arguments.outputs[0], 0, 1, rows_ * width_, sums);
  }

 private:
  TensorLayout gradient_;
  TensorLayout indices_;
  std::optional<TensorLayout> addend_;
  TensorLayout output_;
  std::int64_t rows_;
  std::int64_t width_;
  LoopNest loops_;
  std::array<double, kRunElements> run_{};
};

class DequantiseKernel : public ReferenceKernel {
 public:
  explicit DequantiseKernel(const KernelSpec& spec)
      : ReferenceKernel(spec), parts_(packed_parts(spec.node.attributes)), dtype_(spec.outputs[0].dtype) {}

  void launch(const LaunchArguments& arguments) override {
    for (const PackedPart& part : parts_) {
      const auto* packed = static_cast<const std::byte*>(arguments.inputs[0]) + part.first_byte;
      const std::int64_t columns = part.matrix.columns;
      std::vector<float> row(static_cast<std::size_t>(columns));
      for (std::int64_t i = 0; i < part.matrix.rows; ++i) {
        unpack(part.matrix, packed, i * columns, columns, row.data());
        const std::vector<double> values(row.begin(), row.end());
        store_run(dtype_, arguments.outputs[0], (part.first_row + i) * columns, 1, columns, values.data());
      }
    }
  }

 private:
  std::vector<PackedPart> parts_;
  DType dtype_;
};

}  // namespace

std::unique_ptr<Kernel> make_dequantise(const KernelSpec& spec) { return std::make_unique<DequantiseKernel>(spec); }
std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec) { return std::make_unique<EmbeddingKernel>(spec); }
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec& spec) {
  return std::make_unique<EmbeddingBackwardKernel>(spec);
}

}  // namespace ridgepoint::reference
