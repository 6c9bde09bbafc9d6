// Top-k and the order of tokens by expert.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul/one_thread.h"
#include "backends/cpu/tile/functions/functions.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::cpu {
namespace {

std::int64_t rows_of(const TensorLayout& layout) {
  return layout.shape.elements() / std::max<std::int64_t>(layout.shape[-1], 1);
}

void check_index(std::int64_t index, std::int64_t count) {
  if (index >= 0 && index < count) return;
  throw_error("index {} is not one of {}", index, count);
}

class TopK : public Kernel {
 public:
  explicit TopK(const KernelSpec& spec)
      : dtype_(spec.inputs[0].dtype),
        element_bytes_(size_bytes(dtype_)),
        rows_(rows_of(spec.inputs[0])),
        width_(spec.inputs[0].shape[-1]),
        k_(spec.outputs[0].shape[-1]) {}

  std::string_view name() const override { return "top_k_rows"; }

  void launch(const LaunchArguments& arguments) override {
    parallel_for(rows_, rows_per_range(width_ * k_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) select(arguments, row);
    });
  }

 private:
  // The next element is the largest of those that follow the last one in the order of the results.
  void select(const LaunchArguments& arguments, std::int64_t row) const {
    const auto* x = static_cast<const std::byte*>(arguments.inputs[0]) + bytes(row * width_);
    auto* values = static_cast<std::byte*>(arguments.outputs[0]) + bytes(row * k_);
    std::int64_t* indices = static_cast<std::int64_t*>(arguments.outputs[1]) + row * k_;
    const auto at = [&](std::int64_t i) { return load_element(dtype_, x + bytes(i)); };
    for (std::int64_t j = 0; j < k_; ++j) {
      std::int64_t best = -1;
      for (std::int64_t i = 0; i < width_; ++i) {
        if (j > 0 && !precedes(at(indices[j - 1]), indices[j - 1], at(i), i)) continue;
        if (best < 0 || precedes(at(i), i, at(best), best)) best = i;
      }
      indices[j] = best;
      std::memcpy(values + bytes(j), x + bytes(best), element_bytes_);
    }
  }

  static bool precedes(double x, std::int64_t i, double y, std::int64_t j) {
    if (std::isnan(x) != std::isnan(y)) return std::isnan(x);
    return x > y || (!(x < y) && i < j);
  }

  std::size_t bytes(std::int64_t elements) const { return static_cast<std::size_t>(elements) * element_bytes_; }

  DType dtype_;
  std::size_t element_bytes_;
  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t k_;
};

class TopKBackward : public Kernel {
 public:
  explicit TopKBackward(const KernelSpec& spec)
      : element_bytes_(size_bytes(spec.inputs[0].dtype)),
        rows_(rows_of(spec.outputs[0])),
        width_(spec.outputs[0].shape[-1]),
        k_(spec.inputs[0].shape[-1]) {}

  std::string_view name() const override { return "top_k_backward_rows"; }

  void launch(const LaunchArguments& arguments) override {
    const auto* gradient = static_cast<const std::byte*>(arguments.inputs[0]);
    const auto* indices = static_cast<const std::int64_t*>(arguments.inputs[1]);
    parallel_for(rows_, rows_per_range(width_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        auto* result =
            static_cast<std::byte*>(arguments.outputs[0]) + static_cast<std::size_t>(row * width_) * element_bytes_;
        std::memset(result, 0, static_cast<std::size_t>(width_) * element_bytes_);
        for (std::int64_t i = row * k_; i < (row + 1) * k_; ++i) {
          check_index(indices[i], width_);
          std::memcpy(result + static_cast<std::size_t>(indices[i]) * element_bytes_,
                      gradient + static_cast<std::size_t>(i) * element_bytes_, element_bytes_);
        }
      }
    });
  }

 private:
  std::size_t element_bytes_;
  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t k_;
};

// A counting sort by one thread: there are few choices beside the work of the products.
class ExpertOrderKernel : public Kernel {
 public:
  explicit ExpertOrderKernel(const KernelSpec& spec)
      : count_(spec.inputs[0].shape.elements()), k_(spec.inputs[0].shape[1]), experts_(spec.outputs[2].shape[0] - 1) {}

  std::string_view name() const override { return "expert_order_sorted"; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(experts_) * sizeof(std::int64_t); }

