// States in the memory of the host, or in a file: what lies there, when it is copied, and that a step computes the
// same.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/rounding.h"
#include "ir/stored_tensors.h"
#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "passes/graph_lines.h"
#include "plan/plan.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TransformerConfig kModel{"custom", 512, 8, 256, 768, 2, 4};

struct Case {
  std::string name;
  CompileOptions options;
  std::string device = "cpu";
};

CompileOptions with(CompileOptions options, Offload offload) {
  options.mode = Mode::step;
  options.keep.results = true;
  options.offload = offload;
  return options;
}

ProgramPlan plan_of(const CompileOptions& options, Offload offload, const std::string& device = "cpu") {
  return {build_transformer(kModel, 2), open_device(device), {.compile = with(options, offload)}};
}

CompileOptions on_disk(CompileOptions options) {
  options.offload_folder = std::filesystem::temp_directory_path().string();
  return options;
}

std::vector<const Node*> inputs_on_host(const Graph& graph) {
  std::vector<const Node*> found;
  for (const NodeId id : graph.inputs()) {
    if (graph.node(id).attributes.get_or(kOnHost, false)) found.push_back(&graph.node(id));
  }
  return found;
}

class OffloadedStep : public ::testing::TestWithParam<Case> {};

TEST_P(OffloadedStep, computes_the_same_bits) {
  const Transformer workload(kModel, 2);
  const ProgramPlan plain_plan = plan_of(GetParam().options, Offload::none, GetParam().device);
  const ProgramPlan offloaded_plan = plan_of(GetParam().options, Offload::optimizer, GetParam().device);
  Program plain(plain_plan, nullptr, {}), offloaded(offloaded_plan, nullptr, {});
  const ProgramPlan plan_on_disk = plan_of(on_disk(GetParam().options), Offload::optimizer, GetParam().device);
  Program with_file(plan_on_disk, nullptr, {});
  for (Program* program : {&plain, &offloaded, &with_file}) initialise(*program, workload, 3);
  for (int step = 0; step < 3; ++step) {
    for (Program* program : {&plain, &offloaded, &with_file}) program->run();
    EXPECT_EQ(testing::relative_error(offloaded.read_output("logits"), plain.read_output("logits")), 0) << step;
    EXPECT_EQ(testing::relative_error(with_file.read_output("logits"), plain.read_output("logits")), 0) << step;
  }
  std::size_t on_host = 0;
  for (const StatePart& part : offloaded.state_parts()) {
    EXPECT_EQ(testing::relative_error(with_file.read_input(part.name), plain.read_input(part.name)), 0) << part.name;
    EXPECT_EQ(testing::relative_error(offloaded.read_input(part.name), plain.read_input(part.name)), 0) << part.name;
    if (part.is_on_host) on_host += block_bytes(part.bytes() / (part.is_split ? 2 : 1));
  }
  EXPECT_EQ(offloaded.host_memory_bytes(), on_host);
  EXPECT_EQ(plain.host_memory_bytes(), 0U);
  EXPECT_EQ(with_file.host_memory_bytes(), kStagingBytes);
  std::size_t in_file = 0;
  for (const Node* node : inputs_on_host(plan_on_disk.graph()))
    in_file += round_up(plan_on_disk.graph().type(node->outputs[0]).bytes(), kFileBlockBytes);
  EXPECT_EQ(plan_on_disk.execution().disk.bytes, in_file);
  EXPECT_EQ(with_file.disk_bytes(), in_file);
  EXPECT_EQ(with_file.memory_use().peak_allocated_bytes, offloaded.memory_use().peak_allocated_bytes);
  EXPECT_LE(offloaded.memory_use().peak_allocated_bytes, plain.memory_use().peak_allocated_bytes);
}

TEST_P(OffloadedStep, goes_on_from_the_parts_of_its_state) {
  const Transformer workload(kModel, 2);
  const ProgramPlan plan = plan_of(GetParam().options, Offload::optimizer, GetParam().device);
  const ProgramPlan plan_on_disk = plan_of(on_disk(GetParam().options), Offload::optimizer, GetParam().device);
  Program first(plan_on_disk, nullptr, {}), second(plan, nullptr, {});
  initialise(first, workload, 3);
  initialise(second, workload, 3);
  first.run();
  for (const StatePart& part : first.state_parts()) {
    std::vector<std::byte> bytes(part.bytes());
    first.read_part(part, bytes);
    second.write_part(part, bytes);
    if (part.is_parameter) second.write_input(part.name, first.read_input(part.name));  // its low copy too
  }
  first.run();
  second.run();
  EXPECT_EQ(testing::relative_error(second.read_output("logits"), first.read_output("logits")), 0);
  for (const StatePart& part : first.state_parts())
    EXPECT_EQ(testing::relative_error(second.read_input(part.name), first.read_input(part.name)), 0) << part.name;
}

