#include "backends/cuda/products/epilogues/pattern.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/queries.h"

namespace ridgepoint::cuda {

struct Term::Definition {
  enum class Kind : std::uint8_t { product, input, constant, call, other_parts };
  Kind kind = Kind::product;
  std::optional<TensorType> type = {};
  std::optional<std::size_t> index = {};  // of an input
  std::optional<double> number = {};      // of a constant
  Op op = Op::input;
  std::vector<Term> operands = {};
  std::size_t result = 0;
};

using Kind = Term::Definition::Kind;

Term::Term(Definition definition) : definition_(std::make_shared<const Definition>(std::move(definition))) {}

Term Term::product() { return Term(Definition{.kind = Kind::product}); }
Term Term::input(const TensorType& type) { return Term(Definition{.kind = Kind::input, .type = type}); }
Term Term::input(std::size_t index) { return Term(Definition{.kind = Kind::input, .index = index}); }
Term Term::constant(double value) { return Term(Definition{.kind = Kind::constant, .number = value}); }
Term Term::any_constant() { return Term(Definition{.kind = Kind::constant}); }
Term Term::call(Op op, std::vector<Term> operands, const std::optional<TensorType>& type, std::size_t result) {
  return Term(
      Definition{.kind = Kind::call, .type = type, .op = op, .operands = std::move(operands), .result = result});
}
Term Term::other_parts_of(const Term& whole) {
  return Term(Definition{.kind = Kind::other_parts, .operands = {whole}});
}

Term operator*(const Term& a, const Term& b) { return Term::call(Op::mul, {a, b}); }
Term operator+(const Term& a, const Term& b) { return Term::call(Op::add, {a, b}); }
Term operator-(const Term& a, const Term& b) { return Term::call(Op::sub, {a, b}); }

std::optional<NodeId> product_of(const Graph& body) {
  std::optional<NodeId> product;
  for (const NodeId id : body.order()) {
    if (op_class(body.node(id).op) != OpClass::contraction) continue;
    if (product || body.node(id).op != Op::matmul) return std::nullopt;
    product = id;
  }
  if (!product) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node& operand = body.producer_node(body.node(*product).inputs[i]);
    if (operand.op != Op::input || input_name(operand) != std::to_string(i)) return std::nullopt;
  }
  return product;
}

std::optional<MatrixProduct> MatrixProduct::of(const Graph& body) {
  const std::optional<NodeId> product = product_of(body);
  if (!product) return std::nullopt;
  const Node& node = body.node(*product);
  const TensorType& a = body.type(node.inputs[0]);
  const TensorType& type = body.type(node.outputs[0]);
  if (!is_low(type.dtype) || a.dtype != type.dtype || body.type(node.inputs[1]).dtype != type.dtype)
    return std::nullopt;
  if (type.shape.rank() != 2 || a.shape.rank() != 2 || body.type(node.inputs[1]).shape.rank() != 2) return std::nullopt;
  return MatrixProduct{type.dtype, type.shape[0], type.shape[1], a.shape[1]};
}

// Values are bound as they are found, and given back where a later comparison fails.
class Matcher {
 public:
  Matcher(const Graph& body, NodeId product) : product_(body.node(product).outputs[0]) { found_.body_ = &body; }

