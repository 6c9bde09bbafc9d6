// Products of the rows of each expert with its matrix. The work is divided by expert and by tiles of the result's
// columns, which are known before the rows of each expert are.
#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/experts/experts.h"
#include "backends/cpu/matmul/onednn.h"
#include "backends/cpu/tile/functions/functions.h"
#include "core/threads/parallel.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::int64_t kTileColumns = 192;
constexpr std::int64_t kGrainElements = 1 << 14;

// Where the rows of an expert begin and end.
struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

class GroupedMatmul : public Kernel {
 public:
  explicit GroupedMatmul(const KernelSpec& spec)
      : sums_rows_(spec.node.op == Op::grouped_matmul_weights),
        transposed_(spec.node.attributes.get_or<bool>("transposed", false)),
        dtype_(spec.inputs[0].dtype),
        experts_(spec.inputs[2].shape[0] - 1),
        rows_(spec.inputs[0].shape[0]),
        inner_(spec.inputs[0].shape[1]),
        columns_(spec.outputs[0].shape[-1]) {
    const TensorLayout* operands[] = {&spec.inputs[0], &spec.inputs[1], &spec.outputs[0]};
    for (std::size_t i = 0; i < 3; ++i) elements_[i] = operands[i]->shape.elements();
  }

  std::string_view name() const override {
    return sums_rows_ ? "grouped_matmul_weights_sgemm" : "grouped_matmul_sgemm";
  }
  std::size_t workspace_bytes() const override {
    return is_low(dtype_) ? static_cast<std::size_t>(elements_[0] + elements_[1] + elements_[2]) * sizeof(float) : 0;
  }

  void launch(const LaunchArguments& arguments) override {
    offsets_ = static_cast<const std::int64_t*>(arguments.inputs[2]);
    check_offsets();
    if (dtype_ == DType::fp64) {
      return multiply<double>(static_cast<const double*>(arguments.inputs[0]),
                              static_cast<const double*>(arguments.inputs[1]),
                              static_cast<double*>(arguments.outputs[0]));
    }
    if (dtype_ == DType::fp32) {
      return multiply<float>(static_cast<const float*>(arguments.inputs[0]),
                             static_cast<const float*>(arguments.inputs[1]), static_cast<float*>(arguments.outputs[0]));
    }
    auto* wide = static_cast<float*>(arguments.workspace);
    float* result = wide + elements_[0] + elements_[1];
    convert(tile::load_function(dtype_, 1), wide, sizeof(float), arguments.inputs[0], 2, elements_[0]);
    convert(tile::load_function(dtype_, 1), wide + elements_[0], sizeof(float), arguments.inputs[1], 2, elements_[1]);
    multiply<float>(wide, wide + elements_[0], result);
    convert(tile::store_function(dtype_, 1), arguments.outputs[0], 2, result, sizeof(float), elements_[2]);
  }

 private:
  void check_offsets() const {
    if (offsets_[0] >= 0 && offsets_[experts_] <= rows_ && std::is_sorted(offsets_, offsets_ + experts_ + 1)) return;
    throw Error(fmt::format("the offsets of {} experts do not rise from 0 to at most {}", experts_, rows_));
  }

  static void convert(tile::Function function, void* to, std::size_t to_bytes, const void* from, std::size_t from_bytes,
                      std::int64_t count) {
    parallel_for(count, kGrainElements, [&](std::int64_t begin, std::int64_t end) {
      function(static_cast<std::byte*>(to) + static_cast<std::size_t>(begin) * to_bytes,
               static_cast<const std::byte*>(from) + static_cast<std::size_t>(begin) * from_bytes, nullptr, nullptr,
               end - begin, 1);
    });
  }

  template <typename T>
  void multiply(const T* a, const T* b, T* c) const {
    const std::int64_t tiles = (columns_ + kTileColumns - 1) / kTileColumns;
    parallel_for(experts_ * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t expert = i / tiles;
        const std::int64_t column = i % tiles * kTileColumns;
        multiply_tile(a, b, c, expert, column, std::min(kTileColumns, columns_ - column));
      }
    });
    if (sums_rows_) return;
    clear(c, 0, offsets_[0]);
    clear(c, offsets_[experts_], rows_);
  }

  template <typename T>
  void clear(T* c, std::int64_t begin, std::int64_t end) const {
    std::fill_n(c + begin * columns_, (end - begin) * columns_, T{0});
  }

  // Columns [column, column + width) of an expert's rows or, where rows are summed, of its matrix.
  template <typename T>
  void multiply_tile(const T* a, const T* b, T* c, std::int64_t expert, std::int64_t column, std::int64_t width) const {
    const Rows rows{offsets_[expert], offsets_[expert + 1]};
    if (sums_rows_) {
      T* matrix = c + expert * inner_ * columns_ + column;
      if (rows.count() == 0) {
        for (std::int64_t i = 0; i < inner_; ++i) std::fill_n(matrix + i * columns_, width, T{0});
        return;
      }
      return product({true, false}, {inner_, width, rows.count()}, {a + rows.begin * inner_, inner_},
                     {b + rows.begin * columns_ + column, columns_}, matrix, columns_);
    }
    if (rows.count() == 0) return;
    const T* weights = b + expert * inner_ * columns_;
    product({false, transposed_}, {rows.count(), width, inner_}, {a + rows.begin * inner_, inner_},
            transposed_ ? Matrix<T>{weights + column * inner_, inner_} : Matrix<T>{weights + column, columns_},
            c + rows.begin * columns_ + column, columns_);
  }

  template <typename T>
  struct Matrix {
    const T* first;
    std::int64_t leading;
  };
  struct Transposed {
    bool a, b;
  };
  struct Sizes {
    std::int64_t m, n, k;
  };

  static void product(Transposed transposed, Sizes size, Matrix<float> a, Matrix<float> b, float* c,
                      std::int64_t leading) {
    if (size.k == 0) {
      for (std::int64_t i = 0; i < size.m; ++i) std::fill_n(c + i * leading, size.n, 0.0F);
      return;
    }
    const OneThread one_thread;
    const dnnl_status_t status = dnnl_sgemm(transposed.a ? 'T' : 'N', transposed.b ? 'T' : 'N', size.m, size.n, size.k,
                                            1.0F, a.first, a.leading, b.first, b.leading, 0.0F, c, leading);
    if (status == dnnl_success) return;
    throw Error(fmt::format("oneDNN failed at a {} x {} x {} matrix product (status {})", size.m, size.n, size.k,
                            static_cast<int>(status)));
  }

  static void product(Transposed transposed, Sizes size, Matrix<double> a, Matrix<double> b, double* c,
                      std::int64_t leading) {
    for (std::int64_t i = 0; i < size.m; ++i) {
      for (std::int64_t j = 0; j < size.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < size.k; ++k)
          sum += a.first[transposed.a ? k * a.leading + i : i * a.leading + k] *
                 b.first[transposed.b ? j * b.leading + k : k * b.leading + j];
        c[i * leading + j] = sum;
      }
    }
  }

  bool sums_rows_;
  bool transposed_;
  DType dtype_;
  std::int64_t experts_;
  std::int64_t rows_;
  std::int64_t inner_;  // the columns of the first operand
  std::int64_t columns_;
  std::int64_t elements_[3] = {};
  const std::int64_t* offsets_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_grouped_matmul_kernel(const KernelSpec& spec) {
  return std::make_unique<GroupedMatmul>(spec);
}

}  // namespace ridgepoint::cpu
