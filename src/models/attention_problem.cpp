#include "models/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/checked.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(message, ErrorKind::usage); }

Shape query_shape(const AttentionProblem& p) {
  return {{p.batch, 'B'}, {p.heads, 'H'}, {p.queries, 'S'}, {p.head_size(), 'D'}};
}
Shape key_shape(const AttentionProblem& p) {
  const Dim heads(p.key_heads(), p.key_heads() == p.heads ? 'H' : 'N');
  return {{p.batch, 'B'}, heads, {p.keys, p.keys == p.queries ? 'S' : 'K'}, {p.head_size(), 'D'}};
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
  graph.add_output("o", build_attention(graph, problem.variant, q, k, v,
                                        {.scale = 1.0 / std::sqrt(static_cast<double>(problem.head_size())),
                                         .causal = problem.causal,
                                         .window = problem.has_window() ? problem.window : 0,
                                         .soft_cap = problem.soft_cap}));
  return graph;
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

}  // namespace ridgepoint
