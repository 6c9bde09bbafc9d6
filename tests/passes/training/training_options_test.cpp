// What a step trains and keeps: frozen parameters, adapters, bf16 parameters, 8-bit moments, SGD. Memory is in
// run/session/plan_run_test.cpp.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "ir/queries.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TransformerConfig kSmallModel{"custom", 50, 8, 256, 256, 2, 4};

std::set<std::string> inputs_of(const Graph& graph) {
  std::set<std::string> names;
  for (const NodeId id : graph.inputs()) names.insert(input_name(graph.node(id)));
  return names;
}

Graph step_of(CompileOptions options) {
  return testing::transformer_graph(kSmallModel, 2, Mode::step, std::move(options));
}

TEST(Frozen, parameters_have_neither_gradients_nor_states) {
  const Graph graph = step_of({.keep = {.gradients = true}, .frozen = {"token_embeddings", "layers.0"}});
  const std::set<std::string> inputs = inputs_of(graph);
  EXPECT_THAT(inputs, Contains("token_embeddings.weight"));
  EXPECT_THAT(inputs, Not(Contains("optimizer.first_moment.token_embeddings.weight")));
  EXPECT_THAT(inputs, Not(Contains("optimizer.second_moment.layers.0.ffn.w1.weight")));
  EXPECT_THAT(inputs, Contains("optimizer.first_moment.layers.1.ffn.w1.weight"));
  EXPECT_EQ(graph.find_output("grad.layers.0.ln1.weight"), std::nullopt);
  EXPECT_NE(graph.find_output("grad.layers.1.ln1.weight"), std::nullopt);
}

// With the embedding and the first layer frozen, nothing below the second layer needs a gradient.
TEST(Frozen, parameters_at_the_bottom_end_the_backward_pass) {
  const ProgramPlan plan(build_transformer(kSmallModel, 2), open_device("cpu"),
                         {.compile = {.mode = Mode::step, .frozen = {"token_embeddings", "layers.0"}}});
  const Graph& graph = plan.graph();
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::backward) continue;
    EXPECT_NE(node.op, Op::embedding_backward);
    EXPECT_FALSE(graph.scope_name(node).starts_with("layers.0")) << name(node.op) << graph.scope_name(node);
  }
}

// Compiled, the kernel of a norm's derivative leaves out the gradient of a frozen weight.
TEST(Frozen, norms_have_no_gradients_of_their_weights_where_nodes_are_fused) {
  for (const std::vector<std::string>& frozen : {std::vector<std::string>{}, {"ln*"}}) {
    const ProgramPlan plan(build_transformer(kSmallModel, 2), open_device("cpu"),
                           {.compile = {.mode = Mode::forward_backward, .level = Compile::fuse, .frozen = frozen}});
    const Graph& graph = plan.graph();
    const auto count = std::ranges::count_if(graph.order(), [&](NodeId id) {
      const Node& node = graph.node(id);
      return node.phase == Phase::backward && std::ranges::any_of(node.outputs, [&](Value value) {
               return graph.type(value).shape == Shape{kSmallModel.d_model};
             });
    });
    EXPECT_EQ(count, frozen.empty() ? 5 : 0);
  }
}

TEST(Frozen, may_not_be_all) {
  EXPECT_THAT(error_of([] { step_of({.frozen = {"*"}}); }), HasSubstr("every parameter is frozen"));
  EXPECT_THAT(error_of([] { step_of({.frozen = {"lm_haed"}}); }), HasSubstr("did you mean 'lm_head'?"));
}

