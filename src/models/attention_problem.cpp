#include "models/attention_problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/checked.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(message, ErrorKind::usage); }

Shape operand_shape(const AttentionProblem& p, std::int64_t rows) {
  const char label = rows == p.queries ? 'S' : 'K';
  return {{p.batch, 'B'}, {p.heads, 'H'}, {rows, label}, {p.head_size(), 'D'}};
}

}  // namespace

void validate(const AttentionProblem& p) {
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
  if (p.causal && p.queries != p.keys) {
    fail("causal attention needs as many queries (--sequence " + std::to_string(p.queries) + ") as keys (--keys " +
         std::to_string(p.keys) + ")");
  }
  // The bounds are generous: the widest dtype, and more operations for each score than any variant counts (14 D in
  // seven products, and under 32 elementwise), so that no later size or count can overflow.
  constexpr std::int64_t kWidestBytes = 8;
  checked_product({kWidestBytes, p.batch, p.d_model, std::max(p.queries, p.keys)}, "the size of q, k and v");
  checked_product({kWidestBytes, p.batch, p.heads, p.queries, p.keys}, "the size of the scores");
  checked_product({p.batch, p.heads, p.queries, p.keys, 16 * p.head_size() + 32}, "the number of operations");
}

double forward_flops(const AttentionProblem& p) {
  const double products =
      4.0 * static_cast<double>(p.batch * p.d_model) * static_cast<double>(p.queries) * static_cast<double>(p.keys);
  return p.causal ? products / 2 : products;
}

double backward_flops(const AttentionProblem& problem) { return 2.5 * forward_flops(problem); }

Graph build_attention_problem(const AttentionProblem& problem) {
  validate(problem);
  Graph graph;
  graph.name = "attention." + std::string(name(problem.variant));
  const DType dtype = matmul_dtype(problem.precision);
  const Value q = input(graph, "q", {dtype, operand_shape(problem, problem.queries)}, Role::data);
  const Value k = input(graph, "k", {dtype, operand_shape(problem, problem.keys)}, Role::data);
  const Value v = input(graph, "v", {dtype, operand_shape(problem, problem.keys)}, Role::data);
  graph.add_output("o", build_attention(graph, problem.variant, q, k, v, problem.causal));
  return graph;
}

CompileOptions compile_options(const AttentionProblem& problem, Mode mode) {
  return {.mode = mode, .precision = problem.precision};
}

AttentionCall::AttentionCall(AttentionProblem problem) : problem_(problem) { validate(problem_); }

WorkloadDescription AttentionCall::describe() const {
  return {.model = {.d_model = problem_.d_model, .heads = problem_.heads},
          .batch = problem_.batch,
          .context = problem_.queries,
          .attention = problem_.variant};
}

std::int64_t AttentionCall::flops(Mode mode) const {
  const double backward = runs_backward(mode) ? backward_flops(problem_) : 0.0;
  return static_cast<std::int64_t>(forward_flops(problem_) + backward);
}

}  // namespace ridgepoint
