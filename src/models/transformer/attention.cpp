#include "models/transformer/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/types/enum_names.h"
#include "core/warning.h"
#include "models/transformer/transformer.h"
#include "ops/attention_form.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<AttentionVariant>("naive", "composite", "softmax", "weights", "recompute", "flash");

Value softmax_in_plain_ops(Graph& graph, Value scores, Value maximum) {
  const Value exponentials = exp(graph, sub(graph, scores, maximum));
  return div(graph, exponentials, reduce_sum(graph, exponentials, {-1}, true));
}

Value weights_of(Graph& graph, AttentionVariant variant, Value scores) {
  const ScopeGuard scope(graph, "softmax");
  switch (variant) {
    case AttentionVariant::softmax: return softmax(graph, scores);
    case AttentionVariant::weights:
      return graph.node(make_node(graph, Op::softmax, {scores}, {{kPlainAttribute, true}})).outputs[0];
    case AttentionVariant::naive: return softmax_in_plain_ops(graph, scores, reduce_max(graph, scores, {-1}, true));
    default:  // the shift by the maximum cancels in the quotient, so it needs no gradient
      return softmax_in_plain_ops(graph, scores, detach(graph, reduce_max(graph, scores, {-1}, true)));
  }
}

// The softmax of each row of scores [...,H,S,K] (or [...,N,G,S,K]) and its head's sink, without the latter's part.
Value weights_beside_sinks(Graph& graph, Value scores, Value sinks, std::int64_t group) {
  const ScopeGuard scope(graph, "softmax");
  const Value column = sink_column(graph, sinks, group);
  std::vector<Dim> dims(graph.type(column).shape.dims().begin(), graph.type(column).shape.dims().end());
  dims.push_back(Dim(1));
  const Value sink = reshape(graph, column, Shape(dims));
  const Value top = detach(graph, maximum(graph, reduce_max(graph, scores, {-1}, true), sink));
  const Value exponentials = exp(graph, sub(graph, scores, top));
  const Value of_sink = exp(graph, sub(graph, sink, top));
  const Value sum = add(graph, reduce_sum(graph, exponentials, {-1}, true), of_sink);
  return div(graph, exponentials, sum);
}

// [H,K] as scores [...,H,S,K] or [...,N,G,S,K] take it.
Value bias_of_scores(Graph& graph, Value bias, std::int64_t group) {
  const Dim heads = graph.type(bias).shape.dim(0), keys = graph.type(bias).shape.dim(1);
  if (group == 1) return reshape(graph, bias, {heads, Dim(1), keys});
  return reshape(graph, bias, {Dim(heads.size / group), Dim(group), Dim(1), keys});
}

// The scores [...,H,S,K] or [...,N,G,S,K] of keys that are kept, and -inf at others.
Value only_kept(Graph& graph, Value scores, Value kept, std::int64_t group) {
  if (group > 1) {
    const Shape shape = graph.type(kept).shape;
    std::vector<Dim> dims(shape.dims().begin(), shape.dims().end() - 2);
    for (const Dim dim : {Dim(1), shape.dim(-2), shape.dim(-1)}) dims.push_back(dim);
    kept = reshape(graph, kept, Shape(dims));
  }
  const Value is_kept = less(graph, constant(graph, 0, graph.type(kept).dtype), kept);
  const double none = -std::numeric_limits<double>::infinity();
  return where(graph, is_kept, scores, constant(graph, none, graph.type(scores).dtype));
}

// The op, with sinks if there are any; `is_plain`: computed as its decomposition on every device.
const Node& attention_node(Graph& graph, std::vector<Value> operands, const AttentionForm& form, bool is_plain) {
  Attributes attributes = attributes_of(form);
  if (is_plain) attributes.set(kPlainAttribute, true);
  return graph.node(make_node(graph, Op::attention, std::move(operands), attributes));
}

// Whether the device has a kernel for what becomes of the node.
bool has_tiled_kernel(const Graph& graph, const Node& node, const Device& device) {
  if (!has_sinks(node)) return device.has_kernel(graph, node);
  Graph alone;  // without the sinks
  std::vector<Value> operands;
  for (const char* name : {"q", "k", "v"})
    operands.push_back(input(alone, name, graph.type(node.inputs[operands.size()]), Role::data));
  return device.has_kernel(alone, alone.node(make_node(alone, Op::attention, operands, node.attributes)));
}

[[noreturn]] void fail(const std::string& message) { throw Error(message, ErrorKind::usage); }

Shape query_shape(const AttentionProblem& p) {
  return {{p.batch, 'B'}, {p.heads, 'H'}, {p.queries, 'S'}, {p.head_size(), 'D'}};
}
Shape key_shape(const AttentionProblem& p) {
  const Dim heads(p.key_heads(), p.key_heads() == p.heads ? 'H' : 'N');
  return {{p.batch, 'B'}, heads, {p.keys, p.keys == p.queries ? 'S' : 'K'}, {p.head_size(), 'D'}};
}