INSTANTIATE_TEST_SUITE_P(
    all, OffloadedStep,
    ::testing::Values(Case{"fp32", {}}, Case{"eager_bf16", {.precision = Precision::bf16}},
                      Case{"bf16", {.precision = Precision::bf16, .level = Compile::full}},
                      Case{"fp16", {.precision = Precision::fp16, .level = Compile::full}},
                      Case{"clipped", {.precision = Precision::bf16, .level = Compile::full, .clip_norm = 0.5}},
                      Case{"accumulated", {.precision = Precision::bf16, .level = Compile::full, .accumulate = 3}},
                      Case{"checkpointed", {.level = Compile::full, .checkpoint = Checkpoint::block}},
                      Case{"no_masters",
                           {.precision = Precision::bf16, .level = Compile::full, .master_weights = false}},
                      Case{"adamw_8bit", {.level = Compile::full, .optimizer = {.kind = Optimizer::adamw_8bit}}},
                      Case{"lion", {.level = Compile::full, .optimizer = {.kind = Optimizer::lion}}},
                      Case{"lora", {.precision = Precision::bf16, .level = Compile::full, .lora = LoraOptions{}}}),
    [](const auto& tested) { return tested.param.name; });

std::vector<Lifetime> lifetimes_of(const ProgramPlan& plan) {
  const std::vector<std::size_t> no_workspaces(plan.execution().steps.size());
  return ridgepoint::lifetimes_of(plan.execution(), no_workspaces);
}

const CompileOptions kLow{.precision = Precision::bf16, .level = Compile::full};

TEST(OffloadStates, keeps_what_only_the_optimizer_reads_on_the_host) {
  const ProgramPlan plan = plan_of(kLow, Offload::optimizer);
  for (const NodeId id : plan.graph().inputs(Role::state)) {
    const Node& state = plan.graph().node(id);
    const bool is_moment = input_name(state).find("_moment.") != std::string::npos;
    const bool is_rest = input_name(state).starts_with("rest.");
    EXPECT_EQ(state.attributes.get_or(kOnHost, false), is_moment || is_rest) << input_name(state);
  }
  const auto is_any_parameter_on_host = [](const ProgramPlan& of) {
    return std::ranges::any_of(of.graph().inputs(Role::parameter),
                               [&](NodeId id) { return of.graph().node(id).attributes.get_or(kOnHost, false); });
  };
  EXPECT_FALSE(is_any_parameter_on_host(plan)) << "products read the halves that are bf16";
  CompileOptions with_copies = kLow;
  with_copies.precision = Precision::fp16;
  const ProgramPlan copies = plan_of(with_copies, Offload::optimizer);
  for (const NodeId id : copies.graph().inputs(Role::parameter)) {
    const Node& parameter = copies.graph().node(id);
    // A norm computes with its fp32 weights, and rows are looked up in fp32; a product has low copies of its own.
    const bool is_product = input_name(parameter).find(".attn.") != std::string::npos ||
                            input_name(parameter).find(".ffn.") != std::string::npos ||
                            input_name(parameter) == "lm_head.weight";
    EXPECT_EQ(parameter.attributes.get_or(kOnHost, false), is_product) << input_name(parameter);
  }
}

// Of a plan: the launches of a kind, in order.
std::vector<std::size_t> steps_of(const ProgramPlan& plan, const auto& is_such) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < plan.execution().steps.size(); ++i) {
    if (is_such(plan.graph().node(plan.execution().steps[i].node))) steps.push_back(i);
  }
  return steps;
}
std::vector<std::size_t> steps_of(const ProgramPlan& plan, Op op) {
  return steps_of(plan, [op](const Node& node) { return node.op == op; });
}

