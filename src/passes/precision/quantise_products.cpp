// Carries out products in 8 bits (a matmul with `compute` = fp8): each operand becomes codes and a scale, and the
// product a scaled_matmul of them. A matrix is quantised once for all products that read it, in the order of rows, of
// columns or both, because a product reads the inner dimension of both operands last. Where backward reads an
// activation only in a product, its codes are saved instead of it.
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "ir/permutation.h"
#include "ir/rewriter.h"
#include "ops/float8_product.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// A matrix as it is stored, and whether an operand is its transpose.
struct StoredMatrix {
  Value value;
  bool is_transposed = false;
};

class ProductQuantiser {
 public:
  ProductQuantiser(Graph& graph, const PassTarget& target) : graph_(graph), rewriter_(graph), target_(target) {}

  bool run() {
    const std::vector<NodeId> nodes = nodes_of(graph_);
    for (const NodeId id : nodes) {
      const Node& node = graph_.node(id);
      if (const auto codes = codes_of(node)) {
        layout_of(node.inputs[0], codes->left, false);
        layout_of(node.inputs[1], codes->right, true);
      }
    }
    for (const NodeId id : nodes) {
      if (const auto codes = codes_of(graph_.node(id))) replace(id, *codes);
    }
    return rewriter_.finish();
  }

 private:
  using Key = std::pair<Value, DType>;  // a stored matrix and the dtype of its codes

  static std::optional<Float8Operands> codes_of(const Node& node) {
    return node.op == Op::matmul ? float8_operands(node.attributes) : std::nullopt;
  }

  StoredMatrix stored(Value operand) const {
    StoredMatrix matrix{operand};
    while (graph_.producer_node(matrix.value).op == Op::transpose) {
      const Node& view = graph_.producer_node(matrix.value);
      if (!is_identity(permutation_of(view))) matrix.is_transposed = !matrix.is_transposed;
      matrix.value = view.inputs[0];
    }
    return matrix;
  }

  // Notes the order of codes in which an operand is needed: the left one [M,K], the right one as [N,K].
  void layout_of(Value operand, DType codes, bool is_right) {
    const StoredMatrix matrix = stored(operand);
    QuantiseLayout& layout = layouts_.try_emplace({matrix.value, codes}, QuantiseLayout{false, false}).first->second;
    (matrix.is_transposed == is_right ? layout.rows : layout.columns) = true;
  }

  // The codes of an operand and their scale.
  std::array<Value, 2> quantised(NodeId product, Value operand, DType codes, bool is_right) {
    const StoredMatrix matrix = stored(operand);
    const Key key{matrix.value, codes};
    auto found = quantised_.find(key);
    if (found == quantised_.end()) found = quantised_.emplace(key, quantised_before(product, key)).first;
    const Quantised& made = found->second;
    return {matrix.is_transposed == is_right ? made.rows : made.columns, made.scale};
  }

  Quantised quantised_before(NodeId product, const Key& key) {
    const auto& [matrix, codes] = key;
    const QuantiseLayout layout = layouts_.at(key);
    rewriter_.insert_before(product);
    Quantised made = quantise(graph_, matrix, codes, layout);
    if (!layout.columns || target_.has_kernel(graph_, graph_.producer_node(made.scale))) return made;
    // Its decomposition would transpose codes one by one; a product in bf16 reads a transposed matrix as it is.
    rewriter_.erase_inserted();
    rewriter_.insert_before(product);
    made = quantise(graph_, matrix, codes, {});
    made.columns = transpose(graph_, made.rows, {1, 0});
    return made;
  }

  void replace(NodeId id, const Float8Operands& codes) {
    const Node node = graph_.node(id);
    const auto [left, left_scale] = quantised(id, node.inputs[0], codes.left, false);
    const auto [right, right_scale] = quantised(id, node.inputs[1], codes.right, true);
    rewriter_.insert_before(id);
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    const Value product = scaled_matmul(graph_, left, left_scale, right, right_scale, dtype);
    rewriter_.replace_by_new(id, {&product, 1});
  }

  Graph& graph_;
  Rewriter rewriter_;
  const PassTarget& target_;
  std::map<Key, QuantiseLayout> layouts_;
  std::map<Key, Quantised> quantised_;
};

}  // namespace

bool quantise_products(Graph& graph, const PassOptions& options) {
  return ProductQuantiser(graph, options.target).run();
}

}  // namespace ridgepoint
