#include "models/transformer/mixers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/checked.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr double kKeyEpsilon = 1e-6;  // in the length of a query or key
constexpr const char* kWhat = "the number of a mixer's parameters";

// Of a mixer with heads: all of its keys, and all of its values.
std::int64_t key_width(const StateMixer& s) { return checked_product({s.key_heads, s.key_size}, kWhat); }
std::int64_t value_width(const StateMixer& s) { return checked_product({s.heads, s.value_size}, kWhat); }

class MixerBuilder {
 public:
  MixerBuilder(Graph& graph, Mixer mixer, Value x, const StateMixer& sizes, std::int64_t batch)
      : graph_(graph),
        mixer_(mixer),
        x_(x),
        sizes_(sizes),
        tokens_(graph.type(x).shape.dim(0)),
        batch_{batch, 'B'},
        sequence_{tokens_.size / batch, 'S'},
        model_(graph.type(x).shape.dim(1)) {}

  Value build() {
    if (sizes_.input_scale != 1) x_ = scale(graph_, x_, sizes_.input_scale);
    project();
    Value mixed;
    if (mixer_ == Mixer::gated_delta) {
      mixed = gated_delta();
    } else if (mixer_ == Mixer::state_space) {
      mixed = state_space();
    } else {
      mixed = mul(graph_, parts_[1], convolved(mul(graph_, parts_[0], parts_[2])));
    }
    const std::int64_t width = mixed_width(mixer_, sizes_, model_.size);
    mixed = reshape(graph_, mixed, {tokens_, {width, 'D'}});
    const Value made = linear(mixed, model_.size, "output_proj", sizes_.output_bias);
    return sizes_.output_scale == 1 ? made : scale(graph_, made, sizes_.output_scale);
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    return input(graph_, graph_.scope() + "." + name, {DType::fp32, std::move(shape)}, Role::parameter);
  }

  // x [T,in] times the transpose of a weight [out,in].
  Value linear(Value x, std::int64_t out, const std::string& module, bool has_bias) {
    const ScopeGuard scope(graph_, module);
    const Dim width{out, 'D'};
    const Value weight = parameter("weight", {width, graph_.type(x).shape.dim(-1)});
    const Value product = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    return has_bias ? add(graph_, product, parameter("bias", {width})) : product;
  }

  // The parts [B,S,width] of the input, those that are convolved behind silu. The gates of a short convolution come
  // between its projection and its convolution.
  void project() {
    const std::vector<MixerPart> described = input_parts(mixer_, sizes_, model_.size);
    for (std::size_t begin = 0; begin < described.size();) {
      std::size_t end = begin + 1;
      while (end < described.size() && described[end].module == described[begin].module) ++end;
      std::vector<std::int64_t> widths;
      for (std::size_t i = begin; i < end; ++i) widths.push_back(described[i].width);
      const std::int64_t width = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
      Value made = linear(x_, width, described[begin].module + "_proj", sizes_.input_bias);
      if (mixer_ == Mixer::state_space) made = scaled_parts(made, begin, widths);
      made = reshape(graph_, made, {batch_, sequence_, graph_.type(made).shape.dim(1)});
      if (described[begin].is_convolved && mixer_ != Mixer::short_convolution) made = silu(graph_, convolved(made));
      const std::vector<Value> parts = widths.size() == 1 ? std::vector{made} : split(graph_, made, -1, widths);
      parts_.insert(parts_.end(), parts.begin(), parts.end());
      begin = end;
    }
  }

  // The parts from number `begin` on, [T,sum of widths], times their factors.
  Value scaled_parts(Value made, std::size_t begin, const std::vector<std::int64_t>& widths) {
    const double* factors = &sizes_.part_scales.at(begin);
    if (widths.size() == 1) return factors[0] == 1 ? made : scale(graph_, made, factors[0]);
    if (std::all_of(factors, factors + widths.size(), [](double factor) { return factor == 1; })) return made;
    std::vector<Value> parts = split(graph_, made, -1, widths);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = scale(graph_, parts[i], factors[i]);
    return concat(graph_, parts, -1);
  }

  Value convolved(Value x) {
    const ScopeGuard scope(graph_, "conv");
    const Dim width = graph_.type(x).shape.dim(-1);
    std::vector<Value> operands = {x, parameter("weight", {width, sizes_.kernel})};
    if (sizes_.convolution_bias) operands.push_back(parameter("bias", {width}));
    return make_value(graph_, Op::causal_convolution, std::move(operands), {{"reversed", false}});
  }

  Value vector(const std::string& name, std::int64_t size) { return parameter(name, {{size, 'H'}}); }
  Value filled(std::int64_t width, double value) {
    return broadcast(graph_, constant(graph_, value, DType::fp32), {width});
  }

