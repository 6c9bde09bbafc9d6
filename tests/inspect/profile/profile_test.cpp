// What a profile of a real run says of it, exactly: counts, operations, phases, and that no time is missing.
#include "inspect/profile/profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "inspect/profile/views.h"
#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "passes/pass.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/device/host_device.h"
#include "support/graphs/op_cases.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

std::shared_ptr<const Workload> workload(std::int64_t layers, std::int64_t batch = 2,
                                         AttentionVariant attention = AttentionVariant::composite) {
  const TransformerConfig model{"custom", 64, 16, 32, 48, layers, 2, attention};
  return std::make_shared<Transformer>(model, batch);
}

RunConfig toy(Mode mode, std::int64_t layers = 2) {
  return {.workload = workload(layers), .compile = {.mode = mode}, .warmup = 1, .steps = 2, .profiled_steps = 1};
}

Profile profile_of(RunConfig config, std::int64_t steps = 2) {
  config.profiled_steps = steps;
  static CeilingCache ceilings;  // measuring takes seconds
  std::optional<Profile> profile = measure_profile(config, ceilings);
  EXPECT_TRUE(profile.has_value());
  EXPECT_EQ(profile->run.status, RunStatus::ok) << profile->run.error.message;
  EXPECT_THAT(profile->problem, IsEmpty());
  return std::move(*profile);
}

std::int64_t count(const Profile& profile, const std::string& op, std::optional<ProfilePhase> phase = std::nullopt) {
  return std::ranges::count_if(profile.kernels, [&](const KernelRecord& kernel) {
    return kernel.op == op && (!phase || kernel.phase == *phase);
  });
}

// q, k, v, output, scores, values and the three of the feed-forward network, and the head.
TEST(Profile, counts_nine_matmuls_a_layer_and_one_for_the_head) {
  for (const std::int64_t layers : {1, 2, 5}) {
    const Profile profile = profile_of(toy(Mode::forward, layers), 1);
    EXPECT_EQ(count(profile, "matmul"), 9 * layers + 1);
    EXPECT_EQ(count(profile, "rms_norm"), 2 * layers + 1);
  }
}

TEST(Profile, counts_two_matmuls_backward_for_each_one_forward) {
  for (const Mode mode : {Mode::forward_backward, Mode::step}) {
    const Profile profile = profile_of(toy(mode, 3), 1);
    EXPECT_EQ(count(profile, "matmul", ProfilePhase::forward), 28);
    EXPECT_EQ(count(profile, "matmul", ProfilePhase::backward), 56);
  }
}

TEST(Profile, every_step_has_every_launch) {
  const Profile profile = profile_of(toy(Mode::step), 3);
  EXPECT_THAT(profile.steps, SizeIs(3));
  EXPECT_EQ(profile.silent_launches, 0U);
  EXPECT_EQ(profile.dropped_records, 0U);
  const std::size_t each = profile.kernels.size() / 3;
  for (std::uint32_t step = 0; step < 3; ++step) {
    EXPECT_EQ(std::ranges::count(profile.kernels, step, &KernelRecord::step), static_cast<std::ptrdiff_t>(each));
  }
}

TEST(Profile, operations_add_up_to_those_of_the_run) {
  for (const Mode mode : {Mode::forward, Mode::forward_backward, Mode::step}) {
    const Profile profile = profile_of(toy(mode), 2);
    EXPECT_EQ(total(profile).flops, 2 * profile.run.training_step->flops_per_step.value()) << name(mode);
  }
}

TEST(Profile, kernels_and_idle_time_are_the_wall_time) {
  for (const char* device : {"cpu", "reference"}) {
    RunConfig config = toy(Mode::step);
    config.device = device;
    const Profile profile = profile_of(config);
    const Reconciliation clock = reconcile(profile);
    EXPECT_NEAR(clock.kernels_ms + clock.idle_ms, clock.profiled_ms, 0.01 * clock.profiled_ms) << device;
    const IdleTime idle = idle_time(profile);
    EXPECT_EQ(idle.overlap_ns, 0) << device;
    EXPECT_GT(idle.busy_ns, 0) << device;
    EXPECT_EQ(idle.by_cause_ns[0] + idle.by_cause_ns[1] + idle.by_cause_ns[2], idle.idle_ns()) << device;
  }
}