TEST(OffloadStates, copies_a_group_ahead_of_its_update_and_while_backward_runs) {
  // Groups of one weight each: 16 MiB of moments and masters and more.
  const TransformerConfig wide{"custom", 512, 8, 2048, 8192, 2, 8};
  const ProgramPlan plan(build_transformer(wide, 1), open_device("null"), {.compile = with(kLow, Offload::optimizer)});
  const std::vector<PlanStep>& steps = plan.execution().steps;
  const auto first_waiting = [&](std::size_t transfer) {
    const auto waits = [&](const PlanStep& step) {
      return std::ranges::find(step.waits, transfer) != step.waits.end();
    };
    return static_cast<std::size_t>(std::ranges::find_if(steps, waits) - steps.begin());
  };
  const std::vector<std::size_t> fetches = steps_of(plan, Op::copy_from_host);
  const std::vector<std::size_t> stores = steps_of(plan, Op::copy_to_host);
  const std::vector<std::size_t> products = steps_of(plan, [](const Node& node) {
    return node.phase == Phase::backward && traits(node.op).kernel_class == KernelClass::matmul;
  });
  ASSERT_GT(fetches.size(), 10U);
  ASSERT_EQ(fetches.size(), stores.size());
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const std::size_t update = first_waiting(fetches[i]);
    ASSERT_LT(update, stores[i]);
    EXPECT_EQ(plan.graph().node(steps[update].node).op, Op::adamw);
    if (i + 3 < fetches.size()) {
      EXPECT_LT(fetches[i + 3], update);
    }
    // Few are on their way back at the same time.
    if (i + 4 < stores.size()) {
      EXPECT_LE(first_waiting(stores[i]), stores[i + 4]);
    }
  }
  EXPECT_LT(stores[stores.size() / 2], products.back());
}

// So that few reads and writes bring a group.
TEST(OffloadStates, follow_each_other_in_a_file_as_they_are_copied) {
  const ProgramPlan plan = plan_of(on_disk(kLow), Offload::optimizer, "null");
  const auto expect_in_order = [&](const std::vector<Operand>& operands, std::size_t begin) {
    for (const Operand& operand : operands) {
      EXPECT_EQ(plan.execution().disk.offset_bytes[operand.buffer], begin);
      begin += round_up(plan.execution().buffers[operand.buffer].bytes, kFileBlockBytes);
    }
    return begin;
  };
  std::size_t fetched = 0, stored = 0;
  for (const std::size_t step : steps_of(plan, Op::copy_from_host))
    fetched = expect_in_order(plan.execution().steps[step].inputs, fetched);
  for (const std::size_t step : steps_of(plan, Op::copy_to_host))
    stored = expect_in_order(plan.execution().steps[step].outputs, stored);
  EXPECT_EQ(fetched, plan.execution().disk.bytes);
  EXPECT_EQ(stored, fetched);
}

TEST(OffloadStates, updates_behind_backward_where_gradients_are_clipped) {
  CompileOptions options = kLow;
  options.clip_norm = 1;
  const ProgramPlan plan = plan_of(options, Offload::optimizer);
  const auto last = steps_of(plan, [](const Node& node) { return node.phase == Phase::backward; }).back();
  EXPECT_GT(steps_of(plan, Op::adamw).front(), last);
  EXPECT_LT(steps_of(plan, Op::copy_from_host).front(), last);
}

// A table outside of blocks; merged weights of a block may have as many bytes.
TEST(OffloadStates, updates_large_tables_behind_backward) {
  const TransformerConfig large{"custom", 96256, 8, 4096, 14336, 3, 32};
  const auto plan_with = [&](std::optional<double> clip_norm) {
    CompileOptions options = with(kLow, Offload::optimizer);
    options.keep.results = false;
    options.clip_norm = clip_norm;
    return ProgramPlan(build_transformer(large, 1), open_device("null"), {.compile = options});
  };
  const ProgramPlan plan = plan_with({});
  const auto last = steps_of(plan, [](const Node& node) { return node.phase == Phase::backward; }).back();
  std::vector<std::size_t> late;
  for (const std::size_t fetch : steps_of(plan, Op::copy_from_host)) {
    const PlanStep& step = plan.execution().steps[fetch];
    const std::size_t bytes = plan.graph().type(plan.graph().node(step.node).outputs[0]).bytes();
    if (bytes > std::size_t{1} << 30) late.push_back(fetch);
    EXPECT_EQ(fetch > last, bytes > std::size_t{1} << 30) << bytes;
  }
  EXPECT_EQ(late.size(), 2U);  // the table of embeddings and the head
  // Gradients are freed during backward where nothing waits for their norm.
  const auto peak = [](const ProgramPlan& planned) { return liveness_lower_bound(lifetimes_of(planned)); };
  EXPECT_LT(peak(plan), peak(plan_with(1)));
}