  // [B,S,count width] -> [B,S,count,width].
  Value by_head(Value x, std::int64_t count, std::int64_t width) {
    return reshape(graph_, x, {batch_, sequence_, {count, 'H'}, {width, 'd'}});
  }

  // Queries or keys of length 1, [B,N,S,width].
  Value unit_heads(Value x) {
    const Value heads = by_head(x, sizes_.key_heads, sizes_.key_size);
    const auto width = static_cast<double>(sizes_.key_size);
    const Value weight = filled(sizes_.key_size, 1 / std::sqrt(width));
    const Value unit = rms_norm(graph_, heads, weight, kKeyEpsilon / width).first;
    return transpose(graph_, unit, {0, 2, 1, 3});
  }

  // The steps [B,S,H], which are positive, and the factors -exp(log_decay) [H] of the decay.
  Value steps(Value x) { return softplus(graph_, add(graph_, x, vector("step_bias", sizes_.heads))); }
  Value decay() { return neg(graph_, exp(graph_, vector("log_decay", sizes_.heads))); }

  Value gated_delta() {
    const auto head_first = [&](Value rows) { return transpose(graph_, rows, {0, 2, 1}); };
    const Value v = transpose(graph_, by_head(parts_[2], sizes_.heads, sizes_.value_size), {0, 2, 1, 3});
    const Value beta = head_first(sigmoid(graph_, parts_[4]));
    const Value factors = decay();
    const Value g = head_first(mul(graph_, steps(parts_[5]), factors));
    const Value q = unit_heads(parts_[0]);
    const Value k = unit_heads(parts_[1]);
    const double factor = 1 / std::sqrt(static_cast<double>(sizes_.key_size));
    const Value mixed = transpose(graph_, gated_delta_rule(graph_, q, k, v, g, beta, factor), {0, 2, 1, 3});
    const Value weight = parameter("out_norm.weight", {{sizes_.value_size, 'd'}});
    const Value normed = rms_norm(graph_, mixed, weight, sizes_.norm_epsilon).first;
    return mul(graph_, normed, silu(graph_, by_head(parts_[3], sizes_.heads, sizes_.value_size)));
  }

  Value state_space() {
    Value dt = steps(parts_[4]);
    if (sizes_.least_step > 0) dt = maximum(graph_, dt, constant(graph_, sizes_.least_step, DType::fp32));
    if (sizes_.most_step > 0) dt = minimum(graph_, dt, constant(graph_, sizes_.most_step, DType::fp32));
    const auto groups = [&](Value x) { return by_head(x, sizes_.key_heads, sizes_.key_size); };
    const Value a = decay();
    const Value x = by_head(parts_[1], sizes_.heads, sizes_.value_size);
    const StateSpace space{dt, a, groups(parts_[2]), groups(parts_[3]), vector("skip", sizes_.heads)};
    const Value scanned = state_space_scan(graph_, x, space);
    return gated(reshape(graph_, scanned, graph_.type(parts_[0]).shape));
  }

  // y [B,S,width], with its gate.
  Value gated(Value y) {
    const Value gate = silu(graph_, parts_[0]);
    switch (sizes_.gate_norm) {
      case GateNorm::product_of_norm: return mul(graph_, group_norm(y), gate);
      case GateNorm::norm_of_product: return group_norm(mul(graph_, y, gate));
      case GateNorm::none: break;
    }
    return mul(graph_, y, gate);
  }

  Value group_norm(Value y) {
    const ScopeGuard scope(graph_, "out_norm");
    const Shape shape = graph_.type(y).shape;
    const Value weight = parameter("weight", {shape.dim(-1)});
    if (sizes_.norm_groups == 1) return rms_norm(graph_, y, weight, sizes_.norm_epsilon).first;
    const std::int64_t width = shape[-1] / sizes_.norm_groups;
    const Value grouped = reshape(graph_, y, {batch_, sequence_, Dim(sizes_.norm_groups), Dim(width)});
    const Value normed = rms_norm(graph_, grouped, filled(width, 1), sizes_.norm_epsilon).first;
    return mul(graph_, reshape(graph_, normed, shape), weight);
  }

  Graph& graph_;
  Mixer mixer_;
  Value x_;
  const StateMixer& sizes_;
  Dim tokens_, batch_, sequence_, model_;
  std::vector<Value> parts_;
};

}  // namespace

Mixer state_mixer_of(Mixer mixer) { return mixer == Mixer::attention_and_state_space ? Mixer::state_space : mixer; }
bool attends(Mixer mixer) { return mixer == Mixer::attention || mixer == Mixer::attention_and_state_space; }
bool has_state(Mixer mixer) { return mixer != Mixer::attention && mixer != Mixer::none; }

