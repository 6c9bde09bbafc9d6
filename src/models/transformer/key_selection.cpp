#include "models/transformer/key_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/checked.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kLayerNormEpsilon = 1e-6;

class Indexer {
 public:
  Indexer(Graph& graph, const KeySelection& selection, const IndexerInputs& inputs)
      : graph_(graph), s_(selection), in_(inputs), x_(detach(graph, inputs.x)), low_(detach(graph, inputs.low)) {}

  Value build() {
    const Value q = transpose(graph_, rotated(by_head(projected(low_, s_.heads, "queries"), s_.heads)), {0, 2, 1, 3});
    const Value k = transpose(graph_, rotated(by_head(projected(x_, 1, "keys"), 1)), {0, 2, 3, 1});
    if (s_.block == 0) parameter("head_weights.weight", {Dim(s_.heads), model()});
    if (s_.keeps_all(in_.sequence.size)) return {};
    const Shape all{in_.batch, Dim(s_.heads), Dim(s_.head_size), in_.sequence};
    const Value products = matmul(graph_, q, broadcast(graph_, k, all));
    return s_.block == 0 ? best_keys(products) : best_blocks(products);
  }

 private:
  Dim model() const { return graph_.type(x_).shape.dim(-1); }

  Value parameter(const std::string& name, Shape shape) {
    const std::string full = graph_.scope() + "." + name;
    if (const std::optional<Value> known = graph_.find_input(full)) return *known;
    const Value made = input(graph_, full, {DType::fp32, std::move(shape)}, Role::parameter);
    graph_.node(graph_.producer(made)).attributes.set(kFrozen, true);
    return made;
  }

  Value linear(Value x, std::int64_t out, const std::string& name) {
    const Value weight = parameter(name + ".weight", {Dim(out), graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  // Heads [T heads,d] behind their norm.
  Value projected(Value x, std::int64_t heads, const std::string& name) {
    const Value made = linear(x, heads * s_.head_size, name);
    const Value rows = reshape(graph_, made, {Dim(graph_.type(x).shape[0] * heads), Dim(s_.head_size)});
    const Dim size(s_.head_size);
    if (s_.block > 0) {
      const Value weight = parameter(name + "_norm.weight", {size});
      return rms_norm(graph_, rows, in_.norm_adds_one ? shift(graph_, weight, 1) : weight, in_.norm_epsilon).first;
    }
    if (name == "queries") return rows;
    const Value weight = parameter(name + "_norm.weight", {size});
    return layer_norm(graph_, rows, weight, parameter(name + "_norm.bias", {size}), kLayerNormEpsilon)[0];
  }

  Value by_head(Value rows, std::int64_t heads) {
    return reshape(graph_, rows, {in_.batch, in_.sequence, Dim(heads), Dim(s_.head_size)});
  }

  Value rotated(Value x) {
    const auto turn = [&](Value v) { return rope(graph_, v, in_.cosines, in_.sines, 1); };
    if (s_.rotated == s_.head_size) return turn(x);
    const std::vector<Value> parts = split(graph_, x, -1, {s_.rotated, s_.head_size - s_.rotated});
    return concat(graph_, {turn(parts[0]), parts[1]}, -1);
  }

  // 1 at the `kept` largest of each row [...,N].
  Value largest(Value scores) {
    const std::int64_t all = graph_.type(scores).shape[-1];
    const Value choices = top_k(graph_, scores, std::min(s_.kept, all)).second;
    const Value ones = broadcast(graph_, constant(graph_, 1, DType::fp32), graph_.type(choices).shape);
    return detach(graph_, make_value(graph_, Op::top_k_backward, {ones, choices}, {{"size", all}}));
  }

  // Of products [B,H,S,K].
  Value best_keys(Value products) {
    const Value positive = relu(graph_, scale(graph_, products, 1 / std::sqrt(static_cast<double>(s_.head_size))));
    const Value weights =
        scale(graph_, linear(x_, s_.heads, "head_weights"), 1 / std::sqrt(static_cast<double>(s_.heads)));
    const Value by_token = reshape(graph_, weights, {in_.batch, in_.sequence, Dim(s_.heads), Dim(1)});
    const Value sum = reduce_sum(graph_, mul(graph_, positive, transpose(graph_, by_token, {0, 2, 1, 3})), {1}, true);
    return largest(causal_mask(graph_, sum, kHidden));
  }

  Value best_blocks(Value products) {
    const std::int64_t keys = in_.sequence.size;
    const std::int64_t blocks = (keys + s_.block - 1) / s_.block;
    const Dim heads(s_.heads);
    Value scores = causal_mask(graph_, products, kHidden);
    if (const std::int64_t missing = blocks * s_.block - keys; missing > 0) {
      const Value none = constant(graph_, kHidden, graph_.type(scores).dtype);
      const Shape rest{in_.batch, heads, in_.sequence, Dim(missing)};
      scores = concat(graph_, {scores, broadcast(graph_, none, rest)}, -1);
    }
    scores =
        reduce_max(graph_, reshape(graph_, scores, {in_.batch, heads, in_.sequence, Dim(blocks), Dim(s_.block)}), {-1});
    if (s_.local > 0) {
      const Value chosen = constant(graph_, -kHidden, graph_.type(scores).dtype);
      scores = where(graph_, is_local(blocks), chosen, scores);
    }
    const Value kept = reshape(graph_, largest(scores), {in_.batch, heads, in_.sequence, Dim(blocks), Dim(1)});
    const Value of_keys =
        reshape(graph_, broadcast(graph_, kept, {in_.batch, heads, in_.sequence, Dim(blocks), Dim(s_.block)}),
                {in_.batch, heads, in_.sequence, Dim(blocks * s_.block)});
    const std::int64_t missing = blocks * s_.block - keys;
    return missing == 0 ? of_keys : split(graph_, of_keys, -1, {keys, missing})[0];
  }

  // [S,blocks]: a block is one of the last `local` ones up to the query's own, if it begins at the query or before it,
  // and no more than local - 1 blocks lie between its end and the query.
  Value is_local(std::int64_t blocks) {
    const Value query = iota(graph_, {in_.sequence, Dim(1)}, 0, DType::fp32);
    const Value begin =
        scale(graph_, iota(graph_, {Dim(1), Dim(blocks)}, 1, DType::fp32), static_cast<double>(s_.block));
    const Value begins = cast(graph_, less_equal(graph_, begin, query), DType::fp32);
    const Value ends =
        cast(graph_, less(graph_, query, shift(graph_, begin, static_cast<double>(s_.block * s_.local))), DType::fp32);
    const Value both = mul(graph_, begins, ends);
    return less(graph_, constant(graph_, 0, DType::fp32), both);
  }

  Graph& graph_;
  const KeySelection& s_;
  const IndexerInputs& in_;
  Value x_, low_;
};

}  // namespace

std::int64_t indexer_parameters(const KeySelection& s, std::int64_t d_model, std::int64_t low_rank) {
  constexpr const char* kWhat = "the parameter count";
  return checked_sum(
      {checked_product({s.heads, s.head_size, low_rank}, kWhat), checked_product({s.head_size, d_model}, kWhat),
       checked_product({2, s.head_size}, kWhat), s.block > 0 ? 0 : checked_product({s.heads, d_model}, kWhat)},
      kWhat);
}

Value build_key_selection(Graph& graph, const KeySelection& selection, const IndexerInputs& inputs) {
  return Indexer(graph, selection, inputs).build();
}

}  // namespace ridgepoint