// Trained parameters have the values that they have without frozen ones in the first step.
TEST(Frozen, leaves_the_other_gradients_as_they_are) {
  const Transformer workload(kSmallModel, 2);
  const auto gradient = [&](std::vector<std::string> frozen, Compile level) {
    Program program(workload.build(), open_device("cpu"),
                    {.compile = {.mode = Mode::forward_backward, .level = level, .frozen = std::move(frozen)}});
    initialise(program, workload, 3);
    program.run();
    return program.read_output("grad.layers.0.attn.k_proj.weight");
  };
  for (const Compile level : {Compile::off, Compile::fuse}) {
    const HostTensor all = gradient({}, level);
    EXPECT_LT(testing::relative_error(gradient({"token_embeddings", "q_proj", "ln2"}, level), all), 1e-6);
  }
}

TEST(Lora, trains_adapters_alone) {
  const Graph graph = step_of({.lora = LoraOptions{.rank = 4, .alpha = 8}});
  std::set<std::string> trained;
  for (const Update& update : graph.updates()) {
    const Node& node = graph.producer_node(update.input);
    if (input_role(node) == Role::parameter) trained.insert(input_name(node));
  }
  EXPECT_EQ(trained.size(), 8U);  // A and B of two projections in two layers
  EXPECT_THAT(trained, Each(HasSubstr(".lora_")));
  EXPECT_EQ(graph.type(*graph.find_input("layers.1.attn.v_proj.lora_A.weight")).shape, (Shape{4, 256}));
  EXPECT_EQ(graph.type(*graph.find_input("layers.1.attn.v_proj.lora_B.weight")).shape, (Shape{256, 4}));
  EXPECT_THAT(inputs_of(graph), Not(Contains("optimizer.first_moment.lm_head.weight")));
}

TEST(Lora, counts_its_parameters) {
  const ParameterCounts counts =
      count_parameters(build_transformer(kSmallModel, 2), {.lora = LoraOptions{.rank = 4, .alpha = 8}});
  EXPECT_EQ(counts.trainable, 2 * 2 * 4 * (256 + 256));
  EXPECT_EQ(counts.all, parameter_count(kSmallModel) + counts.trainable);
}

const PublishedLayer kPacked{"model.layers.1.self_attn.qkv_proj",
                             {"layers.1.attn.q_proj", "layers.1.attn.k_proj", "layers.1.attn.v_proj"}};

TEST(Lora, gives_layers_that_are_published_as_one_a_pair_of_adapters) {
  const Graph graph = step_of({.lora = LoraOptions{.rank = 4, .targets = {"qkv_proj"}, .published = {kPacked}}});
  EXPECT_EQ(graph.type(*graph.find_input("layers.1.attn.qkv_proj.lora_A.weight")).shape, (Shape{4, 256}));
  EXPECT_EQ(graph.type(*graph.find_input("layers.1.attn.qkv_proj.lora_B.weight")).shape, (Shape{768, 4}));
  const std::set<std::string> inputs = inputs_of(graph);
  EXPECT_EQ(std::ranges::count_if(inputs, [](const std::string& name) { return name.find(".lora_") != name.npos; }),
            2 * 3);
}

TEST(Lora, finds_a_published_layer_of_one_module_under_either_name) {
  const PublishedLayer down{"model.layers.0.mlp.down_proj", {"layers.0.ffn.w2"}};
  const Graph graph =
      step_of({.lora = LoraOptions{.rank = 4, .targets = {"down_proj", "layers.0.ffn.w2"}, .published = {down}}});
  EXPECT_THAT(inputs_of(graph), Contains("layers.0.ffn.w2.lora_A.weight"));
}

TEST(Lora, targets_modules_of_the_graph_before_published_ones) {
  const Graph graph = step_of({.lora = LoraOptions{.rank = 4, .targets = {"layers.1"}, .published = {kPacked}}});
  EXPECT_THAT(inputs_of(graph), AllOf(Contains("layers.1.attn.k_proj.lora_A.weight"),
                                      Not(Contains("layers.1.attn.qkv_proj.lora_A.weight"))));
}

