#include "inspect/precision/types.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ir/scope.h"
#include "ops/float8_product.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint {
namespace {

// Casts and copies have no row.
bool has_row(const Node& node) {
  const bool computes = op_class(node.op) != OpClass::elementwise || traits(node.op).arithmetic != Arithmetic::none;
  return launches(node.op) && computes;
}

std::string operand_types(const Graph& graph, const Node& node) {
  if (traits(node.op).kernel_class == KernelClass::matmul && is_tf32(node)) return "tf32";
  if (const std::optional<Float8Operands> codes = float8_operands(node.attributes)) {
    const std::string left(name(codes->left));
    return codes->left == codes->right ? left : left + ", " + std::string(name(codes->right));
  }
  std::set<DType> found;
  for (const Value value : node.inputs) {
    const DType dtype = graph.type(value).dtype;
    if (is_floating(dtype) && graph.producer_node(value).op != Op::constant) found.insert(dtype);
  }
  std::string text;
  for (const DType dtype : found) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
  return text;
}

class TypeCounter {
 public:
  explicit TypeCounter(const Graph& graph) : graph_(graph) {}

  TypeTable run() {
    add_inputs(Role::parameter, "parameter");
    add_inputs(Role::data, "input");
    for (const NodeId id : graph_.order()) visit(graph_.node(id));
    for (const Output& output : graph_.outputs()) {
      if (output.role != OutputRole::gradient) continue;
      add({"gradient", with_layers_added_up(output.of), "", "", result_of(output.value)});
    }
    return std::move(table_);
  }

 private:
  std::string result_of(Value value) const { return std::string(name(graph_.type(value).dtype)); }

  void add_inputs(Role role, const char* part) {
    for (const NodeId id : graph_.inputs(role)) {
      const Node& node = graph_.node(id);
      add({part, with_layers_added_up(input_name(node)), "", "", result_of(node.outputs[0])});
    }
  }

  void visit(const Node& node) {
    if (node.op == Op::cast) {
      ++table_.casts;
      const Node& producer = graph_.producer_node(node.inputs[0]);
      const bool of_parameter = producer.op == Op::input && input_role(producer) == Role::parameter;
      if (of_parameter) ++table_.weight_casts;
    }
    if (!has_row(node)) return;
    add({std::string(name(node.phase)), with_layers_added_up(graph_.scope_name(node)), std::string(name(node.op)),
         operand_types(graph_, node), result_of(node.outputs[0])});
  }

  void add(TypeRow row) {
    const auto [found, is_new] =
        rows_.try_emplace(std::tuple(row.part, row.module, row.op, row.operands, row.result), table_.rows.size());
    if (is_new) table_.rows.push_back(std::move(row));
    ++table_.rows[found->second].nodes;
  }

  const Graph& graph_;
  TypeTable table_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t> rows_;
};

}  // namespace

TypeTable types_of(const Graph& graph) { return TypeCounter(graph).run(); }

}  // namespace ridgepoint
