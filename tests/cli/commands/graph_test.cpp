// `ridgepoint graph`: every workload's graph after any pass.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/compile.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

ProgramResult graph(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"graph", "--device", "cpu"});
  return run_program(arguments);
}

std::vector<std::string> small_model(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--layers", "1", "--d-model", "16", "--d-ff", "24", "--heads", "2", "--vocab",
                                       "50", "--context", "8", "--batch", "2"});
  return arguments;
}

std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  for (const NodeId id : graph.order()) n += graph.node(id).op == op ? 1 : 0;
  return n;
}

Graph text_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.emplace_back("--text");
  return parse_graph(output_of(graph(all)));
}

TEST(GraphCommand, has_a_row_for_every_pass_with_its_time_and_counts) {
  const nlohmann::json rows = nlohmann::json::parse(output_of(graph(small_model({"--format", "json"}))));
  const std::vector<std::string_view> names = pass_names();
  ASSERT_EQ(rows.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(rows[i]["pass"], names[i]);
    EXPECT_GE(rows[i]["milliseconds"].get<double>(), 0);
    EXPECT_GE(rows[i]["nodes"].get<int>(), rows[i]["launches"].get<int>());
  }
  EXPECT_EQ(rows.back()["nodes"], text_of(small_model({})).order().size());
  for (std::size_t i = 1; i < names.size(); ++i) EXPECT_EQ(rows[i]["nodes_before"], rows[i - 1]["nodes"]);
  EXPECT_THAT(graph(small_model({})).output,
              AllOf(HasSubstr("Passes of transformer.custom"), HasSubstr("adamw"), Not(HasSubstr("Ops of"))));
}

TEST(GraphCommand, counts_what_runs_by_op_and_phase) {
  const std::vector<std::string> fused = small_model({"--compile", "fuse", "--stats"});
  EXPECT_THAT(graph(fused).output, AllOf(HasSubstr("Passes of"), HasSubstr("Ops of"), HasSubstr("replaces")));
  std::vector<std::string> json = fused;
  json.insert(json.end(), {"--format", "json"});
  std::int64_t nodes = 0, replacing = 0, flops = 0;
  for (const nlohmann::json& row : nlohmann::json::parse(graph(json).output)) {
    nodes += row["nodes"].get<std::int64_t>();
    flops += row["flops"].get<std::int64_t>();
    replacing += row["class"] == "fused" ? 1 : 0;
    EXPECT_EQ(row["class"] == "fused", row["replaces"].is_string()) << row["op"];
  }
  EXPECT_EQ(nodes, std::ssize(text_of(small_model({"--compile", "fuse"})).order()));
  EXPECT_GT(replacing, 0);
  EXPECT_GT(flops, 0);
}

TEST(GraphCommand, draws_the_graph_after_any_pass) {
  EXPECT_THAT(graph(small_model({"--dot", "--after", "select_outputs"})),
              prints(AllOf(StartsWith("digraph \"transformer.custom\" {"), HasSubstr("subgraph cluster_"),
                           HasSubstr("label=\"attn\""), Not(HasSubstr("#f4cccc\"]")))));
  EXPECT_THAT(graph(small_model({"--dot"})).output, HasSubstr("#f4cccc\"]")) << "backward";
}

TEST(GraphCommand, prints_the_graph_after_any_pass) {
  const Graph forward = text_of(small_model({"--after", "select_outputs"}));
  EXPECT_EQ(count(forward, Op::adamw), 0U);
  EXPECT_EQ(count(forward, Op::matmul), 1U + 7 + 2);
  const Graph differentiated = text_of(small_model({"--after", "differentiate_outputs"}));
  EXPECT_EQ(count(differentiated, Op::matmul), 3U * 10);
  EXPECT_EQ(count(text_of(small_model({"--after", "append_optimizer"})), Op::adamw), 12U);
}

TEST(GraphCommand, leaves_out_the_passes_it_is_told_to_skip) {
  EXPECT_GT(count(text_of(small_model({"--dtype", "bf16"})), Op::cast), 0U);
  EXPECT_EQ(count(text_of(small_model({"--dtype", "bf16", "--skip", "autocast"})), Op::cast), 0U);
}

TEST(GraphCommand, prints_other_workloads) {
  const Graph attention =
      text_of({"--workload", "attention", "--context", "64", "--mode", "forward_backward", "--compile", "fuse"});
  EXPECT_EQ(count(attention, Op::attention), 1U);
  EXPECT_TRUE(attention.find_output("grad.q").has_value());
  EXPECT_EQ(count(text_of({"--workload", "toy", "--after", "append_optimizer"}), Op::layer_norm), 1U);
}

TEST(GraphCommand, writes_its_table_to_a_file) {
  const TemporaryFolder folder;
  const std::string path = folder / "passes.json";
  ASSERT_EQ(graph(small_model({"--output", path})).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path, 1 << 20)).size(), pass_names().size());
}

TEST(GraphCommand, reads_what_it_wrote) {
  const TemporaryFolder folder;
  const std::string path = folder / "training.txt";
  ASSERT_EQ(graph(small_model({"--after", "unscale_gradients", "--text", "--output", path})).exit_code, 0);
  EXPECT_EQ(print_graph(text_of({"--graph", path})), print_graph(text_of(small_model({}))));
}

TEST(GraphCommand, names_the_nearest_of_what_it_does_not_know) {
  EXPECT_THAT(graph({"--after", "autocas"}).error,
              HasSubstr("--after: no pass is called 'autocas'; did you mean 'autocast'?"));
  EXPECT_THAT(graph({"--skip", "autocas"}).error,
              HasSubstr("--skip: no pass is called 'autocas'; did you mean 'autocast'?"));
  EXPECT_THAT(graph({"--skip", "autocast,all"}).error,
              HasSubstr("--skip: no pass is called 'all'; 'ridgepoint graph --help' lists them"));
  EXPECT_THAT(graph({"--workload", "atention"}),
              fails(2, "--workload: 'atention' is unknown; did you mean 'attention'?"));
}

TEST(GraphCommand, refuses_options_that_contradict_each_other) {
  expect_usage_error({"graph", "--graph", "g", "--model", "tiny"}, "--graph replaces the workload; leave --model out");
  EXPECT_THAT(graph({"--text", "--format", "json"}).error, HasSubstr("leave --format out"));
  EXPECT_THAT(graph({"--dot", "--format", "json"}).error, HasSubstr("leave --format out"));
  EXPECT_THAT(graph({"--dot", "--stats"}).error, HasSubstr("give one"));
  EXPECT_THAT(graph({"--graph", "x", "--workload", "toy"}).error, HasSubstr("leave --workload out"));
  EXPECT_EQ(graph({"--model", "tiny,small"}).exit_code, 2);
  EXPECT_THAT(graph({"--checkpoint", "auto"}).error, HasSubstr("give a policy, such as block"));
  for (const std::string shard : {"auto", "none"})
    EXPECT_THAT(graph({"--parallel", "data=2,bucket=auto", "--shard", shard}).error,
                HasSubstr("plan with them, and give what it chose"));
}

}  // namespace
}  // namespace ridgepoint