TEST(Lora, refuses_a_layer_beside_what_packs_it) {
  EXPECT_THAT(error_of([] {
                step_of({.lora = LoraOptions{.targets = {"q_proj", "qkv_proj"}, .published = {kPacked}}});
              }),
              HasSubstr("both change layers.1.attn.q_proj; give one of the two"));
  EXPECT_THAT(error_of([] { step_of({.lora = LoraOptions{.targets = {"qkv_prj"}, .published = {kPacked}}}); }),
              HasSubstr("did you mean 'qkv_proj'?"));
}

class LoraOn : public ::testing::TestWithParam<Compile> {
 protected:
  Program program(Mode mode, std::optional<LoraOptions> lora, const char* device = "cpu") {
    Program made(workload_.build(), open_device(device),
                 {.compile = {.mode = mode, .level = GetParam(), .lora = std::move(lora)}});
    initialise(made, workload_, 3);
    return made;
  }

  // The rows of B are those of the modules of the pair one after another, as those of a packed weight are.
  void expect_change_of_weights(const LoraOptions& lora, const std::string& pair,
                                const std::vector<std::string>& modules) {
    Program plain = program(Mode::forward, {});
    Program adapted = program(Mode::forward, lora);
    adapted.write_random(pair + ".lora_B.weight", {.deviation = 0.1}, 9);
    const HostTensor a = adapted.read_input(pair + ".lora_A.weight");
    const HostTensor b = adapted.read_input(pair + ".lora_B.weight");
    std::size_t first_row = 0;
    for (const std::string& module : modules) {
      HostTensor weight = plain.read_input(module + ".weight");
      for (std::size_t row = 0; row < 256; ++row) {
        for (std::size_t i = 0; i < 4; ++i) {
          const float scaled = 2 * b.as<float>()[(first_row + row) * 4 + i];
          for (std::size_t column = 0; column < 256; ++column)
            weight.as<float>()[row * 256 + column] += scaled * a.as<float>()[i * 256 + column];
        }
      }
      plain.write_input(module + ".weight", weight);
      first_row += 256;
    }
    plain.run();
    adapted.run();
    EXPECT_LT(testing::relative_error(adapted.read_output("logits"), plain.read_output("logits")), 1e-5);
  }

  void expect_steps_of_the_reference(const LoraOptions& lora, const std::string& pair, const char* matrix) {
    const auto after = [&](const char* device) {
      Program made = program(Mode::step, lora, device);
      made.write_random(pair + ".lora_B.weight", {.deviation = 0.1}, 9);
      for (int i = 0; i < 2; ++i) made.run();
      return made.read_input(pair + matrix);
    };
    EXPECT_LT(testing::relative_error(after("cpu"), after("reference")), 1e-3) << matrix;
  }

  const Transformer workload_{kSmallModel, 2};
  const LoraOptions lora_{.rank = 4, .alpha = 8, .targets = {"q_proj", "w2"}};
  const LoraOptions packed_{.rank = 4, .alpha = 8, .targets = {"qkv_proj"}, .published = {kPacked}};
};

TEST_P(LoraOn, begins_as_the_model_itself) {
  Program plain = program(Mode::forward, {});
  Program adapted = program(Mode::forward, lora_);
  plain.run();
  adapted.run();
  EXPECT_LT(testing::relative_error(adapted.read_output("logits"), plain.read_output("logits")), 1e-6);
}

// x W^T + (alpha / r) (x A^T) B^T is a linear layer with the weight W + (alpha / r) B A.
TEST_P(LoraOn, is_a_change_of_the_weight_by_the_product_of_its_adapters) {
  expect_change_of_weights(lora_, "layers.1.ffn.w2", {{"layers.1.ffn.w2"}});
}

TEST_P(LoraOn, of_a_packed_layer_is_a_change_of_each_weight_by_its_rows) {
  expect_change_of_weights(packed_, "layers.1.attn.qkv_proj", kPacked.modules);
}

TEST_P(LoraOn, of_a_packed_layer_steps_as_the_reference_does) {
  for (const char* matrix : {".lora_A.weight", ".lora_B.weight"})
    expect_steps_of_the_reference(packed_, "layers.1.attn.qkv_proj", matrix);
}