  void launch(const LaunchArguments& arguments) override {
    const auto* choices = static_cast<const std::int64_t*>(arguments.inputs[0]);
    auto* order = static_cast<std::int64_t*>(arguments.outputs[0]);
    auto* rows = static_cast<std::int64_t*>(arguments.outputs[1]);
    auto* offsets = static_cast<std::int64_t*>(arguments.outputs[2]);
    auto* next = static_cast<std::int64_t*>(arguments.workspace);
    std::fill_n(offsets, experts_ + 1, 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      check_index(choices[i], experts_);
      ++offsets[choices[i] + 1];
    }
    for (std::int64_t expert = 0; expert < experts_; ++expert) offsets[expert + 1] += offsets[expert];
    std::copy_n(offsets, experts_, next);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t place = next[choices[i]]++;
      order[place] = i;
      rows[place] = i / k_;
    }
  }

 private:
  std::int64_t count_;
  std::int64_t k_;
  std::int64_t experts_;
};

// Products of the rows of each expert with its matrix. The work is divided by expert and by tiles of the result's
// columns, which are known before the rows of each expert are.
constexpr std::int64_t kTileColumns = 192;
constexpr std::int64_t kWidenedGrain = 1 << 14;

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
      return multiply_groups(static_cast<const double*>(arguments.inputs[0]),
                             static_cast<const double*>(arguments.inputs[1]),
                             static_cast<double*>(arguments.outputs[0]));
    }
    if (dtype_ == DType::fp32) {
      return multiply_groups(static_cast<const float*>(arguments.inputs[0]),
                             static_cast<const float*>(arguments.inputs[1]), static_cast<float*>(arguments.outputs[0]));
    }
    auto* wide = static_cast<float*>(arguments.workspace);
    float* result = wide + elements_[0] + elements_[1];
    convert(tile::load_function(dtype_, 1), wide, sizeof(float), arguments.inputs[0], 2, elements_[0]);
    convert(tile::load_function(dtype_, 1), wide + elements_[0], sizeof(float), arguments.inputs[1], 2, elements_[1]);
    multiply_groups<float>(wide, wide + elements_[0], result);
    convert(tile::store_function(dtype_, 1), arguments.outputs[0], 2, result, sizeof(float), elements_[2]);
  }

 private:
  void check_offsets() const {
    if (offsets_[0] >= 0 && offsets_[experts_] <= rows_ && std::is_sorted(offsets_, offsets_ + experts_ + 1)) return;
    throw_error("the offsets of {} experts do not rise from 0 to at most {}", experts_, rows_);
  }

  static void convert(tile::Function function, void* to, std::size_t to_bytes, const void* from, std::size_t from_bytes,
                      std::int64_t count) {
    parallel_for(count, kWidenedGrain, [&](std::int64_t begin, std::int64_t end) {
      function(static_cast<std::byte*>(to) + static_cast<std::size_t>(begin) * to_bytes,
               static_cast<const std::byte*>(from) + static_cast<std::size_t>(begin) * from_bytes, nullptr, nullptr,
               end - begin, 1);
    });
  }

  template <typename T>
  void multiply_groups(const T* a, const T* b, T* c) const {
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
      return multiply<T>({inner_, width, rows.count()}, {a + rows.begin * inner_, inner_, true},
                         {b + rows.begin * columns_ + column, columns_}, matrix, columns_);
    }
    if (rows.count() == 0) return;
    const T* weights = b + expert * inner_ * columns_;
    multiply<T>(
        {rows.count(), width, inner_}, {a + rows.begin * inner_, inner_},
        transposed_ ? Factor<T>{weights + column * inner_, inner_, true} : Factor<T>{weights + column, columns_},
        c + rows.begin * columns_ + column, columns_);
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

std::unique_ptr<Kernel> make_routing_kernel(const KernelSpec& spec) {
  if (spec.node.op == Op::top_k) return std::make_unique<TopK>(spec);
  if (spec.node.op == Op::top_k_backward) return std::make_unique<TopKBackward>(spec);
  return std::make_unique<ExpertOrderKernel>(spec);
}

std::unique_ptr<Kernel> make_grouped_matmul_kernel(const KernelSpec& spec) {
  return std::make_unique<GroupedMatmul>(spec);
}

}  // namespace ridgepoint::cpu
