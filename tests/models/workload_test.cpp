// What a workload has without saying so: initial values, data, operations; and what the three workloads share.
#include "ridgepoint/models/workload.h"

#include <algorithm>
#include <set>

#include "models/toy_model.h"
#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/inspect/measure.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Rows of a table, chosen by index, times a weight.
class Lookup : public Workload {
 public:
  WorkloadDescription describe() const override { return {.model = {.name = "lookup"}, .batch = 32}; }
  Graph build(const StopPoint& = {}) const override {
    Graph graph;
    const Value table = input(graph, "table", {DType::fp32, {7, 4}}, Role::parameter);
    const Value gain = input(graph, "gain", {DType::fp32, {4}}, Role::parameter);
    const Value indices = input(graph, "indices", {DType::int64, {32}}, Role::data);
    const Value x = input(graph, "x", {DType::fp32, {32, 4}}, Role::data);
    const Value rows = mul(graph, mul(graph, embedding(graph, table, indices), gain), x);
    graph.add_output("loss", reduce_sum(graph, rows, {0, 1}), OutputRole::loss);
    return graph;
  }
};

TEST(Workload, lists_its_parameters_in_their_order) {
  std::vector<std::string> names;
  for (const ParameterDeclaration& parameter : parameters_of(Lookup())) names.push_back(parameter.name);
  EXPECT_THAT(names, ElementsAre("table", "gain"));
}

TEST(Workload, has_values_for_every_input_unless_it_says_otherwise) {
  Program program(Lookup().build(), open_device("cpu"), {.compile = {.mode = Mode::step}});
  initialise(program, Lookup(), 5);
  const HostTensor gain = program.read_input("gain");
  EXPECT_THAT(std::vector<float>(gain.as<float>().begin(), gain.as<float>().end()), ElementsAre(1, 1, 1, 1));
  const HostTensor indices = program.read_input("indices");
  const std::set<std::int64_t> seen(indices.as<std::int64_t>().begin(), indices.as<std::int64_t>().end());
  EXPECT_GT(seen.size(), 3U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), 7);
  const HostTensor x = program.read_input("x");
  EXPECT_TRUE(std::ranges::any_of(x.as<float>(), [](float element) { return element < 0; }));
  EXPECT_EQ(program.index_bound("indices"), 7);
  EXPECT_EQ(program.index_bound("x"), std::nullopt);
}

TEST(Workload, is_benchmarked_and_profiled_by_the_public_functions) {
  RunConfig config;
  config.device = "cpu";
  config.workload = std::make_shared<Lookup>();
  config.warmup = 1;
  config.steps = 2;
  const Record record = benchmark(config);
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.model.name, "lookup");
  EXPECT_EQ(record.training_step->time_ms.samples.size(), 2U);
  EXPECT_EQ(record.training_step->flops_per_step, Lookup().flops(Mode::step));
  const Profile found = profile(config);
  EXPECT_EQ(found.steps.size(), 3U);
  EXPECT_TRUE(found.has_kernels());
}

TEST(Workload, of_any_kind_runs_in_every_mode_that_it_has) {
  TransformerConfig model = transformer_preset("tiny");
  model.context = 8;
  const std::vector<std::shared_ptr<const Workload>> workloads = {
      std::make_shared<Transformer>(model, 2), std::make_shared<ToyModel>(),
      std::make_shared<AttentionCall>(AttentionProblem{.batch = 2, .d_model = 16, .queries = 9, .keys = 9})};
  for (const std::shared_ptr<const Workload>& workload : workloads) {
    for (const Mode mode : {Mode::forward, Mode::forward_backward}) {
      Program program(workload->build(), open_device("cpu"), {.compile = {.mode = mode}});
      initialise(program, *workload, 1);
      program.run();
      EXPECT_EQ(std::ranges::any_of(program.graph().outputs(),
                                    [](const Output& output) { return output.role == OutputRole::gradient; }),
                mode == Mode::forward_backward);
      EXPECT_GT(workload->flops(mode), 0);
      EXPECT_GT(workload->units(), 0);
    }
    EXPECT_GT(workload->flops(Mode::forward_backward), 2 * workload->flops(Mode::forward));
  }
}

}  // namespace
}  // namespace ridgepoint