TEST_P(LoraOn, steps_as_the_reference_does) {
  expect_steps_of_the_reference(lora_, "layers.0.attn.q_proj", ".lora_A.weight");
}

INSTANTIATE_TEST_SUITE_P(Levels, LoraOn, ::testing::Values(Compile::off, Compile::fuse),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST(LoraText, reads_back) {
  const LoraOptions options = lora_from_text("r=16,alpha=32,targets=q_proj,v_proj");
  EXPECT_EQ(options.rank, 16);
  EXPECT_EQ(options.alpha, 32);
  EXPECT_EQ(to_text(options), "r=16,alpha=32,targets=q_proj,v_proj");
  EXPECT_EQ(to_text(lora_from_text("targets=w1,r=2")), "r=2,alpha=2,targets=w1");
}

TEST(LoraText, names_what_is_wrong) {
  const auto expect = [](const char* text, const char* why) {
    EXPECT_THAT(error_of([&] { lora_from_text(text); }), HasSubstr(why)) << text;
  };
  expect("r=0", "the rank is at least 1");
  expect("r=4,alpha=8,r=8", "r is given twice");
  expect("r=-4", "the rank is at least 1");
  expect("r=four", "'four' is not a whole number");
  expect("alpha=0", "alpha: 0 is out of range");
  expect("rank=4", "unknown key 'rank'");
  expect("q_proj", "'q_proj' is no KEY=VALUE");
  expect("targets=", "an empty name");
  EXPECT_THAT(error_of([] { step_of({.lora = LoraOptions{.targets = {"q_prj"}}}); }),
              HasSubstr("no linear layer matches 'q_prj'; did you mean 'q_proj'?"));
  EXPECT_THAT(error_of([] { step_of({.lora = LoraOptions{.targets = {"ln1"}}}); }),
              HasSubstr("no linear layer matches 'ln1'"));
}

TEST(Lora, says_what_a_model_without_the_usual_targets_has) {
  TransformerConfig config = kSmallModel;
  config.architecture.mixers = {Mixer::short_convolution};
  EXPECT_THAT(error_of([&] { testing::transformer_graph(config, 2, Mode::step, {.lora = LoraOptions{}}); }),
              AllOf(HasSubstr("the model lacks q_proj or v_proj, the targets where none are given"),
                    HasSubstr("name others with targets=: it has"), HasSubstr("output_proj")));
}

TEST(MasterWeights, off_stores_everything_of_a_parameter_in_bf16) {
  const Graph graph = step_of({.precision = Precision::bf16, .keep = {.gradients = true}, .master_weights = false});
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    const std::string& name = input_name(node);
    const bool is_of_parameter =
        input_role(node) == Role::parameter || name.starts_with("optimizer.f") || name.starts_with("optimizer.second");
    if (!is_of_parameter) continue;
    EXPECT_EQ(graph.type(node.outputs[0]).dtype, DType::bf16) << name;
  }
  for (const Output& output : graph.outputs()) {
    if (output.role != OutputRole::gradient) continue;
    EXPECT_EQ(graph.type(output.value).dtype, DType::bf16) << output.name;
  }
}

TEST(MasterWeights, off_needs_bf16) {
  EXPECT_THAT(error_of([] { step_of({.master_weights = false}); }), HasSubstr("need bf16 or fp8, not fp32"));
  EXPECT_THAT(error_of([] { step_of({.precision = Precision::fp16, .master_weights = false}); }),
              HasSubstr("need bf16 or fp8, not fp16"));
}

struct TrainedOn : ::testing::TestWithParam<Compile> {
  static float loss_after(const char* device, int steps, CompileOptions options) {
    const Transformer workload(kSmallModel, 2);
    options.mode = Mode::step;
    options.level = GetParam();
    Program program(workload.build(), open_device(device), {.compile = options});
    initialise(program, workload, 3);
    for (int i = 0; i < steps; ++i) program.run();
    return program.read_output("loss").as<float>()[0];
  }
};

