// The structure of a product's epilogue. A pattern is data, the expressions of its results; one matcher compares a
// fused body with it, in any order of the operands of sums and products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint::cuda {

// The only product of a body, of its inputs 0 and 1 as they are; nullopt if there is another contraction or none.
std::optional<NodeId> product_of(const Graph& body);

// A value of a pattern. A term that occurs twice stands for one value.
class Term {
 public:
  struct Definition;

  static Term product();
  // An input of the body beside those of the product.
  static Term input(const TensorType& type);
  static Term input(std::size_t index);
  static Term constant(double value);
  static Term any_constant();
  // Result number `result` of an op. Splits and concats are along columns. Types are compared if `type` is given, other
  // attributes never.
  static Term call(Op op, std::vector<Term> operands, const std::optional<TensorType>& type = {},
                   std::size_t result = 0);
  // As the last operand of a concat: parts of a split of the value, each in the place that it has there.
  static Term other_parts_of(const Term& whole);

  const Definition& operator*() const { return *definition_; }
  const Definition* get() const { return definition_.get(); }

 private:
  explicit Term(Definition definition);
  std::shared_ptr<const Definition> definition_;
};

Term operator*(const Term& a, const Term& b);
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);

// The results of a body. It may lack those that are optional, and has no others.
struct Pattern {
  std::vector<Term> results;
  std::vector<Term> optional_results = {};
};

// What terms stand for in a body. Result and operand numbers are those of the fused node.
class Match {
 public:
  std::size_t input(const Term& term) const;
  std::size_t result(const Term& term) const { return *find_result(term); }
  std::optional<std::size_t> find_result(const Term& term) const;
  double constant(const Term& term) const;
  const Node& node(const Term& term) const { return body_->producer_node(value(term)); }
  const TensorType& type(const Term& term) const { return body_->type(value(term)); }

 private:
  friend class Matcher;
  Value value(const Term& term) const { return values_.at(term.get()); }

  const Graph* body_ = nullptr;
  std::map<const Term::Definition*, Value> values_;
  std::map<const Term::Definition*, std::size_t> results_;
};

// The body must outlive the match.
std::optional<Match> match(const Graph& body, const Pattern& pattern);

// The product [m,k] x [k,n] of a fused body: two matrices of 16-bit elements, and their product in the same dtype.
struct MatrixProduct {
  DType dtype = DType::bf16;
  std::int64_t m = 0, n = 0, k = 0;

  static std::optional<MatrixProduct> of(const Graph& body);
  TensorType type(std::int64_t columns) const { return {dtype, {m, columns}}; }
};

}  // namespace ridgepoint::cuda
