// Mixed precision: chooses the ops that compute in bf16 or fp16 and those that stay in fp32, after torch.autocast, and
// the products that multiply 8-bit codes.
#pragma once

#include <vector>

#include "ridgepoint/core/precision.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct AutocastOptions {
  Precision precision = Precision::bf16;
  std::vector<Op> force_low = {};  // ops that compute in the low type despite their AutocastRule
  bool low_parameters = false;
};

// Inserts casts so that every node computes in the type that its op's AutocastRule gives. Without low_parameters,
// parameters and states stay fp32, and all readers of a parameter share one cast. With low_parameters, fp32 parameters
// become low, and so do values that follow their type, such as the rows of an embedding. Differentiation after this
// pass gives low gradients for low values and fp32 gradients for parameters. tf32 changes no type, and sets the
// attribute `compute` of products. fp8 casts as bf16 does, and sets `compute` of the products of linear layers (a
// matrix times a parameter, both wide enough), except the head. fp32 changes nothing. fp64 values are not cast. Returns
// whether anything changed.
bool autocast(Graph& graph, const AutocastOptions& options);

// Changes every fp32 value to fp64, inputs included, as a reference for tests of precision. Throws Error (usage) if the
// graph has bf16 or fp16 values, because their casts would still round.
void widen_to_fp64(Graph& graph);

}  // namespace ridgepoint
