// What makes the cases of op_cases(): the files of this folder each add those of some ops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ridgepoint/ops/ops.h"
#include "support/graphs/op_cases.h"

namespace ridgepoint::testing {

using Values = std::vector<Value>;
using Apply = std::function<Values(Graph&, const Values&)>;

// What makes a graph of `apply`, with inputs of these shapes, then those of int64.
std::function<Graph(DType)> graph_of(std::vector<Shape> shapes, Apply apply, std::vector<Shape> index_shapes = {});

class OpCases {
 public:
  std::vector<OpCase> all;

  OpCase& add_case(Op op, const std::string& variant, std::function<Graph(DType)> build);
  void unary(Op op, double low, double high);
  void binary(Op op, double low, double high, bool differentiable = true);
  void reduction(Op op);

  static std::string shape_name(const Shape& shape);
};

void add_views(OpCases& cases);
void add_elementwise(OpCases& cases);
void add_contractions_and_gathers(OpCases& cases);
void add_experts(OpCases& cases);
void add_activations_and_masks(OpCases& cases);
void add_norms(OpCases& cases);
void add_rope(OpCases& cases);
void add_attention(OpCases& cases);
void add_linear_attention(OpCases& cases);
void add_cross_entropy(OpCases& cases);
void add_optimizers(OpCases& cases);
void add_float8(OpCases& cases);
void add_fused_nodes(OpCases& cases);

}  // namespace ridgepoint::testing
