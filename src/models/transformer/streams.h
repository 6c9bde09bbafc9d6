// Models whose tokens have several streams.
#pragma once

#include <cstdint>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Manifold-constrained hyper-connections (DeepSeek-V4; Xie et al. 2026): a part of a layer reads a weighted sum of the
// streams, its result is added to each with a weight, and the streams are mixed by a matrix whose rows and columns sum
// to 1.
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

// AltUp (Baykal et al. 2023, arXiv:2301.13310), as Gemma 3n has it: a layer transforms one of the streams. Before the
// layer each is predicted from all, and after it each is corrected by what the layer changed.
struct AlternatingUpdates {
  std::int64_t streams = 0;  // 0: a token has one, as usual
  std::int64_t active = 0;   // the one that layers transform
  bool has_scale = true;     // what a layer reads of the corrected streams is multiplied by a vector

  bool operator==(const AlternatingUpdates&) const = default;
};

// Streams are [T,n,D]. The parameters of a layer stand under the current scope: altup.router_norm.weight [D],
// altup.router.weight [n,D], altup.prediction.weight [n n,n], altup.correction.weight [n,n] and altup.output_scale [D].
class StreamUpdates {
 public:
  StreamUpdates(Graph& graph, const AlternatingUpdates& made_of, double norm_epsilon)
      : graph_(graph), made_of_(made_of), epsilon_(norm_epsilon) {}

  // x [T,D] and its projections at the root mean square of x. Parameters: altup.projections.I.weight [D,D].
  Value begin(Value x);
  // The mean [T,D] of the first stream and the projections of the others: altup.last_projections.I.weight [D,D].
  Value end(Value streams);

  Value predicted(Value streams);
  Value corrected(Value predicted, Value made);  // `made` [T,D] is the active stream after the layer
  Value active(Value streams);                   // [T,D]
  Value scaled_active(Value streams);            // times altup.output_scale
  Value with_term(Value streams, Value term);    // the term [T,D] added to all but the first

 private:
  Value parameter(const char* name, Shape shape);
  Value linear(Value x, std::int64_t out, const char* name);
  Value as_large(Value x, Value other);
  Value mean_square(Value x);
  Value modalities(Value x);
  Value stream(Value streams, std::int64_t index);

  Graph& graph_;
  const AlternatingUpdates& made_of_;
  double epsilon_;
};

}  // namespace ridgepoint
