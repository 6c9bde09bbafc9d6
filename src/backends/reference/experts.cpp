// Routing of tokens to experts, and products of the rows of each expert with its matrix. Operands are dense.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::reference {
namespace {

std::vector<std::int64_t> load_integers(const TensorLayout& layout, const void* base) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(layout.shape.elements()));
  load_run(layout, base, 0, 1, layout.shape.elements(), values.data());
  return values;
}

class ExpertsKernel : public ReferenceKernel {
 public:
  explicit ExpertsKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        op_(spec.node.op),
        transposed_(spec.node.attributes.get_or<bool>("transposed", false)),
        inputs_(spec.inputs.begin(), spec.inputs.end()),
        outputs_(spec.outputs.begin(), spec.outputs.end()) {}

  void launch(const LaunchArguments& arguments) override {
    switch (op_) {
      case Op::top_k: return top_k(arguments);
      case Op::top_k_backward: return top_k_backward(arguments);
      case Op::expert_order: return expert_order(arguments);
      case Op::grouped_matmul: return grouped_matmul(arguments);
      default: return grouped_matmul_weights(arguments);
    }
  }

 private:
  void top_k(const LaunchArguments& arguments) const {
    const std::vector<double> x = load_all(inputs_[0], arguments.inputs[0]);
    const std::int64_t width = inputs_[0].shape[-1];
    const std::int64_t k = outputs_[0].shape[-1];
    std::vector<double> values;
    std::vector<std::int64_t> indices;
    std::vector<std::int64_t> order(static_cast<std::size_t>(width));
    for (auto row = x.begin(); row != x.end(); row += width) {
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t j) {
        return std::isnan(row[j]) ? false : std::isnan(row[i]) || row[i] > row[j];
      });
      for (std::int64_t i = 0; i < k; ++i) {
        indices.push_back(order[static_cast<std::size_t>(i)]);
        values.push_back(row[indices.back()]);
      }
    }
    store_all(outputs_[0], arguments.outputs[0], values);
    store_all(outputs_[1], arguments.outputs[1], indices);
  }

  void top_k_backward(const LaunchArguments& arguments) const {
    const std::vector<double> gradient = load_all(inputs_[0], arguments.inputs[0]);
    const std::vector<std::int64_t> indices = load_integers(inputs_[1], arguments.inputs[1]);
    const auto k = static_cast<std::size_t>(inputs_[0].shape[-1]);
    const auto width = static_cast<std::size_t>(outputs_[0].shape[-1]);
    std::vector<double> result(static_cast<std::size_t>(outputs_[0].shape.elements()));
    for (std::size_t i = 0; i < gradient.size(); ++i)
      result[i / k * width + checked(indices[i], outputs_[0].shape[-1])] = gradient[i];
    store_all(outputs_[0], arguments.outputs[0], result);
  }

  void expert_order(const LaunchArguments& arguments) const {
    const std::vector<std::int64_t> choices = load_integers(inputs_[0], arguments.inputs[0]);
    const std::int64_t experts = outputs_[2].shape[0] - 1;
    std::vector<std::int64_t> order(choices.size()), rows(choices.size());
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(experts) + 1);
    for (const std::int64_t choice : choices) ++offsets[checked(choice, experts) + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return choices[static_cast<std::size_t>(i)]; });
    std::ranges::transform(order, rows.begin(), [&](std::int64_t i) { return i / inputs_[0].shape[1]; });
    store_all(outputs_[0], arguments.outputs[0], order);
    store_all(outputs_[1], arguments.outputs[1], rows);
    store_all(outputs_[2], arguments.outputs[2], offsets);
  }

  void grouped_matmul(const LaunchArguments& arguments) const {
    const std::vector<double> x = load_all(inputs_[0], arguments.inputs[0]);
    const std::vector<double> weights = load_all(inputs_[1], arguments.inputs[1]);
    const auto inner = static_cast<std::size_t>(inputs_[0].shape[1]);
    const auto width = static_cast<std::size_t>(outputs_[0].shape[1]);
    std::vector<double> result(static_cast<std::size_t>(outputs_[0].shape.elements()));
    for_each_row(arguments, [&](std::size_t expert, std::size_t row) {
      const double* matrix = weights.data() + expert * inner * width;
      for (std::size_t m = 0; m < width; ++m) {
        double sum = 0;
        for (std::size_t k = 0; k < inner; ++k)
          sum += x[row * inner + k] * (transposed_ ? matrix[m * inner + k] : matrix[k * width + m]);
        result[row * width + m] = sum;
      }
    });
    store_all(outputs_[0], arguments.outputs[0], result);
  }

  void grouped_matmul_weights(const LaunchArguments& arguments) const {
    const std::vector<double> a = load_all(inputs_[0], arguments.inputs[0]);
    const std::vector<double> b = load_all(inputs_[1], arguments.inputs[1]);
    const auto rows = static_cast<std::size_t>(inputs_[0].shape[1]);
    const auto columns = static_cast<std::size_t>(inputs_[1].shape[1]);
    std::vector<double> result(static_cast<std::size_t>(outputs_[0].shape.elements()));
    for_each_row(arguments, [&](std::size_t expert, std::size_t row) {
      double* matrix = result.data() + expert * rows * columns;
      for (std::size_t p = 0; p < rows; ++p) {
        for (std::size_t q = 0; q < columns; ++q) matrix[p * columns + q] += a[row * rows + p] * b[row * columns + q];
      }
    });
    store_all(outputs_[0], arguments.outputs[0], result);
  }

  // Calls visit(expert, row) for the rows of each expert. Throws Error for offsets that do not rise within the rows.
  template <typename Visit>
  void for_each_row(const LaunchArguments& arguments, Visit visit) const {
    const std::vector<std::int64_t> offsets = load_integers(inputs_[2], arguments.inputs[2]);
    const std::int64_t rows = inputs_[0].shape[0];
    if (!std::ranges::is_sorted(offsets) || offsets.front() < 0 || offsets.back() > rows)
      throw Error("the offsets of experts do not rise from 0 to at most " + std::to_string(rows));
    for (std::size_t expert = 0; expert + 1 < offsets.size(); ++expert) {
      for (std::int64_t row = offsets[expert]; row < offsets[expert + 1]; ++row)
        visit(expert, static_cast<std::size_t>(row));
    }
  }

  static std::size_t checked(std::int64_t expert, std::int64_t experts) {
    if (expert < 0 || expert >= experts)
      throw Error("expert " + std::to_string(expert) + " is not one of " + std::to_string(experts));
    return static_cast<std::size_t>(expert);
  }

  Op op_;
  bool transposed_;
  std::vector<TensorLayout> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Kernel> make_experts(const KernelSpec& spec) { return std::make_unique<ExpertsKernel>(spec); }

}  // namespace ridgepoint::reference