TEST(Profile, loss_and_optimizer_are_phases_of_their_own) {
  const Profile profile = profile_of(toy(Mode::step), 1);
  EXPECT_GT(count(profile, "cross_entropy", ProfilePhase::loss), 0);
  EXPECT_GT(count(profile, "adamw", ProfilePhase::optimizer), 0);
  for (const KernelRecord& kernel : profile.kernels) {
    EXPECT_EQ(kernel.kernel_class == KernelClass::optimizer, kernel.phase == ProfilePhase::optimizer) << kernel.op;
  }
  const Profile backward = profile_of(toy(Mode::forward_backward), 1);
  EXPECT_EQ(std::ranges::count(backward.kernels, ProfilePhase::optimizer, &KernelRecord::phase), 0);
}

std::map<std::pair<ProfilePhase, KernelClass>, std::int64_t> flops_by_class(const RunConfig& config) {
  std::map<std::pair<ProfilePhase, KernelClass>, std::int64_t> flops;
  for (const ClassRow& row : by_class(profile_of(config, 1))) flops[{row.phase, row.kernel_class}] += row.sum.flops;
  std::erase_if(flops, [](const auto& item) {
    // Copies have none. Elementwise ops in no module of their own may be decomposed into more operations than they
    // count.
    return item.second == 0 || item.first.second == KernelClass::elementwise;
  });
  return flops;
}

// The reference back end decomposes norms, softmax, loss and update, whose operations are those of their parts: a class
// is what a kernel is for, not how it is made.
TEST(Profile, classes_have_the_same_operations_on_a_device_that_decomposes_everything) {
  RunConfig config = toy(Mode::step);
  config.workload = workload(2, 2, AttentionVariant::softmax);
  const auto whole = flops_by_class(config);
  config.device = "reference";
  const auto decomposed = flops_by_class(config);
  EXPECT_EQ(whole, decomposed);
  for (const auto& [phase, kernel_class] : {std::pair(ProfilePhase::forward, KernelClass::matmul),
                                            {ProfilePhase::forward, KernelClass::softmax},
                                            {ProfilePhase::forward, KernelClass::norm},
                                            {ProfilePhase::backward, KernelClass::softmax},
                                            {ProfilePhase::backward, KernelClass::norm},
                                            {ProfilePhase::loss, KernelClass::loss},
                                            {ProfilePhase::backward, KernelClass::loss},
                                            {ProfilePhase::optimizer, KernelClass::optimizer}}) {
    EXPECT_TRUE(whole.contains({phase, kernel_class})) << name(phase) << " " << name(kernel_class);
  }
}

TEST(Profile, names_kernels_as_the_back_end_does) {
  const Profile profile = profile_of(toy(Mode::forward), 1);
  for (const KernelRecord& kernel : profile.kernels) {
    EXPECT_FALSE(kernel.name.empty());
    EXPECT_EQ(kernel.op == "matmul", kernel.name.starts_with("matmul_")) << kernel.name;
  }
}

TEST(Profile, leaves_the_timing_as_bench_gives_it) {
  const Profile profile = profile_of(toy(Mode::step));
  EXPECT_EQ(profile.run.experiment, Experiment::profile);
  EXPECT_THAT(profile.run.training_step->time_ms.samples, SizeIs(2));
  EXPECT_GT(profile.run.training_step->tokens_per_second.value_or(0), 0);
  EXPECT_GT(profile.copy_bytes_per_second.value_or(0), 0);
  EXPECT_EQ(profile.matmul_flops_per_second, profile.run.training_step->ceiling_flops_per_second);
}

