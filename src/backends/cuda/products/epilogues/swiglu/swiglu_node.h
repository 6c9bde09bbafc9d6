// Recognises SwiGLU of a product, and its derivative, in the body of a fused node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ridgepoint/graph.h"

namespace ridgepoint::cuda {

// forward: z [T,2F] = x w, and hidden = silu(gate) up of the halves of z.
// backward: d [T,F] = x w is the gradient of hidden; the node reads gate and up and gives their gradients.
struct SwigluNode {
  bool is_backward = false;
  std::size_t gate = 0, up = 0;                    // inputs; backward
  std::optional<std::size_t> halves;               // the result that is z; forward, absent where nothing else reads it
  std::size_t hidden = 0;                          // the result; forward
  std::size_t gate_gradient = 0, up_gradient = 0;  // results; backward
  std::int64_t tokens = 0, features = 0, inner = 0;  // T, F and the length of the sums
};

// Operands 0 and 1 are x and w. Nullopt for any other body, and for tensors that are not matrices of one dtype.
std::optional<SwigluNode> swiglu_of(const FusedBody& body);

}  // namespace ridgepoint::cuda
