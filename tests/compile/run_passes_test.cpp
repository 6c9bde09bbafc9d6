// run_passes(): names, skipped passes, callbacks and verification.
#include <gmock/gmock.h>

#include "compile/pipeline.h"
#include "passes/graph_lines.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::ElementsAre;

TEST(Runner, names_the_nearest_pass_for_an_unknown_one) {
  Graph graph;
  PassOptions options;
  options.skip = {"eliminate_dead_cod"};
  try {
    run_passes(graph, pipeline(), options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'eliminate_dead_code'"), std::string::npos);
  }
}

TEST(Runner, skips_shows_and_names_the_pass_that_broke_the_graph) {
  Graph graph = testing::graph_of(R"(
%0:fp32[2] = input() {name="x", role="data"}
%1:fp32[2] = exp(%0)
output "y" %1
)");
  const Pass breaks{"break_the_types", [](Graph& g, const PassOptions&) {
                      g.set_type(*g.find_output("y"), {DType::fp32, {3}});
                      return true;
                    }};
  const Pass passes[] = {{"eliminate_dead_code", eliminate_dead_code}, breaks};
  PassOptions options;
  options.verify = true;
  std::vector<std::string> shown;
  options.after_pass = [&](const PassResult& pass, const Graph&) { shown.emplace_back(pass.name); };
  options.skip = {"break_the_types"};
  run_passes(graph, passes, options);
  EXPECT_THAT(shown, ElementsAre("eliminate_dead_code"));
  options.skip.clear();
  try {
    run_passes(graph, passes, options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("after pass 'break_the_types'"), std::string::npos);
  }
  EXPECT_THAT(shown, ElementsAre("eliminate_dead_code", "eliminate_dead_code"));
}

}  // namespace
}  // namespace ridgepoint
