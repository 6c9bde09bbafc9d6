// Activation checkpointing on the GPU: gradients are those of a run that saves everything, also where the kernel of a
// product computes what follows it again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "backends/cuda/card.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

struct OnCardRecomputation : testing::OnCard {
  using Gradients = std::map<std::string, HostTensor>;

  Gradients gradients(const TransformerConfig& config, CompileOptions options) const {
    const Transformer model(config, 4);
    options.mode = Mode::forward_backward;
    Program program(model.build(), device_, {.compile = options});
    initialise(program, model, 0);
    program.run();
    program.synchronize();
    Gradients found;
    for (const Output& output : program.graph().outputs()) {
      if (output.role == OutputRole::gradient) found[output.name] = program.read_output(output.name);
    }
    return found;
  }
};

// Fused nodes round low values where they write them, and recomputed values are fused otherwise.
TEST_F(OnCardRecomputation, keeps_the_gradients) {
  TransformerConfig config = transformer_preset("large");
  config.layers = 3;
  config.context = 512;
  config.attention = AttentionVariant::flash;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const Compile level : {Compile::off, Compile::full}) {
      const Gradients saved = gradients(config, {.precision = precision, .level = level});
      ASSERT_FALSE(saved.empty());
      for (const Checkpoint policy : {Checkpoint::selective, Checkpoint::block}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(policy), name(precision), name(level)));
        const Gradients again = gradients(config, {.precision = precision, .level = level, .checkpoint = policy});
        const double most = precision == Precision::fp32 ? 1e-6 : level == Compile::off ? 0 : 0.01;
        for (const auto& [name, gradient] : saved)
          EXPECT_LE(testing::relative_error(again.at(name), gradient), most) << name;
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