TEST(Profile, of_the_null_device_has_no_kernels_and_says_why) {
  RunConfig config = toy(Mode::step);
  config.device = "null";
  CeilingCache ceilings;
  const std::optional<Profile> profile = measure_profile(config, ceilings);
  EXPECT_FALSE(profile->has_kernels());
  EXPECT_THAT(profile->problem, HasSubstr("the null device runs nothing"));
  EXPECT_GT(profile->run.memory_bytes.peak_allocated.value_or(0), 0);
}

TEST(Profile, of_a_run_that_does_not_fit_is_its_record) {
  RunConfig config = toy(Mode::step);
  config.workload = workload(2, 4000);
  config.device_options.memory_limit_bytes = 4 << 20;
  CeilingCache ceilings;
  const std::optional<Profile> profile = measure_profile(config, ceilings);
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->run.status, RunStatus::oom);
  EXPECT_FALSE(profile->has_kernels());
}

TEST(Profile, stops_where_the_watcher_says) {
  CeilingCache ceilings;
  const auto stop = [](const StepProgress& at) { return at.stage != StepProgress::Stage::profiling; };
  EXPECT_EQ(measure_profile(toy(Mode::forward), ceilings, stop), std::nullopt);
}

// Small enough for its cost to show, were there any to speak of.
TEST(Profile, recording_a_launch_costs_the_host_less_than_a_microsecond) {
  double least_ns = profile_of(toy(Mode::forward), 1).recording_ns;
  // Another process may have had the processor meanwhile.
  for (int i = 0; i < 20 && least_ns >= 1000; ++i) {
    least_ns = std::min(least_ns, profile_of(toy(Mode::forward), 1).recording_ns);
  }
  EXPECT_LT(least_ns, 1000);
}

TEST(KernelClass, is_that_of_the_op_where_nothing_around_it_says_more) {
  for (const testing::OpCase& op_case : testing::op_cases()) {
    const Graph graph = op_case.build(DType::fp32);
    for (const NodeId id : graph.order()) {
      const Op op = graph.node(id).op;
      EXPECT_EQ(kernel_class(graph, graph.node(id)), traits(op).kernel_class) << name(op);
    }
  }
}

// Of the nodes of a graph that run.
std::set<KernelClass> classes_in(const Graph& graph) {
  std::set<KernelClass> classes;
  for (const NodeId id : graph.order()) {
    if (launches(graph.node(id).op)) classes.insert(kernel_class(graph, graph.node(id)));
  }
  return classes;
}

// The graph of an op's case, with every composite decomposed.
Graph in_pieces(const testing::OpCase& op_case) {
  Graph graph = op_case.build(DType::fp32);
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node&) { return false; };
  decompose_composites(graph, options);
  return graph;
}

bool has_one_composite(const Graph& graph) {
  return std::ranges::count_if(graph.order(),
                               [&](NodeId id) { return op_class(graph.node(id).op) == OpClass::composite; }) == 1;
}

TEST(KernelClass, of_the_pieces_of_a_composite_is_that_of_the_composite) {
  std::set<Op> seen;
  for (const testing::OpCase& op_case : testing::op_cases()) {
    const KernelClass whole = traits(op_case.op).kernel_class;
    if (whole == KernelClass::attention || !has_one_composite(op_case.build(DType::fp32))) continue;
    const Graph graph = in_pieces(op_case);
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const bool says_itself = traits(node.op).kernel_class != KernelClass::elementwise;
      if (!node.origin || !launches(node.op) || says_itself) continue;
      seen.insert(*node.origin);
      EXPECT_EQ(kernel_class(graph, node), whole) << op_case.name << " " << name(node.op);
    }
  }
  for (const Op op : {Op::softmax, Op::rms_norm, Op::layer_norm, Op::cross_entropy, Op::nonfinite, Op::silu}) {
    EXPECT_TRUE(seen.contains(op)) << name(op);
  }
}

TEST(KernelClass, of_the_pieces_of_attention_is_their_own) {
  for (const testing::OpCase& op_case : testing::op_cases()) {
    if (traits(op_case.op).kernel_class != KernelClass::attention || op_class(op_case.op) != OpClass::composite)
      continue;
    EXPECT_EQ(classes_in(in_pieces(op_case)), (std::set{KernelClass::matmul, KernelClass::elementwise}))
        << op_case.name;
  }
}

