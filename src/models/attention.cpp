#include "models/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/types/enum_names.h"
#include "core/warning.h"
#include "ops/attention_form.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"
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
    case AttentionVariant::softmax:
      return softmax(graph, scores);
    case AttentionVariant::weights:
      return graph.node(make_node(graph, Op::softmax, {scores}, {{kPlainAttribute, true}})).outputs[0];
    case AttentionVariant::naive:
      return softmax_in_plain_ops(graph, scores, reduce_max(graph, scores, {-1}, true));
    default:  // the shift by the maximum cancels in the quotient, so it needs no gradient
      return softmax_in_plain_ops(graph, scores, detach(graph, reduce_max(graph, scores, {-1}, true)));
  }
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
    if (node.attributes.get_or(kPlainAttribute, false) || device.has_kernel(graph, node)) continue;
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

Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, const AttentionForm& form) {
  if (variant == AttentionVariant::flash) return attention(graph, q, k, v, form).first;
  if (variant == AttentionVariant::recompute) {
    Attributes attributes = attributes_of(form);
    attributes.set(kPlainAttribute, true);
    return graph.node(make_node(graph, Op::attention, {q, k, v}, attributes)).outputs[0];
  }
  const Shape shape = graph.type(q).shape;
  const std::int64_t group = heads_per_key_head(shape, graph.type(k).shape);
  const KeyHeads heads(graph, group);
  k = heads.repeated(k);
  Value scores;
  {
    const ScopeGuard scope(graph, "scores");
    scores = scale(graph, matmul(graph, heads.grouped(q), swap_last_two_axes(graph, k)), form.scale);
    if (form.soft_cap > 0) scores = soft_cap(graph, scores, form.soft_cap);
  }
  if (form.causal) {
    const ScopeGuard scope(graph, "mask");
    scores = causal_mask(graph, scores, -std::numeric_limits<double>::infinity(), form.window);
  }
  const Value weights = weights_of(graph, variant, scores);
  const ScopeGuard scope(graph, "values");
  const Value mixed = matmul(graph, weights, heads.repeated(v));
  return group == 1 ? mixed : reshape(graph, mixed, shape);
}

}  // namespace ridgepoint
