// run_passes(): names, skipped passes, callbacks and verification.

#include "compile/compile.h"
#include "passes/graph_lines.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Runner, names_the_nearest_pass_for_an_unknown_one) {
  Graph graph;
  PassOptions options;
  options.skip = {"eliminate_dead_cod"};
  EXPECT_THAT(error_of([&] { run_passes(graph, pipeline(), options); }),
              HasSubstr("did you mean 'eliminate_dead_code'"));
}

Graph exponential() {
  return testing::graph_of(R"(
%0:fp32[2] = input() {name="x", role="data"}
%1:fp32[2] = exp(%0)
output "y" %1
)");
}

bool break_the_types(Graph& graph, const PassOptions&) {
  graph.set_type(*graph.find_output("y"), {DType::fp32, {3}});
  return true;
}

// A walk over such a graph would read what is not there.
TEST(Runner, refuses_an_operand_that_is_not_there_even_where_it_does_not_check_each_pass) {
  const auto move_to_the_front = [](Graph& graph, const PassOptions&) {
    const NodeId last = graph.order().back();
    graph.move_before(last, graph.order().front());
    return true;
  };
  const auto erase_the_input = [](Graph& graph, const PassOptions&) {
    const NodeId first[] = {graph.order().front()};
    graph.erase(first);
    return true;
  };
  const auto expect = [](const Pass& breaks, const char* until, const char* why) {
    Graph graph = exponential();
    PassOptions options;
    options.verify = false;
    options.until = until;
    const Pass passes[] = {breaks, {"neither_reads_nor_writes", [](Graph&, const PassOptions&) { return false; }}};
    EXPECT_THAT(error_of([&] { run_passes(graph, passes, options); }), HasSubstr(why));
  };
  for (const char* until : {"", "breaks"}) {
    expect({"breaks", move_to_the_front}, until, "after all passes");
    expect({"breaks", move_to_the_front}, until, "operand %0 is defined later");
    expect({"breaks", erase_the_input}, until, "operand %0 does not exist");
  }
}

TEST(Runner, skips_shows_and_names_the_pass_that_broke_the_graph) {
  Graph graph = exponential();
  const Pass passes[] = {{"eliminate_dead_code", eliminate_dead_code}, {"break_the_types", break_the_types}};
  PassOptions options;
  options.verify = true;
  std::vector<std::string> shown;
  options.after_pass = [&](const PassResult& pass, const Graph&) { shown.emplace_back(pass.name); };
  options.skip = {"break_the_types"};
  run_passes(graph, passes, options);
  EXPECT_THAT(shown, ElementsAre("eliminate_dead_code"));
  options.skip.clear();
  EXPECT_THAT(error_of([&] { run_passes(graph, passes, options); }), HasSubstr("after pass 'break_the_types'"));
  EXPECT_THAT(shown, ElementsAre("eliminate_dead_code", "eliminate_dead_code"));
}

}  // namespace
}  // namespace ridgepoint
