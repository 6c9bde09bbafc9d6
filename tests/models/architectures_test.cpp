// Transformers whose layers are made of other things than those of docs/model.md.
#include "support/graphs/architectures.h"

#include <cmath>
#include <random>

#include "ridgepoint/core/error.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kBatch = 3;

// The loss, the logits and the gradients of a run with initial values in which nothing is 0 or 1.
Tensors results(const TransformerConfig& config, const std::string& device, const CompileOptions& options = {},
                const Tensors& parameters = {}) {
  CompileOptions chosen = options;
  chosen.mode = Mode::forward_backward;
  chosen.keep.results = true;
  Program program(build_transformer(config, kBatch), open_device(device), {.compile = chosen});
  const Transformer workload(config, kBatch);
  initialise(program, workload, 3);
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    const auto given = parameters.find(parameter.name);
    if (given != parameters.end()) {
      program.write_input(parameter.name, given->second);
      continue;
    }
    HostTensor value = workload.initial_value(parameter, 3);
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0, 0.1F);
    for (float& x : value.as<float>()) x += noise(random);
    program.write_input(parameter.name, value);
  }
  program.run();
  Tensors found;
  for (const Output& output : program.graph().outputs()) found.emplace(output.name, program.read_output(output.name));
  return found;
}

double norm(const HostTensor& tensor) {
  double sum = 0;
  for (const float x : tensor.as<float>()) sum += double{x} * x;
  return std::sqrt(sum);
}

// Without rotary embedding a bias of the keys adds one number to all scores of a query, so its gradient is 0 but for
// rounding.
bool is_only_rounding(const Tensors& all, const std::string& name) {
  const std::size_t at = name.find("k_proj.bias");
  if (at == std::string::npos) return false;
  const std::string queries = std::string(name).replace(at, 1, "q");
  return norm(all.at(name)) < 1e-5 * norm(all.at(queries));
}

void expect_same(const Tensors& found, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (const auto& [name, tensor] : expected) {
    if (is_only_rounding(expected, name) && is_only_rounding(found, name)) continue;
    EXPECT_LT(testing::relative_error(found.at(name), tensor), tolerance) << what << ' ' << name;
  }
}

TEST(Architectures, hold_the_parameters_that_are_counted) {
  for (const TransformerConfig& config : testing::architectures()) {
    std::int64_t elements = 0;
    for (const ParameterDeclaration& parameter : parameters_of(Transformer(config, 1)))
      elements += parameter.type.elements();
    EXPECT_EQ(elements, parameter_count(config)) << config.name;
  }
}

TEST(Architectures, freeze_the_parameters_of_indexers_alone) {
  for (const TransformerConfig& config : testing::architectures()) {
    const ParameterCounts counts = count_parameters(build_transformer(config, 1), {.mode = Mode::forward_backward});
    EXPECT_EQ(counts.all, parameter_count(config)) << config.name;
    EXPECT_EQ(counts.all - counts.trainable, frozen_parameter_count(config)) << config.name;
    const bool has_indexer =
        config.name == "chosen_keys" || config.name == "chosen_blocks" || config.name == "compressed_keys";
    EXPECT_EQ(frozen_parameter_count(config) > 0, has_indexer) << config.name;
  }
}

// With the values that both have, in a context of 13 keys.
TEST(Architectures, attend_to_everything_where_an_indexer_keeps_all) {
  TransformerConfig config = testing::small_transformer("chosen", {});
  config.architecture.head_size = 10;
  config.architecture.rotary.share = 0.4;
  config.architecture.latent = {.kv_rank = 9, .q_rank = 11, .rotated = 4, .value_size = 7};
  const HostTensor plain = results(config, "cpu").at("loss");
  config.architecture.selection = {.heads = 2, .head_size = 6, .rotated = 4, .kept = 13};
  EXPECT_EQ(results(config, "cpu").at("loss").data, plain.data);
  config.architecture.selection.kept = 3;
  EXPECT_NE(results(config, "cpu").at("loss").data, plain.data);
}

TEST(Architectures, agree_with_the_double_precision_reference_eager_and_compiled) {
  for (TransformerConfig config : testing::architectures()) {
    const Tensors expected = results(config, "reference");
    for (const AttentionVariant variant : {AttentionVariant::composite, AttentionVariant::flash}) {
      config.attention = variant;
      for (const Compile level : kAllCompiles) {
        const Tensors found = results(config, "cpu", {.level = level});
        expect_same(found, expected, 1e-5,
                    config.name + ' ' + std::string(name(variant)) + ' ' + std::string(name(level)));
      }
    }
  }
}

TEST(Architectures, compute_the_same_with_checkpoints) {
  for (const TransformerConfig& config : testing::architectures()) {
    const Tensors expected = results(config, "cpu");
    for (const Checkpoint checkpoint : {Checkpoint::selective, Checkpoint::block}) {
      const Tensors found = results(config, "cpu", {.level = Compile::full, .checkpoint = checkpoint});
      expect_same(found, expected, 1e-5, config.name + ' ' + std::string(name(checkpoint)));
    }
  }
}

