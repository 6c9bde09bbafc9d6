// Recognises a residual sum and the norm of it, and the derivative of both, after a product in the body of a fused
// node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ridgepoint/graph.h"

namespace ridgepoint::cuda {

// Of rows of N columns; p [T,N] = a b is the product, in a type of 16 bits, and all others are fp32 unless said.
// forward:  sum = x + p, r [T,1] = rsqrt(mean of sum^2 + epsilon), normed = sum r g in the type of p.
// backward: p is the gradient of normed, and `residual` that of sum from elsewhere; t = p g,
//           gradient = residual + t r - sum r^3 mean(t sum), low_gradient = gradient in the type of p,
//           of_g [N] = the sum of p sum r over the rows.
struct ResidualNode {
  bool is_backward = false;
  std::int64_t tokens = 0, columns = 0, inner = 0;       // T, N and the length of the sums
  std::size_t g = 0;                                     // inputs
  std::size_t x = 0;                                     // forward
  std::size_t sum_input = 0, r_input = 0, residual = 0;  // backward
  // Results; those that may be absent are read by nobody.
  std::size_t sum = 0, normed = 0;
  std::optional<std::size_t> r;
  std::size_t of_g = 0, gradient = 0;
  std::optional<std::size_t> low_gradient;
  double epsilon = 0;
};

// Operands 0 and 1 are those of the product. Nullopt for any other body.
std::optional<ResidualNode> residual_of(const FusedBody& body);

}  // namespace ridgepoint::cuda