  std::optional<Match> run(const Pattern& pattern) {
    return has_results(pattern, 0) ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  const Graph& body() const { return *found_.body_; }

  // Those from number `from` on, the optional ones last.
  bool has_results(const Pattern& pattern, std::size_t from) {
    const std::size_t required = pattern.results.size();
    if (from == required + pattern.optional_results.size()) return found_.results_.size() == body().outputs().size();
    const Term& term = from < required ? pattern.results[from] : pattern.optional_results[from - required];
    const Match before = found_;
    for (const Output& output : body().outputs()) {
      const std::size_t number = std::stoul(output.name);
      const auto is_taken = [&](const auto& result) { return result.second == number; };
      if (std::ranges::any_of(before.results_, is_taken)) continue;
      if (matches(term, output.value)) {
        found_.results_[term.get()] = number;
        if (has_results(pattern, from + 1)) return true;
      }
      found_ = before;
    }
    return from >= required && has_results(pattern, from + 1);
  }

  bool matches(const Term& term, Value value) {
    const auto bound = found_.values_.find(term.get());
    if (bound != found_.values_.end()) return is_same(bound->second, value);
    if ((*term).type && body().type(value) != *(*term).type) return false;
    const auto before = found_.values_;
    if (!has_form(*term, value)) {
      found_.values_ = before;
      return false;
    }
    found_.values_[term.get()] = value;
    return true;
  }

  bool has_form(const Term::Definition& term, Value value) {
    const Node& node = body().producer_node(value);
    switch (term.kind) {
      case Kind::product: return value == product_;
      case Kind::input: {
        if (node.op != Op::input) return false;
        const std::size_t index = std::stoul(input_name(node));
        return index >= 2 && (!term.index || index == *term.index);
      }
      case Kind::constant:
        return node.op == Op::constant && (!term.number || *term.number == node.attributes.get_or("value", 0.0));
      case Kind::call: return node.op == term.op && node.outputs[term.result] == value && has_operands(term, node);
      case Kind::other_parts: break;
    }
    return false;
  }

  bool has_operands(const Term::Definition& term, const Node& node) {
    if ((node.op == Op::split || node.op == Op::concat) && !is_along_columns(node)) return false;
    if (const Term::Definition& last = *term.operands.back(); last.kind == Kind::other_parts)
      return matches(term.operands[0], node.inputs[0]) && has_other_parts(node, found_.value(last.operands[0]));
    if (node.inputs.size() != term.operands.size()) return false;
    const auto before = found_.values_;
    if (std::ranges::equal(term.operands, node.inputs,
                           [&](const Term& of, Value operand) { return matches(of, operand); }))
      return true;
    found_.values_ = before;
    const bool commutes = term.op == Op::mul || term.op == Op::add;
    return commutes && matches(term.operands[0], node.inputs[1]) && matches(term.operands[1], node.inputs[0]);
  }

  static bool is_along_columns(const Node& node) {
    return normalise_axis(node.attributes.get<std::int64_t>("axis"), 2) == 1;
  }

  bool has_other_parts(const Node& concat, Value whole) const {
    for (std::size_t i = 1; i < concat.inputs.size(); ++i) {
      const Node& split = body().producer_node(concat.inputs[i]);
      const bool is_part = split.op == Op::split && split.inputs[0] == whole && is_along_columns(split) &&
                           split.outputs.size() == concat.inputs.size() && split.outputs[i] == concat.inputs[i];
      if (!is_part) return false;
    }
    return concat.inputs.size() > 1;
  }

  // Whether both are the same value, or results of equal computations.
  bool is_same(Value a, Value b) const {
    if (a == b) return true;
    const Node& one = body().producer_node(a);
    const Node& other = body().producer_node(b);
    if (one.op != other.op || one.op == Op::input || one.attributes != other.attributes) return false;
    const auto number = [](const Node& node, Value value) {
      return std::ranges::find(node.outputs, value) - node.outputs.begin();
    };
    return number(one, a) == number(other, b) &&
           std::ranges::equal(one.inputs, other.inputs, [&](Value x, Value y) { return is_same(x, y); });
  }

  Value product_;
  Match found_;
};

std::optional<Match> match(const Graph& body, const Pattern& pattern) {
  const std::optional<NodeId> product = product_of(body);
  return product ? Matcher(body, *product).run(pattern) : std::nullopt;
}

std::size_t Match::input(const Term& term) const { return std::stoul(input_name(node(term))); }

std::optional<std::size_t> Match::find_result(const Term& term) const {
  const auto found = results_.find(term.get());
  return found == results_.end() ? std::nullopt : std::optional(found->second);
}

double Match::constant(const Term& term) const { return node(term).attributes.get_or("value", 0.0); }

}  // namespace ridgepoint::cuda
