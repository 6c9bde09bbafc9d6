// What the recognisers of products and their ends compare: the values of a fused body as text.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ridgepoint/graph.h"

namespace ridgepoint::cuda {

// Values of a body as expressions: "i2" is input 2, "0.5" a constant, "cast_fp32(i0)" a cast, "split1of2(x)" a result
// of a split, "mul(a,b)" any other op without its attributes. Operands of sums and products are in alphabetical order.
class BodyExpressions {
 public:
  explicit BodyExpressions(const Graph& body);
  const std::string& of(Value value) const { return of_.at(value); }
  // The number of the result with this expression.
  std::optional<std::size_t> result(const std::string& expression) const;

  static std::string constant(double value);
  static std::string sum(const Shape& shape, const std::string& a);

 private:
  std::string expression(const Node& node, std::size_t output) const;

  const Graph& body_;
  std::map<Value, std::string> of_;
};

// The expression of an op with two operands.
std::string call(std::string_view op, std::string a, std::string b);

// Whether the value is the body's input of this name.
bool is_input(const Graph& body, Value value, std::string_view name);

// The only product of a body, of its inputs 0 and 1 as they are; nullopt where there is another contraction or none.
std::optional<NodeId> product_of(const Graph& body);

}  // namespace ridgepoint::cuda
