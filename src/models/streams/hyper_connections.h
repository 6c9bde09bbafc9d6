// Manifold-constrained hyper-connections (DeepSeek-V4; Xie et al. 2026): a token has several streams. A part of a layer
// reads a weighted sum of them, its result is added to each with a weight, and the streams are mixed by a matrix whose
// rows and columns sum to 1.
#pragma once

#include <cstdint>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct HyperConnections {
  std::int64_t streams = 0;     // n; 0: a token has one, as usual
  std::int64_t iterations = 0;  // of the normalisation of rows and columns (Sinkhorn and Knopp)
  double epsilon = 1e-6;        // of that normalisation, and of the weights of the sum

  bool operator==(const HyperConnections&) const = default;
};

// Of one connection, and of the sum before the head.
std::int64_t connection_parameters(const HyperConnections& made_of, std::int64_t d_model);
std::int64_t last_connection_parameters(const HyperConnections& made_of, std::int64_t d_model);

// The weights of one connection for each token, from its streams [T,n,D]. Parameters under the current scope: weight
// [(2 + n) n,n D], bias [(2 + n) n] and scale [3].
struct Connection {
  Value read;     // [T,D], the weighted sum
  Value of_made;  // [T,n,1]
  Value mixing;   // [T,n,n], transposed: row k has the shares of stream k
};
Connection connect(Graph& graph, Value streams, const HyperConnections& made_of, double norm_epsilon);
// The streams after a part of a layer that has made [T,D].
Value with_made(Graph& graph, Value streams, const Connection& connection, Value made);
// The weighted sum [T,D] that the head reads. Parameters under the current scope: weight [n,n D], bias [n], scale [1].
Value last_sum(Graph& graph, Value streams, const HyperConnections& made_of, double norm_epsilon);

}  // namespace ridgepoint
