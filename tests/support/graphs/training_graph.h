// Training graphs of the models, for tests of later passes.
#pragma once

#include <utility>

#include "models/toy_model.h"
#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/ops/compile.h"

namespace ridgepoint::testing {

inline Graph transformer_graph(const TransformerConfig& config, std::int64_t batch, Mode mode,
                               CompileOptions options = {}) {
  options.mode = mode;
  return training_graph(build_transformer(config, batch), options);
}

inline Graph toy_graph(Precision precision = Precision::fp32) {
  return training_graph(build_toy_model({}), {.mode = Mode::forward_backward, .precision = precision});
}

inline Graph attention_graph(const AttentionProblem& problem, Mode mode) {
  return training_graph(build_attention_problem(problem), compile_options(problem, mode));
}

}  // namespace ridgepoint::testing
