#include "models/transformer/compressed_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/checked.h"
#include "ir/stored_tensors.h"
#include "models/transformer/attention.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr double kUnseen = -std::numeric_limits<double>::infinity();
constexpr const char* kCompressedCount = "the parameter count";

class CompressedBuilder {
 public:
  CompressedBuilder(Graph& graph, const CompressedAttention& made_of, Compression kind, const CompressedInputs& inputs)
      : graph_(graph),
        a_(made_of),
        kind_(kind),
        in_(inputs),
        entries_(kind == Compression::none ? 0 : inputs.sequence.size / made_of.rate(kind)) {}

  Value build() {
    const Value low = norm(linear(in_.x, a_.q_rank, "q_a_proj"), "q_a_norm");
    const Value q = rotated(plain_norm(by_head(linear(low, in_.heads * in_.size, "q_b_proj"), in_.heads, in_.size)));
    const Value own = rotated(by_head(norm(linear(in_.x, in_.size, "kv_proj"), "kv_norm"), 1, in_.size));
    Value keys = own;
    std::vector<Value> seen = {window()};
    if (kind_ != Compression::none) {
      const ScopeGuard scope(graph_, "compressor");
      const Value compressed = entries(in_.x, in_.size);
      if (compressed.valid()) keys = concat(graph_, {own, compressed}, 1);
      Value visible = compressed.valid() ? finished() : Value();
      if (kind_ == Compression::overlapping) visible = chosen(low, visible);
      if (compressed.valid()) seen.push_back(visible);
    }
    const Value mixed = attend(q, keys, seen);
    return projected(rotated(mixed, true));
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    const Value made = input(graph_, graph_.scope() + "." + name, {DType::fp32, std::move(shape)}, Role::parameter);
    if (is_frozen_) graph_.node(graph_.producer(made)).attributes.set(kFrozen, true);
    return made;
  }