std::vector<MixerPart> input_parts(Mixer mixer, const StateMixer& s, std::int64_t d_model) {
  const std::int64_t keys = key_width(s), values = value_width(s);
  switch (mixer) {
    case Mixer::gated_delta:
      return {{"qkv", keys, true, 0}, {"qkv", keys, true, keys}, {"qkv", values, true, 2 * keys},
              {"z", values},          {"beta", s.heads},         {"step", s.heads}};
    case Mixer::state_space:
      return {{"z", values},
              {"xbc", values, true, 0},
              {"xbc", keys, true, values},
              {"xbc", keys, true, values + keys},
              {"step", s.heads}};
    case Mixer::short_convolution: return {{"b", d_model}, {"c", d_model}, {"x", d_model, true}};
    default: return {};
  }
}

std::vector<MixerVector> mixer_vectors(Mixer mixer, const StateMixer& s) {
  if (mixer == Mixer::short_convolution) return {};
  std::vector<MixerVector> vectors = {{"step_bias", s.heads}, {"log_decay", s.heads}};
  if (mixer == Mixer::state_space) vectors.push_back({"skip", s.heads});
  if (mixer == Mixer::gated_delta) {
    vectors.push_back({"out_norm.weight", s.value_size});
  } else if (s.gate_norm != GateNorm::none) {
    vectors.push_back({"out_norm.weight", value_width(s)});
  }
  return vectors;
}

std::int64_t mixed_width(Mixer mixer, const StateMixer& s, std::int64_t d_model) {
  return mixer == Mixer::short_convolution ? d_model : value_width(s);
}

std::int64_t mixer_parameters(Mixer mixer, const StateMixer& s, std::int64_t d_model) {
  std::int64_t count = 0;
  const auto add = [&](std::initializer_list<std::int64_t> factors) {
    count = checked_sum({count, checked_product(factors, kWhat)}, kWhat);
  };
  for (const MixerPart& part : input_parts(mixer, s, d_model)) {
    add({part.width, d_model + (s.input_bias ? 1 : 0)});
    if (part.is_convolved) add({part.width, s.kernel + (s.convolution_bias ? 1 : 0)});
  }
  for (const MixerVector& vector : mixer_vectors(mixer, s)) add({vector.size});
  add({mixed_width(mixer, s, d_model) + (s.output_bias ? 1 : 0), d_model});
  return count;
}

void validate(Mixer mixer, const StateMixer& s) {
  const auto fail = [](const std::string& message) { throw Error(message, ErrorKind::usage); };
  if (s.kernel < 1) fail(fmt::format("a short convolution of {} tokens; it must see one or more", s.kernel));
  if (mixer == Mixer::short_convolution) return;
  if (std::min({s.key_heads, s.heads, s.key_size, s.value_size}) < 1)
    fail(
        fmt::format("a layer that carries a state needs heads and sizes of 1 or more; here are {} heads of {} and {} "
                    "of {}",
                    s.key_heads, s.key_size, s.heads, s.value_size));
  if (s.heads % s.key_heads != 0)
    fail(fmt::format("the {} heads of keys do not divide the {} heads of values", s.key_heads, s.heads));
  if (s.norm_groups < 1 || value_width(s) % s.norm_groups != 0)
    fail(fmt::format("a norm of {} elements in {} groups, which do not divide them", value_width(s), s.norm_groups));
  if (s.most_step > 0 && s.most_step < s.least_step)
    fail(fmt::format("steps of at least {:g} and at most {:g}", s.least_step, s.most_step));
}

Value build_mixer(Graph& graph, Mixer mixer, Value x, const StateMixer& sizes, std::int64_t batch) {
  return MixerBuilder(graph, mixer, x, sizes, batch).build();
}

std::optional<TruncatedNormal> mixer_distribution(std::string_view name, const TensorType& type) {
  constexpr double kUsualStep = 0.01;  // of those that Mamba-2 begins with, from 0.001 to 0.1
  if (name == "step_bias") return TruncatedNormal{.mean = std::log(std::expm1(kUsualStep))};
  if (name == "log_decay") return TruncatedNormal{.mean = 1, .deviation = 1};
  if (name == "skip" || name == "out_norm.weight") return TruncatedNormal{.mean = 1};
  if (name == "conv.weight")
    return TruncatedNormal{.deviation = 1 / std::sqrt(3.0 * static_cast<double>(type.shape[-1]))};
  return std::nullopt;
}

}  // namespace ridgepoint