TEST_P(TrainedOn, without_master_weights_agrees_with_the_reference) {
  const CompileOptions options{.precision = Precision::bf16, .master_weights = false};
  EXPECT_NEAR(loss_after("cpu", 3, options), loss_after("reference", 3, options), 0.03);
}

TEST_P(TrainedOn, with_another_optimizer_agrees_with_the_reference) {
  const std::pair<OptimizerOptions, double> cases[] = {
      {{Optimizer::sgd, {{"learning_rate", 0.05}, {"momentum", 0.9}, {"weight_decay", 0.01}}}, 1e-4},
      {{Optimizer::lion, {{"learning_rate", 0.002}, {"weight_decay", 0.01}}}, 1e-3}};
  for (const auto& [optimizer, bound] : cases) {
    const float after_six = loss_after("cpu", 6, {.optimizer = optimizer});
    EXPECT_NEAR(after_six, loss_after("reference", 6, {.optimizer = optimizer}), bound) << name(optimizer.kind);
    EXPECT_LT(after_six, loss_after("cpu", 1, {.optimizer = optimizer}) - 0.05) << name(optimizer.kind);
  }
}

// fp16 skips the step whose scaled gradients overflow, so no parameter changes.
TEST_P(TrainedOn, with_sgd_skips_a_step_that_is_not_finite) {
  const CompileOptions options{
      .precision = Precision::fp16, .optimizer = {.kind = Optimizer::sgd}, .loss_scaling = {.initial_scale = 1e30}};
  EXPECT_EQ(loss_after("cpu", 2, options), loss_after("cpu", 1, options));
}

TEST_P(TrainedOn, with_8_bit_moments_agrees_with_the_reference) {
  const CompileOptions options{.optimizer = {.kind = Optimizer::adamw_8bit}};
  EXPECT_NEAR(loss_after("cpu", 5, options), loss_after("reference", 5, options), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Levels, TrainedOn, ::testing::Values(Compile::off, Compile::fuse),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST(EightBitMoments, are_those_of_rows_in_blocks_of_256) {
  const Graph graph = step_of({.optimizer = {.kind = Optimizer::adamw_8bit}});
  const auto type = [&](const char* name) { return graph.type(*graph.find_input(name)).to_string(); };
  EXPECT_EQ(type("optimizer.first_moment.layers.0.ffn.w1.weight"), "dynamic8[F256,D256]");
  EXPECT_EQ(type("optimizer.second_moment.layers.0.ffn.w1.weight"), "udynamic8[F256,D256]");
  EXPECT_EQ(type("optimizer.first_moment_scales.layers.0.ffn.w1.weight"), "fp32[F256,D1]");
  TransformerConfig odd = kSmallModel;
  odd.d_ff = 100;
  const Graph other = testing::transformer_graph(odd, 2, Mode::step, {.optimizer = {.kind = Optimizer::adamw_8bit}});
  EXPECT_EQ(other.type(*other.find_input("optimizer.first_moment.layers.0.ffn.w2.weight")).dtype, DType::fp32);
}

TEST(EightBitMoments, of_wide_parameters_are_updated_by_one_kernel_each) {
  TransformerConfig wide = kSmallModel;
  wide.d_model = wide.d_ff = 512;
  const ProgramPlan plan(build_transformer(wide, 2), open_device("cpu"),
                         {.compile = {.mode = Mode::step, .optimizer = {.kind = Optimizer::adamw_8bit}}});
  const Graph& graph = plan.graph();
  std::size_t updates = 0;
  for (const NodeId id : graph.order()) updates += graph.node(id).op == Op::adamw_8bit ? 1 : 0;
  EXPECT_EQ(updates, graph.inputs(Role::parameter).size());
}

}  // namespace
}  // namespace ridgepoint
