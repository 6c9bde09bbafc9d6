// Top-k and the order of tokens by expert.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/experts/experts.h"
#include "core/threads/parallel.h"
#include "ridgepoint/error.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::int64_t kGrainElements = 1 << 13;

std::int64_t rows_per_range(std::int64_t width) {
  return std::max<std::int64_t>(kGrainElements / std::max<std::int64_t>(width, 1), 1);
}

std::int64_t rows_of(const TensorLayout& layout) {
  return layout.shape.elements() / std::max<std::int64_t>(layout.shape[-1], 1);
}

void check_index(std::int64_t index, std::int64_t count) {
  if (index >= 0 && index < count) return;
  throw Error(fmt::format("index {} is not one of {}", index, count));
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

}  // namespace

std::unique_ptr<Kernel> make_routing_kernel(const KernelSpec& spec) {
  if (spec.node.op == Op::top_k) return std::make_unique<TopK>(spec);
  if (spec.node.op == Op::top_k_backward) return std::make_unique<TopKBackward>(spec);
  return std::make_unique<ExpertOrderKernel>(spec);
}

}  // namespace ridgepoint::cpu