TEST(KernelClass, of_a_derivative_through_a_decomposition_is_that_of_the_composite) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4, 6}}, Role::data);
  const Value weight = input(graph, "weight", {DType::fp32, {6}}, Role::parameter);
  const NodeId norm = make_node(graph, Op::rms_norm, {x, weight}, {{"epsilon", 1e-5}});
  // The second result has no rule of its own.
  const Value root = graph.node(norm).outputs[1];
  const Value gradient = broadcast(graph, constant(graph, 1.0, DType::fp32), graph.type(root).shape);
  const Value wrt[] = {x};
  graph.add_output("dx", differentiate(graph, root, gradient, wrt)[0]);
  std::set<KernelClass> classes;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool is_sum = node.op == Op::add && !node.origin;  // of gradients that meet
    if (node.phase == Phase::backward && launches(node.op) && !is_sum) classes.insert(kernel_class(graph, node));
  }
  EXPECT_EQ(classes, std::set{KernelClass::norm});
}

TEST(KernelClass, is_not_that_of_the_file_where_a_node_was_built) {
  const Graph graph = parse_graph(R"(graph "g"
%0:fp32[4] = input() {name="x", role="data"} @forward "" ""
%1:fp32[4] = exp(%0) @forward "" "softmax.cpp:1"
%2:fp32[4] = exp(%1) @forward "" "model.cpp:1" from softmax_backward
%3:fp32[4] = exp(%2) @optimizer "" "rms_norm.cpp:1"
%4:fp32[4] = exp(%3) @loss "" "model.cpp:1"
output "y" %4
)");
  const auto class_at = [&](std::size_t i) { return kernel_class(graph, graph.node(graph.order()[i])); };
  EXPECT_EQ(class_at(1), KernelClass::elementwise);
  EXPECT_EQ(class_at(2), KernelClass::softmax);
  EXPECT_EQ(class_at(3), KernelClass::optimizer);
  EXPECT_EQ(class_at(4), KernelClass::loss);
}

TEST(KernelClass, of_a_product_with_what_follows_it_is_that_of_the_product_with_the_work_of_both) {
  const Graph graph = parse_graph(R"(graph "g"
%0:bf16[4,6] = input() {name="x", role="data"} @forward "" ""
%1:bf16[6,8] = input() {name="w", role="parameter"} @forward "" ""
%2:bf16[4,8] = fused(%0, %1) @forward "layers.0.ffn" "" from matmul
body "fused_matmul_exp"
%0:bf16[4,6] = input() {name="0", role="data"} @forward "" ""
%1:bf16[6,8] = input() {name="1", role="data"} @forward "" ""
%2:bf16[4,8] = matmul(%0, %1) @forward "" ""
%3:bf16[4,8] = exp(%2) @forward "" ""
output "0" %3
end
output "y" %2
)");
  const Node& node = graph.producer_node(*graph.find_output("y"));
  EXPECT_EQ(kernel_class(graph, node), KernelClass::matmul);
  EXPECT_EQ(cost(graph, node).flops, 2 * 4 * 6 * 8 + 4 * 8);
  EXPECT_EQ(cost(graph, node).bytes, 2 * (4 * 6 + 6 * 8 + 4 * 8));
}

TEST(KernelClass, of_elementwise_work_is_that_of_its_module) {
  Graph graph;
  const auto class_in = [&](const char* scope) {
    const ScopeGuard guard(graph, scope);
    const Value y = exp(graph, input(graph, scope, {DType::fp32, {4}}, Role::data));
    return kernel_class(graph, graph.producer_node(y));
  };
  EXPECT_EQ(class_in("layers.0.attn.softmax"), KernelClass::softmax);
  EXPECT_EQ(class_in("softmax"), KernelClass::softmax);
  EXPECT_EQ(class_in("loss"), KernelClass::loss);
  EXPECT_EQ(class_in("layers.0.attn"), KernelClass::elementwise);
  EXPECT_EQ(class_in("layers.0.my_softmax"), KernelClass::elementwise) << "another module";
  EXPECT_EQ(class_in("softmax.scale"), KernelClass::elementwise) << "within it, not it";
}

