// Training in low precision follows training in fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "models/transformer/transformer.h"
#include "support/graphs/training_graph.h"

namespace ridgepoint {
namespace {

// A language of which half can be learned: every second token depends on the previous one.
class Language {
 public:
  explicit Language(std::int64_t vocab) : vocab_(vocab) {}

  void write_batch(Program& program) {
    const TensorType type = program.graph().type(*program.graph().find_input("inputs"));
    HostTensor inputs(type);
    HostTensor targets(type);
    std::int64_t token = draw();
    for (std::size_t i = 0; i < inputs.as<std::int64_t>().size(); ++i) {
      inputs.as<std::int64_t>()[i] = token;
      token = generator_() % 2 == 0 ? (token * 7 + 3) % vocab_ : draw();
      targets.as<std::int64_t>()[i] = token;
    }
    program.write_input("inputs", inputs);
    program.write_input("targets", targets);
  }

 private:
  std::int64_t draw() { return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(vocab_)); }
  std::int64_t vocab_;
  std::mt19937_64 generator_{5};
};

std::vector<double> losses(const TransformerConfig& config, std::int64_t batch, Precision precision, int steps) {
  Program program(testing::transformer_graph(config, batch, Mode::step, {.precision = precision}), open_device("cpu"));
  initialise(program, Transformer(config, batch), 1);
  Language language(config.vocab);
  std::vector<double> curve;
  for (int i = 0; i < steps; ++i) {
    language.write_batch(program);
    program.run();
    const HostTensor loss = program.read_output("loss");
    curve.push_back(loss.as<float>()[0]);
  }
  return curve;
}

TEST(LossCurve, of_bf16_stays_within_a_hundredth_of_fp32_over_200_steps) {
  TransformerConfig config = transformer_preset("tiny");
  config.vocab = 300;
  config.context = 32;
  const std::vector<double> full = losses(config, 4, Precision::fp32, 200);
  const std::vector<double> low = losses(config, 4, Precision::bf16, 200);
  double worst = 0;
  for (std::size_t i = 0; i < full.size(); ++i) worst = std::max(worst, std::abs(low[i] - full[i]) / full[i]);
  EXPECT_LT(worst, 0.01);
  EXPECT_LT(full.back(), 0.8 * full.front());  // it learned
}

}  // namespace
}  // namespace ridgepoint
