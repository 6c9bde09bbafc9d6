#include "models/experts.h"

#include <string>

#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

class ExpertBuilder {
 public:
  ExpertBuilder(Graph& graph, Value x, const ExpertSizes& sizes)
      : graph_(graph), x_(x), sizes_(sizes), tokens_(graph.type(x).shape.dim(0)), model_(graph.type(x).shape.dim(1)) {}

  Value build(std::vector<ExpertRouting>* routings) {
    route();
    if (routings != nullptr) routings->push_back({probabilities_, counts()});
    const Value routed = combine(compute(embedding(graph_, x_, order_.rows)));
    return sizes_.shared_d_ff == 0 ? routed : add(graph_, routed, shared());
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    const std::string full = graph_.scope().empty() ? name : graph_.scope() + "." + name;
    return input(graph_, full, {DType::fp32, std::move(shape)}, Role::parameter);
  }

  // x [T,in] times the transpose of the parameter `weight` [out,in] of a module.
  Value linear(Value x, std::int64_t out, const char* module) {
    const ScopeGuard scope(graph_, module);
    const Value weight = parameter("weight", {{out}, graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  void route() {
    const Value logits = linear(x_, sizes_.experts, "router");
    const ScopeGuard scope(graph_, "router");
    probabilities_ = softmax(graph_, logits);
    auto [weights, choices] = top_k(graph_, sizes_.softmax_first ? probabilities_ : logits, sizes_.chosen);
    if (!sizes_.softmax_first) {
      weights = softmax(graph_, weights);
    } else if (sizes_.normalise_weights) {
      weights = div(graph_, weights, reduce_sum(graph_, weights, {-1}, true));
    }
    weights_ = weights;
    order_ = expert_order(graph_, choices, sizes_.experts);
  }

  // The differences of the offsets.
  Value counts() {
    const ScopeGuard scope(graph_, "router");
    const Value begin = split(graph_, order_.offsets, 0, {sizes_.experts, 1})[0];
    const Value end = split(graph_, order_.offsets, 0, {1, sizes_.experts})[1];
    return sub(graph_, cast(graph_, end, DType::fp32), cast(graph_, begin, DType::fp32));
  }

  // The rows of the tokens in the order of their experts.
  Value compute(Value rows) {
    const ScopeGuard scope(graph_, "experts");
    const Dim experts(sizes_.experts), inner{sizes_.d_ff, 'F'};
    const auto product = [&](Value x, const char* name, Shape shape) {
      return grouped_matmul(graph_, x, parameter(name, std::move(shape)), order_.offsets, true);
    };
    const Value gate = silu(graph_, product(rows, "w1", {experts, inner, model_}));
    const Value gated = mul(graph_, gate, product(rows, "w3", {experts, inner, model_}));
    return product(gated, "w2", {experts, model_, inner});
  }

  // The weighted sums of the rows of each token.
  Value combine(Value rows) {
    const ScopeGuard scope(graph_, "experts");
    const Value column = reshape(graph_, weights_, {tokens_.size * sizes_.chosen, 1});
    const Value weights = embedding(graph_, column, order_.order);
    const Value weighted = mul(graph_, rows, cast_to(weights, graph_.type(rows).dtype));
    return embedding_backward(graph_, weighted, order_.rows, tokens_.size);
  }

  Value cast_to(Value value, DType dtype) {
    return graph_.type(value).dtype == dtype ? value : cast(graph_, value, dtype);
  }

  Value shared() {
    const Value factor = sigmoid(graph_, linear(x_, 1, "shared_expert_gate"));
    const ScopeGuard scope(graph_, "shared_expert");
    const Value gate = silu(graph_, linear(x_, sizes_.shared_d_ff, "w1"));
    const Value gated = mul(graph_, gate, linear(x_, sizes_.shared_d_ff, "w3"));
    return mul(graph_, factor, linear(gated, model_.size, "w2"));
  }

  Graph& graph_;
  Value x_;
  const ExpertSizes& sizes_;
  Dim tokens_, model_;
  Value probabilities_, weights_;
  ExpertOrder order_;
};

void validate(const ExpertSizes& sizes, const TensorType& x) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw Error(std::string("a mixture of experts ") + what, ErrorKind::usage);
  };
  require(x.shape.rank() == 2 && is_floating(x.dtype), "reads floating [T,D]");
  require(sizes.chosen >= 1 && sizes.chosen <= sizes.experts, "chooses 1 to all of its experts for a token");
  require(sizes.d_ff >= 1 && sizes.shared_d_ff >= 0, "needs experts of a positive width");
}

}  // namespace

Value build_experts(Graph& graph, Value x, const ExpertSizes& sizes, std::vector<ExpertRouting>* routings) {
  validate(sizes, graph.type(x));
  return ExpertBuilder(graph, x, sizes).build(routings);
}

Value load_balancing_loss(Graph& graph, std::span<const ExpertRouting> routings) {
  if (routings.empty()) throw Error("there are no routed tokens to balance", ErrorKind::usage);
  const Phase before = graph.phase();
  graph.set_phase(Phase::loss);
  const ScopeGuard scope(graph, "load_balancing");
  Value choices, probabilities;
  std::int64_t tokens = 0;
  for (const ExpertRouting& routing : routings) {
    const Value sum = reduce_sum(graph, routing.probabilities, {0});
    choices = choices.valid() ? add(graph, choices, routing.counts) : routing.counts;
    probabilities = probabilities.valid() ? add(graph, probabilities, sum) : sum;
    tokens += graph.type(routing.probabilities).shape[0];
  }
  const auto experts = static_cast<double>(graph.type(choices).shape[0]);
  const auto all = static_cast<double>(tokens);
  const Value loss = scale(graph, reduce_sum(graph, mul(graph, choices, probabilities), {0}), experts / (all * all));
  graph.set_phase(before);
  return loss;
}

}  // namespace ridgepoint
