// Runs one call of attention on given tensors and keeps its results for a comparison.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "models/transformer/attention.h"
#include "ridgepoint/ir/tensor.h"
#include "run/session/session.h"

namespace ridgepoint {

// `inputs`: q, k and v as build_attention_problem() has them, and do, the gradient of o, for a run with backward. The
// results are o, lse [B,H,S], and with backward dq, dk and dv: fp64 on the reference device, which then computes in
// fp64 alone, else fp32. Device and compilation come from `config`. Throws Error; empty if the watcher stopped it.
std::optional<std::map<std::string, HostTensor>> run_attention(RunConfig config, const AttentionProblem& problem,
                                                               const std::map<std::string, HostTensor>& inputs,
                                                               const StepWatcher& watch = {});

}  // namespace ridgepoint
