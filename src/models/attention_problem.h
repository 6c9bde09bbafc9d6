// One call of attention by itself, forward alone or with its derivative: what `ridgepoint attention` measures.
#pragma once

#include <cstdint>

#include "models/attention.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/precision.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

struct AttentionProblem {
  std::int64_t batch = 8;
  std::int64_t heads = 1;
  std::int64_t d_model = 64;  // of all heads together
  std::int64_t queries = 256;
  std::int64_t keys = 256;
  bool causal = false;
  AttentionVariant variant = AttentionVariant::composite;
  Precision precision = Precision::fp32;

  std::int64_t head_size() const { return d_model / heads; }
};

// Throws Error (usage): sizes not positive, heads not dividing d_model, causal with unequal lengths, operands or
// scores whose size overflows.
void validate(const AttentionProblem& problem);

// 4 B H S K D for S queries, K keys and heads of size D (two products of 2 B H S K D), half of that where causal:
// the convention of published figures, whatever the variant computes. A backward pass is counted as 2.5 times that.
double forward_flops(const AttentionProblem& problem);
double backward_flops(const AttentionProblem& problem);

// The forward graph: inputs "q" [B,H,S,D], "k" and "v" [B,H,K,D] of matmul_dtype(precision), output "o" [B,H,S,D]. Mode
// backward adds the input "grad.o", of the shape and type of o, and the outputs "grad.q", "grad.k", "grad.v".
Graph build_attention_problem(const AttentionProblem& problem);

// The types that the problem asks for, in `mode`.
CompileOptions compile_options(const AttentionProblem& problem, Mode mode);

class AttentionCall final : public Workload {
 public:
  // Throws Error (usage) as validate() does.
  explicit AttentionCall(AttentionProblem problem);

  const AttentionProblem& problem() const { return problem_; }

  WorkloadDescription describe() const override;
  Graph build(const StopPoint& = {}) const override { return build_attention_problem(problem_); }
  std::string_view unit() const override { return "calls"; }
  // By the convention of forward_flops() and backward_flops().
  std::int64_t flops(Mode mode) const override;

 private:
  AttentionProblem problem_;
};

}  // namespace ridgepoint