  Value linear(Value x, std::int64_t out, const std::string& name) {
    const Value weight = parameter(name + ".weight", {Dim(out), graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  Value norm(Value x, const std::string& name) {
    return rms_norm(graph_, x, parameter(name + ".weight", {graph_.type(x).shape.dim(-1)}), in_.norm_epsilon).first;
  }

  Value plain_norm(Value x) {
    const Value ones = broadcast(graph_, constant(graph_, 1, DType::fp32), {graph_.type(x).shape.dim(-1)});
    return rms_norm(graph_, x, ones, in_.norm_epsilon).first;
  }

  Value by_head(Value x, std::int64_t heads, std::int64_t size) {
    return reshape(graph_, x, {in_.batch, in_.sequence, Dim(heads), Dim(size)});
  }

  // The last elements of each head [B,S,heads,size], by the tables of their places or these.
  Value rotated(Value x, bool is_inverse = false, Value cosines = {}, Value sines = {}) {
    const std::int64_t plain = graph_.type(x).shape[-1] - a_.rotated;
    if (!cosines.valid()) {
      cosines = in_.cosines;
      sines = in_.sines;
    }
    const auto turn = [&](Value v) {
      return make_value(graph_, Op::rope, {v, cosines, sines}, {{"axis", std::int64_t{1}}, {"inverse", is_inverse}});
    };
    if (plain == 0) return turn(x);
    const std::vector<Value> parts = split(graph_, x, -1, {plain, a_.rotated});
    return concat(graph_, {parts[0], turn(parts[1])}, -1);
  }

  // Of a table [S,r], the rows of the first token of each entry.
  Value first_rows(Value table) {
    const Dim width = graph_.type(table).shape.dim(1);
    const std::int64_t rate = a_.rate(kind_);
    const Value whole = first(table, 0, entries_ * rate);
    return reshape(graph_, first(reshape(graph_, whole, {Dim(entries_), Dim(rate), width}), 1, 1),
                   {Dim(entries_), width});
  }

  // The first `count` along the axis.
  Value first(Value x, int axis, std::int64_t count) {
    const std::int64_t rest = graph_.type(x).shape[axis] - count;
    return rest == 0 ? x : split(graph_, x, axis, {count, rest})[0];
  }

  // Entries [B,E,1,size] of the tokens x [T,D]: sums of what they are projected to, weighted by a softmax of gates over
  // the tokens of an entry. Where they overlap, the first half of the elements belongs to the next entry. No value
  // without a whole entry.
  Value entries(Value x, std::int64_t size) {
    const std::int64_t rate = a_.rate(kind_);
    const std::int64_t wide = (kind_ == Compression::overlapping ? 2 : 1) * size;
    Value values = linear(x, wide, "values");
    Value gates = linear(x, wide, "gates");
    const Value bias = parameter("position_bias", {Dim(rate), Dim(wide)});
    const Value weight = parameter("norm.weight", {Dim(size)});
    if (entries_ == 0) return {};
    const auto by_entry = [&](Value v) {
      const Value tokens = first(reshape(graph_, v, {in_.batch, in_.sequence, Dim(wide)}), 1, entries_ * rate);
      return reshape(graph_, tokens, {in_.batch, Dim(entries_), Dim(rate), Dim(wide)});
    };
    values = by_entry(values);
    gates = add(graph_, by_entry(gates), bias);
    if (kind_ == Compression::overlapping) {
      values = with_entry_before(values, size, 0);
      gates = with_entry_before(gates, size, kUnseen);
    }
    const auto tokens_last = [&](Value v) { return transpose(graph_, v, {0, 1, 3, 2}); };
    const Value shares = softmax(graph_, tokens_last(gates));
    const Value sums = reduce_sum(graph_, mul(graph_, tokens_last(values), shares), {-1});
    const Value normed = rms_norm(graph_, sums, weight, in_.norm_epsilon).first;
    const Value heads = reshape(graph_, normed, {in_.batch, Dim(entries_), Dim(1), Dim(size)});
    const Value sines = first_rows(in_.sines);
    return rotated(heads, false, first_rows(in_.cosines), sines);
  }

  // [B,E,R,2 size] -> [B,E,2 R,size]: the first elements of the entry before, which the first one fills, then its own.
  Value with_entry_before(Value x, std::int64_t size, double fill) {
    const std::vector<Value> halves = split(graph_, x, -1, {size, size});
    const Shape shape = graph_.type(halves[0]).shape;
    const Value none = broadcast(graph_, constant(graph_, fill, graph_.type(x).dtype),
                                 {shape.dim(0), Dim(1), shape.dim(2), shape.dim(3)});
    const Value before = entries_ == 1 ? none : concat(graph_, {none, first(halves[0], 1, entries_ - 1)}, 1);
    return concat(graph_, {before, halves[1]}, 2);
  }

  Value is(Value condition) { return cast(graph_, condition, DType::fp32); }
  Value queries() { return iota(graph_, {in_.sequence, Dim(1)}, 0, DType::fp32); }

  // [S,S]: 1 at the keys of the window.
  Value window() {
    const Value key = iota(graph_, {Dim(1), in_.sequence}, 1, DType::fp32);
    const Value query = queries();
    const Value ends = shift(graph_, key, static_cast<double>(in_.window));
    const Value is_near = is(less(graph_, query, ends));
    return mul(graph_, is(less_equal(graph_, key, query)), is_near);
  }

  // [S,E]: 1 at the entries whose tokens all lie at the query or before it.
  Value finished() {
    const auto rate = static_cast<double>(a_.rate(kind_));
    const Value entry = iota(graph_, {Dim(1), Dim(entries_)}, 1, DType::fp32);
    const Value last = shift(graph_, scale(graph_, entry, rate), rate - 1);
    return is(less_equal(graph_, last, queries()));
  }

  // [B,S,E] of those that the indexer chooses, or [S,E] of all where it keeps all.
  Value chosen(Value low, Value visible) {
    const ScopeGuard scope(graph_, "indexer");
    is_frozen_ = true;
    const Value x = detach(graph_, in_.x);
    const Value keys = entries(x, a_.index_size);
    const Value q =
        by_head(linear(detach(graph_, low), a_.index_heads * a_.index_size, "queries"), a_.index_heads, a_.index_size);
    const Value weights = linear(x, a_.index_heads, "head_weights");
    is_frozen_ = false;
    if (entries_ <= a_.index_kept) return visible;
    const Dim heads(a_.index_heads), size(a_.index_size);
    const Value of_heads =
        broadcast(graph_, transpose(graph_, keys, {0, 2, 3, 1}), {in_.batch, heads, size, Dim(entries_)});
    const Value products = matmul(graph_, transpose(graph_, rotated(q), {0, 2, 1, 3}), of_heads);
    const double factor = 1 / std::sqrt(static_cast<double>(a_.index_size * a_.index_heads));
    const Value by_token = reshape(graph_, weights, {in_.batch, in_.sequence, heads, Dim(1)});
    const Value by_head_weights = transpose(graph_, by_token, {0, 2, 1, 3});
    const Value weighed = mul(graph_, relu(graph_, products), by_head_weights);
    const Value scores = scale(graph_, reduce_sum(graph_, weighed, {1}), factor);
    const Value is_visible = less(graph_, constant(graph_, 0, DType::fp32), visible);
    const Value ready = where(graph_, is_visible, scores, constant(graph_, kUnseen, graph_.type(scores).dtype));
    const Value choices = top_k(graph_, ready, a_.index_kept).second;
    const Value ones = broadcast(graph_, constant(graph_, 1, DType::fp32), graph_.type(choices).shape);
    const Value best = make_value(graph_, Op::top_k_backward, {ones, choices}, {{"size", entries_}});
    return mul(graph_, detach(graph_, best), visible);
  }

  // q [B,S,H,d] and keys [B,S + E,1,d], of which a query sees what [S,K] or [B,S,K] say one after the other.
  Value attend(Value q, Value keys, const std::vector<Value>& seen) {
    const Value by_head = transpose(graph_, q, {0, 2, 1, 3});
    const Value k = transpose(graph_, keys, {0, 2, 1, 3});
    const Value sinks = parameter("sinks", {Dim(in_.heads)});
    const double factor = 1 / std::sqrt(static_cast<double>(in_.size));
    if (kind_ == Compression::none) {
      const AttentionForm form{
          .scale = factor, .causal = true, .window = in_.window < in_.sequence.size ? in_.window : 0};
      return transpose(graph_, build_attention(graph_, in_.variant, by_head, k, k, form, sinks), {0, 2, 1, 3});
    }
    std::vector<Value> parts;
    for (const Value part : seen) {
      const std::int64_t count = graph_.type(part).shape[-1];
      parts.push_back(broadcast(graph_, part, {in_.batch, in_.sequence, Dim(count)}));
    }
    const Value all = parts.size() == 1 ? parts[0] : concat(graph_, parts, -1);
    const Value kept = reshape(graph_, all, {in_.batch, Dim(1), in_.sequence, graph_.type(all).shape.dim(-1)});
    const AttentionForm form{.scale = factor, .causal = false};
    const Value mixed = build_attention(graph_, AttentionVariant::composite, by_head, k, k, form, sinks, {}, kept);
    return transpose(graph_, mixed, {0, 2, 1, 3});
  }

  // Heads [B,S,H,d] in groups through their low ranks.
  Value projected(Value heads) {
    const std::int64_t tokens = in_.batch.size * in_.sequence.size;
    const std::int64_t width = in_.heads * in_.size / a_.groups;
    const Value by_group =
        transpose(graph_, reshape(graph_, heads, {Dim(tokens), Dim(a_.groups), Dim(width)}), {1, 0, 2});
    const Value weight = parameter("output_a_proj.weight", {Dim(a_.groups * a_.group_rank), Dim(width)});
    const Value of_groups = reshape(graph_, weight, {Dim(a_.groups), Dim(a_.group_rank), Dim(width)});
    const Value low = matmul(graph_, by_group, transpose(graph_, of_groups, {0, 2, 1}));
    const Value joined = reshape(graph_, transpose(graph_, low, {1, 0, 2}),
                                 {graph_.type(in_.x).shape.dim(0), Dim(a_.groups * a_.group_rank)});
    return linear(joined, graph_.type(in_.x).shape[1], "output_b_proj");
  }

  Graph& graph_;
  const CompressedAttention& a_;
  Compression kind_;
  const CompressedInputs& in_;
  std::int64_t entries_;
  bool is_frozen_ = false;
};

// Of what makes entries of heads of this size.
std::int64_t entry_parameters(const CompressedAttention& a, Compression kind, std::int64_t d_model, std::int64_t size) {
  const std::int64_t wide = checked_product({kind == Compression::overlapping ? 2 : 1, size}, kCompressedCount);
  return checked_sum({checked_product({2, wide, d_model}, kCompressedCount),
                      checked_product({a.rate(kind), wide}, kCompressedCount), size},
                     kCompressedCount);
}

}  // namespace

std::int64_t compressed_indexer_parameters(const CompressedAttention& a, std::int64_t d_model) {
  const std::int64_t of_head =
      checked_sum({checked_product({a.index_size, a.q_rank}, kCompressedCount), d_model}, kCompressedCount);
  return checked_sum({entry_parameters(a, Compression::overlapping, d_model, a.index_size),
                      checked_product({a.index_heads, of_head}, kCompressedCount)},
                     kCompressedCount);
}

std::int64_t compressed_attention_parameters(const CompressedAttention& a, Compression kind, std::int64_t d_model,
                                             std::int64_t heads, std::int64_t size) {
  const std::int64_t queries = checked_product({heads, size}, kCompressedCount);
  const std::int64_t low = checked_product({a.groups, a.group_rank}, kCompressedCount);
  std::int64_t count = checked_sum(
      {checked_product({a.q_rank, checked_sum({d_model, queries, 1}, kCompressedCount)}, kCompressedCount),
       checked_product({size, d_model}, kCompressedCount), size, heads,
       checked_product({a.group_rank, queries}, kCompressedCount), checked_product({low, d_model}, kCompressedCount)},
      kCompressedCount);
  if (kind == Compression::none) return count;
  count = checked_sum({count, entry_parameters(a, kind, d_model, size)}, kCompressedCount);
  return kind == Compression::heavy ? count
                                    : checked_sum({count, compressed_indexer_parameters(a, d_model)}, kCompressedCount);
}

Value build_compressed_attention(Graph& graph, const CompressedAttention& made_of, Compression kind,
                                 const CompressedInputs& inputs) {
  return CompressedBuilder(graph, made_of, kind, inputs).build();
}

}  // namespace ridgepoint