AttentionForm form_of(const AttentionProblem& p) {
  return {.scale = 1.0 / std::sqrt(static_cast<double>(p.head_size())),
          .causal = p.causal,
          .window = p.has_window() ? p.window : 0,
          .soft_cap = p.soft_cap};
}

void validate_form(const AttentionProblem& p) {
  if (p.causal && p.queries != p.keys) {
    fail("causal attention needs as many queries (--sequence " + std::to_string(p.queries) + ") as keys (--keys " +
         std::to_string(p.keys) + ")");
  }
  if (p.window < 0) fail("--window " + std::to_string(p.window) + " must not be negative");
  if (p.window > 0 && !p.causal)
    fail("--window " + std::to_string(p.window) + " counts back from a query's own key; add --causal true");
  if (!std::isfinite(p.soft_cap) || p.soft_cap < 0) fail("--soft-cap must be a number and not negative");
}

}  // namespace

std::string_view name(AttentionVariant variant) { return kNames[variant]; }
AttentionVariant attention_variant_from_name(std::string_view text) {
  return kNames.parse(text, "unknown attention variant '{}'");
}

std::optional<AttentionVariant> attention_fallback(const Graph& graph, const Device& device) {
  const Node* lacking = nullptr;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::attention && node.op != Op::attention_backward) continue;
    if (node.attributes.get_or(kPlainAttribute, false) || has_tiled_kernel(graph, node, device)) continue;
    lacking = &node;
    break;
  }
  if (lacking == nullptr) return std::nullopt;
  const std::string message = fmt::format(
      "{} has no tiled {} kernel for {}: the variant 'recompute' runs instead, with temporaries of size S x S",
      device.name(), lacking->op == Op::attention ? "attention" : "attention backward",
      graph.type(lacking->inputs[1]).to_string());
  // Once for a search over sizes.
  warn_once(fmt::format("no tiled kernel of {}", name(lacking->op)), message);
  return AttentionVariant::recompute;
}

BiasedHeads with_bias_columns(Graph& graph, Value q, Value k, Value bias, double scale) {
  const auto columns = [&](Value x, Value of_heads, std::int64_t count) {
    const Shape& shape = graph.type(x).shape;
    return broadcast(graph, of_heads, {shape.dim(0), shape.dim(1), shape.dim(2), Dim(count)});
  };
  constexpr int kPieces = 3;  // of 8 bits each
  const double factor = std::exp2(std::round(-std::log2(scale)));
  const Shape column{graph.type(bias).shape.dim(0), graph.type(bias).shape.dim(1), Dim(1)};
  Value rest = mul(graph, bias, constant(graph, 1 / (scale * factor), DType::fp32));
  std::vector<Value> of_keys = {k};
  for (int piece = 0; piece < kPieces; ++piece) {
    const Value rounded = cast(graph, cast(graph, rest, DType::bf16), DType::fp32);
    of_keys.push_back(columns(k, reshape(graph, rounded, column), 1));
    rest = sub(graph, rest, rounded);
  }
  of_keys.push_back(columns(k, constant(graph, 0, DType::fp32), kBiasColumns - kPieces));
  const Value of_queries = columns(q, constant(graph, factor, DType::fp32), kBiasColumns);
  return {concat(graph, {q, of_queries}, -1), concat(graph, of_keys, -1)};
}

Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, const AttentionForm& form,
                      Value sinks, Value bias, Value kept) {
  if (variant == AttentionVariant::flash || variant == AttentionVariant::recompute) {
    std::vector<Value> operands = {q, k, v};
    if (sinks.valid()) operands.push_back(sinks);
    return attention_node(graph, operands, form, variant == AttentionVariant::recompute).outputs[0];
  }
  const Shape shape = graph.type(q).shape;
  const std::int64_t group = heads_per_key_head(shape, graph.type(k).shape);
  const KeyHeads heads(graph, group);
  k = heads.repeated(k);
  Value scores;
  {
    const ScopeGuard scope(graph, "scores");
    const Value columns = swap_last_two_axes(graph, k);
    scores = scale(graph, matmul(graph, heads.grouped(q), columns), form.scale);
    if (form.soft_cap > 0) scores = soft_cap(graph, scores, form.soft_cap);
    if (bias.valid()) scores = add(graph, scores, bias_of_scores(graph, bias, group));
  }
  if (form.causal) {
    const ScopeGuard scope(graph, "mask");
    scores = causal_mask(graph, scores, -std::numeric_limits<double>::infinity(), form.window);
  }
  if (kept.valid()) {
    const ScopeGuard scope(graph, "mask");
    scores = only_kept(graph, scores, kept, group);
  }
  const Value weights =
      sinks.valid() ? weights_beside_sinks(graph, scores, sinks, group) : weights_of(graph, variant, scores);
  const ScopeGuard scope(graph, "values");
  const Value mixed = matmul(graph, weights, heads.repeated(v));
  if (group == 1) return mixed;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = graph.type(v).shape.dim(-1);
  return reshape(graph, mixed, Shape(dims));
}