struct LoggedProgram {
  Program program{graph(), open_device("reference")};
  static Graph graph() {
    Graph g;
    const Value x = input(g, "x", {DType::fp32, Shape{8}}, Role::data);
    g.add_output("y", exp(g, neg(g, x)));
    return g;
  }
};

Activity activity(std::uint32_t run, std::uint32_t launch, std::int64_t start_ns, std::int64_t duration_ns,
                  ActivityKind kind = ActivityKind::kernel) {
  Activity result;
  result.run = run;
  result.launch = launch;
  result.start_ns = result.call_start_ns = start_ns;
  result.duration_ns = duration_ns;
  result.kind = kind;
  return result;
}

TEST(FillProfile, gives_a_nodes_work_to_the_longest_of_its_kernels_once) {
  LoggedProgram logged;
  Profile profile;
  ActivityLog log;
  log.activities = {activity(0, 0, 110, 5), activity(0, 0, 120, 30), activity(0, 1, 160, 10)};
  fill_profile(profile, logged.program, {{100, 200}}, std::move(log));
  ASSERT_THAT(profile.kernels, SizeIs(3));
  EXPECT_EQ(profile.kernels[0].flops, 0);
  EXPECT_EQ(profile.kernels[1].flops, 8);
  EXPECT_EQ(profile.kernels[1].op, "neg");
  EXPECT_EQ(profile.kernels[2].flops, 8);
  EXPECT_EQ(profile.kernels[0].start_ns, 10) << "times count from the first step";
}

TEST(FillProfile, makes_fills_a_phase_of_their_own) {
  LoggedProgram logged;
  Profile profile;
  ActivityLog log;
  log.activities = {activity(0, 0, 110, 5, ActivityKind::fill), activity(0, 0, 120, 30), activity(0, 1, 160, 10)};
  fill_profile(profile, logged.program, {{100, 200}}, std::move(log));
  EXPECT_EQ(profile.kernels[0].phase, ProfilePhase::zeroing);
  EXPECT_EQ(profile.kernels[0].kernel_class, KernelClass::memory_movement);
  EXPECT_EQ(profile.kernels[1].phase, ProfilePhase::forward);
}

TEST(FillProfile, leaves_the_fills_of_a_collective_with_it) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, Shape{8}}, Role::data);
  graph.add_output("sum", all_reduce(graph, {x}, 2)[0]);
  const Program program(std::move(graph), open_device("null"));
  Profile profile;
  ActivityLog log;
  log.activities = {activity(0, 0, 110, 1, ActivityKind::fill), activity(0, 0, 120, 30)};
  fill_profile(profile, program, {{100, 200}}, std::move(log));
  for (const KernelRecord& kernel : profile.kernels) {
    EXPECT_EQ(kernel.kernel_class, KernelClass::communication);
    EXPECT_EQ(kernel.phase, ProfilePhase::forward);
  }
}

TEST(FillProfile, places_what_no_launch_answers_for_by_its_time_and_says_so) {
  LoggedProgram logged;
  Profile profile;
  ActivityLog log;
  log.activities = {activity(kNoRun, kNoLaunch, 210, 5), activity(kNoRun, kNoLaunch, 150, 5), activity(1, 0, 220, 5)};
  log.dropped = 3;
  fill_profile(profile, logged.program, {{100, 140}, {200, 300}}, std::move(log));
  ASSERT_THAT(profile.kernels, SizeIs(2)) << "between the steps is in neither";
  EXPECT_EQ(profile.kernels[0].kernel_class, KernelClass::unknown);
  EXPECT_EQ(profile.kernels[0].step, 1U);
  EXPECT_EQ(profile.dropped_records, 3U);
  EXPECT_EQ(profile.silent_launches, 3U) << "both of the first step, one of the second";
}

}  // namespace
}  // namespace ridgepoint
