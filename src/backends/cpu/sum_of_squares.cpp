// The sum of squares of several tensors: the tile interpreter sums each of them.
#include <algorithm>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/tile/interpreter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::cpu {
namespace {

// A graph with the sum of squares of one operand, and its node.
struct SumOfOne {
  explicit SumOfOne(const TensorType& type) {
    const Value x = input(graph, "x", type, Role::data);
    node = graph.producer(sum_of_squares(graph, {&x, 1}));
  }
  Graph graph;
  NodeId node;
};

class SumOfSquares : public Kernel {
 public:
  explicit SumOfSquares(const KernelSpec& spec) {
    for (const TensorLayout& layout : spec.inputs) {
      const SumOfOne one({layout.dtype, layout.shape});
      sums_.push_back(make_tile_kernel({one.graph, one.graph.node(one.node), {&layout, 1}, spec.outputs}));
    }
  }

  std::string_view name() const override { return "sum_of_squares_forward_tiles"; }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& sum : sums_) bytes = std::max(bytes, sum->workspace_bytes());
    return bytes;
  }

  void launch(const LaunchArguments& arguments) override {
    double total = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      float sum = 0;
      void* const output = &sum;
      sums_[i]->launch({arguments.inputs + i, &output, arguments.workspace});
      total += static_cast<double>(sum);
    }
    *static_cast<float*>(arguments.outputs[0]) = static_cast<float>(total);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> sums_;  // of each operand
};

}  // namespace

bool has_sum_of_squares(const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.inputs, [&](Value operand) {
    const SumOfOne one(graph.type(operand));
    return fits_tile(one.graph, one.graph.node(one.node));
  });
}

std::unique_ptr<Kernel> make_sum_of_squares_kernel(const KernelSpec& spec) {
  return std::make_unique<SumOfSquares>(spec);
}

}  // namespace ridgepoint::cpu
