#include "models/transformer/experts.h"

#include <cmath>
#include <string>
#include <utility>

#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class ExpertBuilder {
 public:
  ExpertBuilder(Graph& graph, Value x, Value routed_by, Value choices, const ExpertSizes& sizes)
      : graph_(graph),
        x_(x),
        routed_by_(routed_by.valid() ? routed_by : x),
        choices_(choices),
        sizes_(sizes),
        tokens_(graph.type(x).shape.dim(0)),
        model_(graph.type(x).shape.dim(1)),
        width_(model_) {}

  Value build(std::vector<ExpertRouting>* routings) {
    route();
    if (routings != nullptr) routings->push_back({probabilities_, counts()});
    const bool is_latent = rules().latent_width > 0;
    if (is_latent) width_ = Dim(rules().latent_width);
    const Value read = is_latent ? linear(x_, rules().latent_width, "latent_in") : x_;
    Value routed = combine(compute(embedding(graph_, read, order_.rows)));
    if (is_latent) routed = linear(routed, model_.size, "latent_out");
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

  const ExpertRules& rules() const { return sizes_.rules; }

  // What the router reads.
  Value router_input() {
    if (rules().router_epsilon == 0) return routed_by_;
    const ScopeGuard scope(graph_, "router");
    const Value factors = scale(graph_, parameter("scale", {model_}), 1 / std::sqrt(static_cast<double>(model_.size)));
    return rms_norm(graph_, routed_by_, factors, rules().router_epsilon).first;
  }

  void route() {
    Value logits = linear(router_input(), sizes_.experts, "router");
    const ScopeGuard scope(graph_, "router");
    if (rules().has_router_bias) logits = add(graph_, logits, cast_to(parameter("bias", {sizes_.experts}), logits));
    probabilities_ = softmax(graph_, logits);
    const auto [weights, choices] = choose(logits);
    weights_ = rules().scale == 1 ? weights : scale(graph_, weights, rules().scale);
    if (rules().has_expert_scales) {
      const Value column = reshape(graph_, parameter("expert_scale", {sizes_.experts}), {sizes_.experts, 1});
      const Value scales = embedding(graph_, column, reshape(graph_, choices, {tokens_.size * sizes_.chosen}));
      weights_ = mul(graph_, weights_, cast_to(reshape(graph_, scales, graph_.type(weights_).shape), weights_));
    }
    order_ = expert_order(graph_, choices, sizes_.experts);
  }

  std::pair<Value, Value> choose(Value logits) {
    if (rules().scores == RouterScores::softmax_of_chosen) {
      const auto [chosen, choices] = top_k(graph_, logits, sizes_.chosen);
      return {softmax(graph_, chosen), choices};
    }
    if (rules().scores == RouterScores::sparse_mixer) return mixed_sparsely(logits);
    const Value scores = scores_of(logits);
    if (choices_.valid()) return divided(top_k(graph_, of_choices(scores, choices_), sizes_.chosen));
    if (rules().has_correction || rules().groups != rules().groups_per_token) {
      const Value choices = top_k(graph_, of_best_groups(scores), sizes_.chosen).second;
      return divided(top_k(graph_, of_choices(scores, choices), sizes_.chosen));
    }
    return divided(top_k(graph_, scores, sizes_.chosen));
  }

  Value scores_of(Value logits) {
    switch (rules().scores) {
      case RouterScores::sigmoid: return sigmoid(graph_, logits);
      case RouterScores::sqrt_softplus: return sqrt(graph_, softplus(graph_, logits));
      default: return probabilities_;
    }
  }

  // The best expert, then the best of the others.
  std::pair<Value, Value> mixed_sparsely(Value logits) {
    constexpr double kNever = -1e30;  // a logit that softmax makes 0
    const DType dtype = graph_.type(logits).dtype;
    const Value fixed = detach(graph_, logits);
    const Value never = constant(graph_, kNever, dtype);
    const Value magnitude = maximum(graph_, fixed, neg(graph_, fixed));
    const Value choices = top_k(graph_, fixed, 2).second;
    const Value first = chosen_ones(split(graph_, choices, -1, {1, 1})[0], dtype);
    const Value is_first = less(graph_, constant(graph_, 0, dtype), first);
    std::vector<Value> weights;
    for (const bool is_second : {false, true}) {
      const Value left = is_second ? where(graph_, is_first, never, logits) : logits;
      const Value best = detach(graph_, top_k(graph_, left, 1).first);
      const Value reach = scale(graph_, maximum(graph_, magnitude, best), 2 * rules().jitter);
      const Value is_far = less(graph_, reach, sub(graph_, best, detach(graph_, left)));
      weights.push_back(top_k(graph_, softmax(graph_, where(graph_, is_far, never, left)), 1).first);
    }
    return {concat(graph_, weights, -1), choices};
  }

  std::pair<Value, Value> divided(std::pair<Value, Value> best) {
    if (!sizes_.normalise_weights) return best;
    Value sum = reduce_sum(graph_, best.first, {-1}, true);
    if (rules().divisor_term > 0) sum = shift(graph_, sum, rules().divisor_term);
    return {div(graph_, best.first, sum), best.second};
  }

  // The scores [T,E], which are positive, of the choices [T,k], and -1 elsewhere.
  Value of_choices(Value scores, Value choices) {
    const Value is_chosen = chosen_ones(choices, graph_.type(scores).dtype);
    const Value elsewhere = shift(graph_, is_chosen, -1);
    return add(graph_, mul(graph_, scores, is_chosen), elsewhere);
  }

  // 1 at the choices [T,k] of all experts [T,E], and 0 elsewhere.
  Value chosen_ones(Value choices, DType dtype) {
    const Value ones = broadcast(graph_, constant(graph_, 1, dtype), graph_.type(choices).shape);
    return detach(graph_, make_value(graph_, Op::top_k_backward, {ones, choices}, {{"size", sizes_.experts}}));
  }

  // The scores by which experts are chosen, without a derivative: 0 in groups other than the best.
  Value of_best_groups(Value scores) {
    Value chosen = detach(graph_, scores);
    if (rules().has_correction) {
      const std::string name = graph_.scope() + ".correction";
      const Value correction = input(graph_, name, {DType::fp32, Shape{sizes_.experts}}, Role::constant);
      chosen = add(graph_, chosen, cast_to(correction, chosen));
    }
    if (rules().groups == rules().groups_per_token) return chosen;
    const Shape all = graph_.type(chosen).shape;
    const Value grouped = reshape(graph_, chosen, {tokens_, Dim(rules().groups), Dim(sizes_.experts / rules().groups)});
    const Value best = top_k(graph_, grouped, rules().group_has_best_two ? 2 : 1).first;
    const Value of_group = reduce_sum(graph_, best, {-1});
    const Value best_groups = top_k(graph_, of_group, rules().groups_per_token).first;
    const std::int64_t others = rules().groups_per_token - 1;
    const Value least = others == 0 ? best_groups : split(graph_, best_groups, -1, {others, 1})[1];
    const Value is_worse = less(graph_, of_group, least);
    const Value column = reshape(graph_, is_worse, {tokens_, Dim(rules().groups), Dim(1)});
    return reshape(graph_, where(graph_, column, constant(graph_, 0, graph_.type(grouped).dtype), grouped), all);
  }

  // The differences of the offsets.
  Value counts() {
    const ScopeGuard scope(graph_, "router");
    const Value begins = split(graph_, order_.offsets, 0, {sizes_.experts, 1})[0];
    const Value ends = split(graph_, order_.offsets, 0, {1, sizes_.experts})[1];
    const Value begin = cast(graph_, begins, DType::fp32);
    return sub(graph_, cast(graph_, ends, DType::fp32), begin);
  }

  // The rows of the tokens in the order of their experts.
  Value compute(Value rows) {
    if (rules().weighs_inputs) rows = weighed(rows);
    const ScopeGuard scope(graph_, "experts");
    const Dim experts(sizes_.experts), inner{sizes_.d_ff, 'F'};
    const auto product = [&](Value x, const std::string& number, Dim out, Dim in) {
      const Value made = grouped_matmul(graph_, x, parameter("w" + number, {experts, out, in}), order_.offsets, true);
      return rules().has_biases ? add(graph_, made, bias_of_rows(made, "b" + number)) : made;
    };
    Value gate = product(rows, "1", inner, width_);
    if (rules().limit == 0) gate = activated(graph_, sizes_.activation, gate);
    if (rules().squared_relu) return product(gate, "2", width_, inner);
    Value up = product(rows, "3", inner, width_);
    if (sizes_.third_factor) up = mul(graph_, up, product(rows, "4", inner, width_));
    const Value joined = rules().limit == 0 ? mul(graph_, gate, up) : limited_swiglu(graph_, gate, up, rules());
    return product(joined, "2", width_, inner);
  }

  // The bias of each row's expert, which is the product of a column of ones with it.
  Value bias_of_rows(Value made, const std::string& name) {
    const TensorType type = graph_.type(made);
    const Value bias = parameter(name, {Dim(sizes_.experts), type.shape.dim(1)});
    const Value column = reshape(graph_, bias, {Dim(sizes_.experts), type.shape.dim(1), Dim(1)});
    const Value ones = broadcast(graph_, constant(graph_, 1, type.dtype), {type.shape.dim(0), Dim(1)});
    return grouped_matmul(graph_, ones, column, order_.offsets, true);
  }

  // The rows, in the order of experts, times the weight of each.
  Value weighed(Value rows) {
    const ScopeGuard scope(graph_, "experts");
    const Value column = reshape(graph_, weights_, {tokens_.size * sizes_.chosen, 1});
    return mul(graph_, rows, cast_to(embedding(graph_, column, order_.order), rows));
  }

  // The weighted sums of the rows of each token.
  Value combine(Value rows) {
    if (!rules().weighs_inputs) rows = weighed(rows);
    const ScopeGuard scope(graph_, "experts");
    return embedding_backward(graph_, rows, order_.rows, tokens_.size);
  }

  // In the dtype of `other`.
  Value cast_to(Value value, Value other) {
    const DType dtype = graph_.type(other).dtype;
    return graph_.type(value).dtype == dtype ? value : cast(graph_, value, dtype);
  }

  Value shared() {
    const Value factor = sizes_.shared_gate ? sigmoid(graph_, linear(x_, 1, "shared_expert_gate")) : Value();
    const ScopeGuard scope(graph_, "shared_expert");
    const Value gate = linear(x_, sizes_.shared_d_ff, "w1");
    Value inner;
    if (rules().limits_all) {
      inner = limited_swiglu(graph_, gate, linear(x_, sizes_.shared_d_ff, "w3"), rules());
    } else {
      inner = activated(graph_, sizes_.activation, gate);
      if (!rules().squared_relu) inner = mul(graph_, inner, linear(x_, sizes_.shared_d_ff, "w3"));
    }
    const Value made = linear(inner, model_.size, "w2");
    return sizes_.shared_gate ? mul(graph_, factor, made) : made;
  }

  Graph& graph_;
  Value x_, routed_by_, choices_;
  const ExpertSizes& sizes_;
  Dim tokens_, model_;
  Dim width_;  // of what experts read and write
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
  const std::int64_t groups = sizes.rules.groups;
  const std::int64_t most = sizes.rules.groups_per_token;
  require(groups >= 1 && most >= 1 && most <= groups && sizes.experts % groups == 0 &&
              sizes.chosen <= sizes.experts / groups * most,
          "needs groups that divide the experts and hold those of a token");
  require(groups == most || !sizes.rules.group_has_best_two || sizes.experts / groups >= 2,
          "needs two experts in a group whose two best ones count");
}

}  // namespace

Value limited_swiglu(Graph& graph, Value gate, Value up, const ExpertRules& rules) {
  const DType dtype = graph.type(gate).dtype;
  const auto at_most = [&](Value x) { return minimum(graph, x, constant(graph, rules.limit, dtype)); };
  gate = at_most(gate);
  const Value least = constant(graph, -rules.limit, dtype);
  up = maximum(graph, at_most(up), least);
  const Value gated = mul(graph, gate, sigmoid(graph, scale(graph, gate, rules.slope)));
  return mul(graph, rules.limit_adds_one ? shift(graph, up, 1) : up, gated);
}

Value build_experts(Graph& graph, Value x, const ExpertSizes& sizes, std::vector<ExpertRouting>* routings,
                    Value routed_by, Value choices) {
  validate(sizes, graph.type(x));
  return ExpertBuilder(graph, x, routed_by, choices, sizes).build(routings);
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