void validate(const AttentionProblem& p) {
  if (p.precision == Precision::fp8)
    fail("--dtype fp8 is of linear layers, and attention has none: its products are bf16; use --dtype bf16");
  const std::pair<std::int64_t, const char*> sizes[] = {{p.batch, "--batch"},
                                                        {p.heads, "--heads"},
                                                        {p.d_model, "--d-model"},
                                                        {p.queries, "--sequence"},
                                                        {p.keys, "--keys"}};
  for (const auto& [value, option] : sizes) {
    if (value < 1) fail(std::string(option) + " " + std::to_string(value) + " must be positive");
  }
  if (p.d_model % p.heads != 0) {
    fail("--heads " + std::to_string(p.heads) + " does not divide --d-model " + std::to_string(p.d_model) +
         "; every head needs the same width");
  }
  if (p.kv_heads < 0 || p.heads % p.key_heads() != 0) {
    fail("--kv-heads " + std::to_string(p.kv_heads) + " does not divide --heads " + std::to_string(p.heads) +
         "; each head of keys serves as many heads of queries");
  }
  validate_form(p);
  // The bounds are generous: the widest dtype, and more operations for each score than any variant counts (14 D in
  // seven products, and under 32 elementwise), so that no later size or count can overflow.
  constexpr std::int64_t kWidestBytes = 8;
  checked_product({kWidestBytes, p.batch, p.d_model, std::max(p.queries, p.keys)}, "the size of q, k and v");
  checked_product({kWidestBytes, p.batch, p.heads, p.queries, p.keys}, "the size of the scores");
  checked_product({p.batch, p.heads, p.queries, p.keys, 16 * p.head_size() + 32}, "the number of operations");
}

double forward_flops(const AttentionProblem& p) {
  const double of_pair = 4.0 * static_cast<double>(p.batch * p.d_model);
  const auto queries = static_cast<double>(p.queries);
  if (p.has_window()) {
    const auto window = static_cast<double>(p.window);
    return of_pair * (window * queries - window * (window - 1) / 2);
  }
  const double products = of_pair * queries * static_cast<double>(p.keys);
  return p.causal ? products / 2 : products;
}

double backward_flops(const AttentionProblem& problem) { return 2.5 * forward_flops(problem); }

Graph build_attention_problem(const AttentionProblem& problem) {
  validate(problem);
  Graph graph;
  graph.name = "attention." + std::string(name(problem.variant));
  const DType dtype = matmul_dtype(problem.precision);
  const Value q = input(graph, "q", {dtype, query_shape(problem)}, Role::data);
  const Value k = input(graph, "k", {dtype, key_shape(problem)}, Role::data);
  const Value v = input(graph, "v", {dtype, key_shape(problem)}, Role::data);
  graph.add_output("o", build_attention(graph, problem.variant, q, k, v, form_of(problem)));
  return graph;
}

Value build_log_sum_exp(Graph& graph, const AttentionProblem& problem, Value q, Value k, Value v) {
  const AttentionForm form = form_of(problem);
  return problem.variant == AttentionVariant::flash ? attention(graph, q, k, v, form).second
                                                    : attention_node(graph, {q, k, v}, form, true).outputs[1];
}

CompileOptions compile_options(const AttentionProblem& problem, Mode mode) {
  return {.mode = mode, .precision = problem.precision};
}

AttentionCall::AttentionCall(AttentionProblem problem) : problem_(std::move(problem)) { validate(problem_); }

WorkloadDescription AttentionCall::describe() const {
  return {.model = {.name = problem_.model,
                    .d_model = problem_.d_model,
                    .heads = problem_.heads,
                    .kv_heads = problem_.key_heads(),
                    .head_size = problem_.head_size()},
          .batch = problem_.batch,
          .context = problem_.queries,
          .attention = problem_.variant};
}

std::int64_t AttentionCall::flops(const CompileOptions& options) const {
  const double backward = runs_backward(options.mode) ? backward_flops(problem_) : 0.0;
  return static_cast<std::int64_t>(forward_flops(problem_) + backward);
}

// With the heads and the width of a layer of the model.
WorkloadKind workload_attention() {
  const auto make = [](const WorkloadSettings& settings) {
    const TransformerConfig& model = *settings.model;
    const bool is_wider = model.architecture.head_size > 0;
    return std::make_shared<AttentionCall>(
        AttentionProblem{.batch = settings.batch,
                         .heads = model.heads,
                         .d_model = is_wider ? model.heads * model.head_size() : model.d_model,
                         .queries = settings.context,
                         .keys = settings.context,
                         .kv_heads = model.architecture.kv_heads,
                         .causal = model.architecture.is_causal,
                         .variant = settings.attention,
                         .precision = settings.precision,
                         .model = model.name == "custom" ? model.name : fmt::format("attention of {}", model.name)});
  };
  return {.name = "attention",
          .settings = {"model", "config-override", "d-model", "heads", "context", "batch", "attention"},
          .make = make,
          .usual_mode = Mode::forward_backward};
}

}  // namespace ridgepoint
