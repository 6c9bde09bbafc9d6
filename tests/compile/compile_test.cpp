// The public interface of compilation: modes, fusion, names, and graphs that have a backward phase already.
#include "compile/compile.h"

#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

Graph attention_in_plain_ops() {
  Graph graph;
  const Value q = input(graph, "q", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value k = input(graph, "k", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value v = input(graph, "v", {DType::fp32, {2, 9, 4}}, Role::data);
  const Value scores = scale(graph, matmul(graph, q, transpose(graph, k, {0, 2, 1})), 0.5);
  graph.add_output("o", matmul(graph, softmax(graph, scores), v));
  return graph;
}

// y = sum(w x), with the loss (y - target)^2.
Graph model() {
  Graph graph;
  const Value w = input(graph, "w", {DType::fp32, {3}}, Role::parameter);
  const Value x = input(graph, "x", {DType::fp32, {3}}, Role::data);
  const Value y = reduce_sum(graph, mul(graph, w, x), {0});
  graph.add_output("y", y);
  graph.set_phase(Phase::loss);
  const Value target = input(graph, "target", {DType::fp32, {}}, Role::data);
  const Value difference = sub(graph, y, target);
  graph.add_output("loss", mul(graph, difference, difference), OutputRole::loss);
  graph.set_phase(Phase::forward);
  return graph;
}

std::vector<std::string> outputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.inputs()) names.push_back(input_name(graph.node(id)));
  return names;
}

Op maker_of_o(std::shared_ptr<Device> device, Compile how) {
  const ProgramPlan plan(attention_in_plain_ops(), std::move(device), {.compile = {.level = how}});
  return plan.graph().producer_node(*plan.graph().find_output("o")).op;
}

TEST(Fuse, gives_a_device_what_it_has_a_kernel_for) {
  EXPECT_EQ(maker_of_o(open_device("cpu"), Compile::fuse), Op::attention);
  EXPECT_EQ(maker_of_o(open_device("cpu"), Compile::off), Op::matmul);
}

TEST(Fuse, leaves_a_graph_for_a_device_without_kernels_as_it_is) {
  EXPECT_EQ(maker_of_o(open_device("reference"), Compile::fuse), Op::matmul);
}

TEST(Compile, has_names_that_read_back) {
  for (const Compile compile : kAllCompiles) EXPECT_EQ(compile_from_name(name(compile)), compile);
  for (const Mode mode : kAllModes) EXPECT_EQ(mode_from_name(name(mode)), mode);
  EXPECT_THAT(error_of([] { compile_from_name("fused"); }), HasSubstr("did you mean 'fuse'?"));
}

TEST(TrainingGraph, computes_no_loss_in_forward) {
  const Graph graph = training_graph(model(), {.mode = Mode::forward});
  EXPECT_THAT(outputs_of(graph), ElementsAre("y"));
  EXPECT_THAT(inputs_of(graph), ElementsAre("w", "x"));
}

TEST(TrainingGraph, has_the_loss_and_every_gradient_in_backward) {
  const Graph graph = training_graph(model(), {.mode = Mode::forward_backward});
  EXPECT_THAT(outputs_of(graph), ElementsAre("loss", "grad.w"));
  EXPECT_EQ(graph.outputs()[1].role, OutputRole::gradient);
  EXPECT_EQ(graph.outputs()[1].of, "w");
  EXPECT_TRUE(graph.updates().empty());
}

TEST(TrainingGraph, updates_every_parameter_in_a_step) {
  const Graph graph = training_graph(model(), {.mode = Mode::step});
  EXPECT_THAT(outputs_of(graph), ElementsAre("loss"));
  EXPECT_THAT(inputs_of(graph), ElementsAre("w", "x", "target", "optimizer.step", "optimizer.first_moment.w",
                                            "optimizer.second_moment.w"));
  EXPECT_EQ(graph.updates().size(), 4U);
}

TEST(TrainingGraph, keeps_the_outputs_of_keep_options) {
  const Graph graph = training_graph(model(), {.mode = Mode::step, .keep = {.results = true, .gradients = true}});
  EXPECT_THAT(outputs_of(graph), ElementsAre("y", "loss", "grad.w"));
}

TEST(TrainingGraph, takes_the_gradient_of_the_result_where_there_is_no_loss) {
  const Graph graph = training_graph(attention_in_plain_ops(), {.mode = Mode::forward_backward});
  EXPECT_THAT(outputs_of(graph), ElementsAre("o", "grad.q", "grad.k", "grad.v"));
  EXPECT_TRUE(graph.find_input("grad.o").has_value());
}

// d loss / d w = 2 (y - target) x, for any loss scale.
TEST(TrainingGraph, has_gradients_without_the_scale_of_the_loss) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    Program program(model(), open_device("reference"),
                    {.compile = {.mode = Mode::forward_backward, .precision = precision}});
    const auto write = [&](const char* name, TensorType type, std::initializer_list<float> values) {
      HostTensor tensor(std::move(type));
      std::copy(values.begin(), values.end(), tensor.as<float>().begin());
      program.write_input(name, tensor);
    };
    write("w", {DType::fp32, {3}}, {1, 2, 3});
    write("x", {DType::fp32, {3}}, {1, 0.5, 2});
    write("target", {DType::fp32, {}}, {7});
    if (precision == Precision::fp16) write("optimizer.loss_scale", {DType::fp32, {}}, {1024});
    program.run();
    EXPECT_EQ(program.read_output("loss").as<float>()[0], 1.0F);
    const HostTensor gradient = program.read_output("grad.w");
    EXPECT_THAT(std::vector<float>(gradient.as<float>().begin(), gradient.as<float>().end()), ElementsAre(2, 1, 4))
        << name(precision);
  }
}

TEST(TrainingGraph, says_when_there_is_nothing_to_differentiate) {
  Graph graph;
  input(graph, "x", {DType::int64, {3}}, Role::data);
  EXPECT_THAT(error_of([&] { training_graph(graph, {.mode = Mode::forward_backward}); }),
              HasSubstr("neither a loss nor a floating result"));
}

TEST(Compile, does_not_differentiate_a_training_graph_again) {
  Graph graph = model();
  graph.add_output("dw", differentiate(graph, *graph.find_loss(), std::array{*graph.find_input("w")})[0]);
  const ProgramPlan plan(graph, open_device("cpu"));
  EXPECT_THAT(outputs_of(plan.graph()), ElementsAre("y", "loss", "dw"));
  EXPECT_THAT(error_of([&] { ProgramPlan(graph, open_device("cpu"), {.compile = {.mode = Mode::step}}); }),
              HasSubstr("has a backward phase already"));
}

TEST(Compile, ends_after_the_pass_of_until) {
  std::vector<std::string> ran;
  CompileOptions options{.mode = Mode::forward_backward, .skip = {"autocast"}, .until = "differentiate_outputs"};
  options.after_pass = [&](const PassResult& pass, const Graph&) { ran.emplace_back(pass.name); };
  const Graph graph = compile(model(), PassTarget(), options);
  EXPECT_THAT(ran, ElementsAre("select_outputs", "keep_activations", "add_z_loss", "freeze_parameters", "add_adapters",
                               "exempt_from_decay", "keep_frozen_low", "choose_packed_weights", "recognise_attention",
                               "eliminate_dead_code", "merge_products", "merge_rotations", "scale_loss",
                               "differentiate_outputs"));
  EXPECT_TRUE(graph.find_output("grad.w").has_value());
}

}  // namespace
}  // namespace ridgepoint