TEST(OffloadStates, leaves_a_step_without_states) {
  CompileOptions options{.optimizer = {.kind = Optimizer::sgd}};
  const ProgramPlan plan = plan_of(options, Offload::optimizer);
  EXPECT_TRUE(inputs_on_host(plan.graph()).empty());
  EXPECT_TRUE(steps_of(plan, Op::copy_from_host).empty());
}

TEST(OffloadStates, need_a_step_and_enough_memory) {
  const auto plan = [](const CompileOptions& options) {
    ProgramPlan(build_transformer(kModel, 2), open_device("null"), {.compile = options});
  };
  CompileOptions options = with(kLow, Offload::optimizer);
  options.host_memory_limit_bytes = 1 << 20;
  EXPECT_THAT(error_of([&] { plan(options); }), HasSubstr("may take 1.00 MiB; raise --host-memory"));
  options = with(kLow, Offload::optimizer);
  options.mode = Mode::forward;
  EXPECT_THAT(error_of([&] { plan(options); }), HasSubstr("mode forward has no states"));
}

TEST(Transfers, have_results_of_the_types_of_their_operands) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4}}, Role::state);
  const Value y = input(graph, "y", {DType::bf16, {4}}, Role::state);
  EXPECT_EQ(graph.type(copy_from_host(graph, {x, y})[1]), graph.type(y));
  EXPECT_THAT(error_of([&] { copy_from_host(graph, {}); }), HasSubstr("an operand"));
  EXPECT_EQ(graph.type(copy_to_host(graph, {x, y})[1]), graph.type(y));
  EXPECT_THAT(error_of([&] { copy_to_host(graph, {}); }), HasSubstr("an operand"));
  EXPECT_EQ(cost(graph, graph.producer_node(copy_from_host(graph, {x})[0])).bytes, 2 * 4 * 4);
  EXPECT_EQ(cost(graph, graph.producer_node(copy_to_host(graph, {x})[0])).bytes, 2 * 4 * 4);
}

TEST(Transfers, alone_reach_the_memory_of_the_host) {
  const auto plan_of_copy = [](bool from_host, bool is_on_host) {
    Graph graph;
    const Value x = input(graph, "x", {DType::fp32, {4}}, Role::state);
    if (is_on_host) graph.node(graph.producer(x)).attributes.set(kOnHost, true);
    graph.add_output("y", from_host ? copy_from_host(graph, {x})[0] : exp(graph, x));
    return make_plan(graph);
  };
  EXPECT_NO_THROW(plan_of_copy(true, true));
  EXPECT_THAT(error_of([&] { plan_of_copy(false, true); }), HasSubstr("copy it from there first"));
  EXPECT_THAT(error_of([&] { plan_of_copy(true, false); }), HasSubstr("a copy must bring it to the host"));
}

TEST(Transfers, alone_update_inputs_on_the_host) {
  const auto plan_of_update = [](bool to_host, bool is_on_host) {
    Graph graph;
    const Value x = input(graph, "x", {DType::fp32, {4}}, Role::state);
    const Value y = input(graph, "y", {DType::fp32, {4}}, Role::data);
    if (is_on_host) graph.node(graph.producer(x)).attributes.set(kOnHost, true);
    graph.add_update(x, to_host ? copy_to_host(graph, {y})[0] : exp(graph, y));
    return make_plan(graph);
  };
  EXPECT_EQ(plan_of_update(true, true).host.bytes, 512U);
  EXPECT_EQ(plan_of_update(false, false).host.bytes, 0U);
  EXPECT_THAT(error_of([&] { plan_of_update(true, false); }), HasSubstr("cannot update input 'x'"));
  EXPECT_THAT(error_of([&] { plan_of_update(false, true); }), HasSubstr("cannot update input 'x'"));
}

}  // namespace
}  // namespace ridgepoint
