// Quantises the operands of products in 8 bits (a matmul or matmul_add with `compute` = fp8): each operand becomes
// codes and a scale, and the product becomes a scaled_matmul. A matrix is quantised once for all products that read it.
// Its codes are stored in the order of rows, of columns or both, because a product needs the inner dimension of both
// operands last in memory. If backward reads an activation only in products, the codes are saved instead of the
// activation.
// A wide left operand that an elementwise kernel makes gets one scale for each row, and the kernel then makes the codes
//(fuse_row_codes). Wide means: it has far more elements than the results of the products that read its rows. Products
// over its rows use these codes and scales. The product over its columns sums over rows, so it needs codes with one
// scale, which transpose_codes makes.
// A weight that is stored as codes (pack_weights) is read directly, and transposed before a product that needs the
// other order.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/float8_product.h"
#include "ops/shape_rules.h"
#include "passes/fusion/fused_body.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// The least ratio of a left operand's width to the result's width at which the operand gets a scale for each row.
// cuBLASLt multiplies such codes 0 to 10 % slower.
constexpr std::int64_t kLeastWidening = 2;

// How products read a matrix: the orders of codes, and whether products over its rows may have a scale for each row.
struct Read {
  QuantiseLayout layout{false, false};
  bool scales_rows = true;
};

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
        layout_of(node, 0, codes->left);
        layout_of(node, 1, codes->right);
      }
    }
    for (const NodeId id : nodes) {
      if (const auto codes = codes_of(graph_.node(id))) replace(id, *codes);
    }
    if (!rewriter_.finish()) return false;
    // fuse_row_codes and fuse_magnitudes count the readers of a matrix.
    erase_unused(graph_, [](const Node& node) { return node.op == Op::transpose || node.op == Op::widen_codes; });
    return true;
  }

 private:
  using Key = std::pair<Value, DType>;  // a stored matrix and the dtype of its codes

  static std::optional<Float8Operands> codes_of(const Node& node) {
    return op_class(node.op) == OpClass::contraction ? float8_operands(node.attributes) : std::nullopt;
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

  // Notes the order in which a product needs the codes of an operand: the left one as [M,K], the right one as [N,K].
  void layout_of(const Node& product, std::size_t operand, DType codes) {
    const StoredMatrix matrix = stored(product.inputs[operand]);
    Read& read = reads_[{matrix.value, codes}];
    const bool is_right = operand == 1;
    const bool reads_rows = matrix.is_transposed == is_right;
    (reads_rows ? read.layout.rows : read.layout.columns) = true;
    if (reads_rows && (is_right || !is_wide(product) || addend_operand(product))) read.scales_rows = false;
  }

  bool is_wide(const Node& product) const {
    const Shape& left = graph_.type(product.inputs[0]).shape;
    return left[-1] >= kLeastWidening * graph_.type(product.outputs[0]).shape[-1];
  }

  // Whether one kernel could make the codes of the matrix: the kernel that makes the matrix, or the matrices side by
  // side in it.
  bool is_elementwise_result(Value matrix) const {
    const Node& node = graph_.producer_node(matrix);
    if (node.op == Op::reshape || node.op == Op::concat)
      return std::ranges::all_of(node.inputs, [&](Value operand) { return is_elementwise_result(operand); });
    if (node.op != Op::fused) return is_elementwise(node);
    return !has_op_of(node.body->graph, OpClass::contraction) && !has_op_of(node.body->graph, OpClass::reduction);
  }

  // The codes of an operand and their scale.
  std::array<Value, 2> quantised(NodeId product, Value operand, DType codes, bool is_right) {
    const StoredMatrix matrix = stored(operand);
    const Key key{matrix.value, codes};
    const bool reads_rows = matrix.is_transposed == is_right;
    if (const Node& maker = graph_.producer_node(matrix.value);
        maker.op == Op::widen_codes && graph_.type(maker.inputs[0]).dtype == codes)
      return stored_codes(product, key, reads_rows);
    const Read& read = reads_.at(key);
    if (read.layout.rows && read.scales_rows && is_elementwise_result(matrix.value))
      return reads_rows ? scaled_rows(product, key) : transposed_rows(product, key);
    auto found = quantised_.find(key);
    if (found == quantised_.end()) found = quantised_.emplace(key, quantised_before(product, key)).first;
    const Quantised& made = found->second;
    return {reads_rows ? made.rows : made.columns, made.scale};
  }

  std::array<Value, 2> stored_codes(NodeId product, const Key& key, bool reads_rows) {
    const std::vector<Value> stored = graph_.producer_node(key.first).inputs;
    const Value codes = stored[0], scale = stored[1];
    if (reads_rows) return {codes, scale};
    auto found = quantised_.find(key);
    if (found == quantised_.end()) {
      rewriter_.insert_before(product);
      Quantised made = transpose_codes(graph_, codes, scale);
      if (!target_.has_kernel(graph_, graph_.producer_node(made.columns))) {
        rewriter_.erase_inserted();
        rewriter_.insert_before(product);
        made.columns = transpose(graph_, codes, {1, 0});
      }
      found = quantised_.emplace(key, made).first;
    }
    return {found->second.columns, scale};
  }

  std::array<Value, 2> scaled_rows(NodeId product, const Key& key) {
    auto found = rows_.find(key);
    if (found == rows_.end()) {
      rewriter_.insert_before(product);
      found = rows_.emplace(key, quantise_rows(graph_, key.first, key.second)).first;
    }
    return {found->second.codes, found->second.scales};
  }

  std::array<Value, 2> transposed_rows(NodeId product, const Key& key) {
    const auto [codes, scales] = scaled_rows(product, key);
    auto found = quantised_.find(key);
    if (found == quantised_.end()) {
      rewriter_.insert_before(product);
      found = quantised_.emplace(key, transpose_codes(graph_, codes, scales)).first;
    }
    return {found->second.columns, found->second.scale};
  }

  Quantised quantised_before(NodeId product, const Key& key) {
    const auto& [matrix, codes] = key;
    const QuantiseLayout layout = reads_.at(key).layout;
    rewriter_.insert_before(product);
    Quantised made = quantise(graph_, matrix, codes, layout);
    if (!layout.columns || target_.has_kernel(graph_, graph_.producer_node(made.scale))) return made;
    // The decomposition would transpose codes one by one; a bf16 product reads a transposed matrix directly.
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
    const bool scales_rows = graph_.type(left_scale).shape.rank() > 0;
    const std::optional<std::size_t> addend = addend_operand(node);
    const Value added = addend ? node.inputs[*addend] : Value{};
    const Value product = scales_rows ? product_of_rows(id, left, left_scale, right, right_scale, dtype)
                                      : scaled_matmul(graph_, left, left_scale, right, right_scale, dtype, added);
    rewriter_.replace_by_new(id, {&product, 1});
  }

  // A kernel may take a scale for each row of both operands. If the device has no such kernel, the result is multiplied
  // by the scales of rows, which are powers of two.
  Value product_of_rows(NodeId id, Value left, Value scales, Value right, Value right_scale, DType dtype) {
    const Value right_scales = broadcast(graph_, right_scale, {graph_.type(right).shape[0], 1});
    const Value product = scaled_matmul(graph_, left, scales, right, right_scales, dtype);
    if (target_.has_kernel(graph_, graph_.producer_node(product))) return product;
    rewriter_.erase_inserted();
    rewriter_.insert_before(id);
    const DType wide = dtype == DType::fp16 ? DType::fp32 : dtype;  // which has the range of the unscaled result
    const Value one = constant(graph_, 1.0, DType::fp32);
    const Value unscaled = scaled_matmul(graph_, left, one, right, right_scale, wide);
    return cast_to(graph_, mul(graph_, cast_to(graph_, unscaled, DType::fp32), scales), dtype);
  }

  Graph& graph_;
  Rewriter rewriter_;
  const PassTarget& target_;
  std::map<Key, Read> reads_;
  std::map<Key, QuantisedRows> rows_;
  std::map<Key, Quantised> quantised_;
};

}  // namespace

bool quantise_products(Graph& graph, const PassOptions& options) {
  return ProductQuantiser(graph, options.target).run();
}

}  // namespace ridgepoint