TEST(Architectures, run_in_bf16) {
  for (const TransformerConfig& config : testing::architectures()) {
    const double full = results(config, "cpu").at("loss").as<float>()[0];
    for (const Compile level : kAllCompiles) {
      const Tensors found = results(config, "cpu", {.precision = Precision::bf16, .level = level});
      EXPECT_NEAR(found.at("loss").as<float>()[0], full, 0.02 * full) << config.name;
    }
  }
}

// Weights of `heads` key heads that repeat those of `weight`, [heads * width, D].
HostTensor repeated_heads(const HostTensor& weight, std::int64_t width, std::int64_t group) {
  const std::int64_t row = weight.type.shape[1];
  HostTensor repeated({DType::fp32, {weight.type.shape[0] * group, row}});
  for (std::int64_t i = 0; i < repeated.type.shape[0]; ++i) {
    const std::int64_t from = i / (width * group) * width + i % width;
    std::copy_n(weight.as<float>().begin() + from * row, row, repeated.as<float>().begin() + i * row);
  }
  return repeated;
}

TEST(GroupedHeads, are_heads_with_equal_keys_and_values) {
  const TransformerConfig grouped = testing::small_transformer("grouped", {.kv_heads = 2});
  const TransformerConfig plain = testing::small_transformer("plain", {});
  Tensors repeated;
  for (const ParameterDeclaration& parameter : parameters_of(Transformer(grouped, 1))) {
    HostTensor value = Transformer(grouped, 1).initial_value(parameter, 3);
    const bool is_key = parameter.name.find("k_proj") != std::string::npos;
    const bool is_value = parameter.name.find("v_proj") != std::string::npos;
    repeated.emplace(parameter.name, is_key || is_value ? repeated_heads(value, 6, 2) : value);
    repeated.emplace("grouped." + parameter.name, std::move(value));
  }
  Tensors own;
  for (const ParameterDeclaration& parameter : parameters_of(Transformer(grouped, 1)))
    own.emplace(parameter.name, repeated.at("grouped." + parameter.name));
  const Tensors expected = results(plain, "reference", {}, repeated);
  const Tensors found = results(grouped, "reference", {}, own);
  EXPECT_LT(testing::relative_error(found.at("logits"), expected.at("logits")), 1e-6);
  EXPECT_LT(testing::relative_error(found.at("grad.layers.0.attn.q_proj.weight"),
                                    expected.at("grad.layers.0.attn.q_proj.weight")),
            1e-6);
}

TEST(Window, changes_nothing_while_the_sequence_is_not_longer) {
  const auto with_window = [](std::int64_t window) {
    return results(testing::small_transformer("window", {.window = window}), "cpu");
  };
  const Tensors without = with_window(0);
  EXPECT_EQ(with_window(13).at("logits").data, without.at("logits").data);
  EXPECT_EQ(with_window(4000).at("logits").data, without.at("logits").data);
  EXPECT_NE(with_window(12).at("logits").data, without.at("logits").data);
}

TEST(TiedHead, has_the_sum_of_both_gradients) {
  const TransformerConfig tied = testing::small_transformer("tied", {.tied_head = true});
  const TransformerConfig untied = testing::small_transformer("untied", {});
  Tensors parameters;
  for (const ParameterDeclaration& parameter : parameters_of(Transformer(tied, 1)))
    parameters.emplace(parameter.name, Transformer(tied, 1).initial_value(parameter, 3));
  const Tensors found = results(tied, "reference", {}, parameters);
  parameters.emplace("lm_head.weight", parameters.at("token_embeddings.weight"));
  const Tensors expected = results(untied, "reference", {}, parameters);
  const std::span<const float> sum = found.at("grad.token_embeddings.weight").as<float>();
  const std::span<const float> rows = expected.at("grad.token_embeddings.weight").as<float>();
  const std::span<const float> head = expected.at("grad.lm_head.weight").as<float>();
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], rows[i] + head[i], 1e-6) << i;
}

TEST(RotaryFrequencies, of_llama3_keep_short_waves_and_stretch_long_ones) {
  const Rotary plain{.theta = 5e5};
  Rotary stretched = plain;
  stretched.scaling = RotaryScaling::llama3;
  stretched.factor = 8;
  const std::vector<double> before = rotary_frequencies(plain, 128);
  const std::vector<double> after = rotary_frequencies(stretched, 128);
  EXPECT_DOUBLE_EQ(after.front(), before.front());
  EXPECT_DOUBLE_EQ(after.back(), before.back() / 8);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double wavelength = 2 * M_PI / before[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_DOUBLE_EQ(after[i], before[i]);
    } else if (wavelength > 8192) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8);
    } else {
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8);
    }
  }
}

TEST(Architectures, refuse_heads_and_lengths_that_do_not_fit) {
  const auto refusal = [](const Architecture& architecture) {
    return error_of([&] { validate(testing::small_transformer("test", architecture), 1); }, ErrorKind::usage);
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.kv_heads = 3}), HasSubstr("3 heads of keys and values do not divide the 4"));
  EXPECT_THAT(refusal({.positions = Positions::learned, .max_context = 12}),
              HasSubstr("--context 13 is longer than the 12 learned positions"));
}

}  // namespace
}  // namespace ridgepoint
