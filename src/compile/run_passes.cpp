#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "core/text/nearest.h"
#include "ir/verify.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Accepts any pass of the pipeline, because `passes` may be a subset of it.
void check_name(const std::string& asked, std::span<const Pass> passes) {
  std::vector<std::string_view> names = pass_names();
  for (const Pass& pass : passes) names.push_back(pass.name);
  if (std::ranges::find(names, asked) != names.end()) return;
  throw Error("no pass is called '" + asked + "'" + hint(asked, names), ErrorKind::usage);
}

void check_result(void (*check)(const Graph&), const Graph& graph, const std::string& after) {
  try {
    check(graph);
  } catch (const Error& error) {
    throw Error("after " + after + ": " + error.what());
  }
}

PassResult run_pass(Graph& graph, const Pass& pass, const PassOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const bool changed = pass.run(graph, options);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  graph.set_insertion_at_end();
  if (changed && options.verify) check_result(verify, graph, "pass '" + std::string(pass.name) + "'");
  return {pass.name, changed, elapsed.count()};
}

}  // namespace

void run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options) {
  for (const std::string& skipped : options.skip) check_name(skipped, passes);
  if (!options.until.empty()) check_name(options.until, passes);
  for (const Pass& pass : passes) {
    if (std::ranges::find(options.skip, pass.name) == options.skip.end()) {
      if (options.stop_point) options.stop_point();
      const PassResult result = run_pass(graph, pass, options);
      if (options.after_pass) options.after_pass(result, graph);
    }
    if (pass.name == options.until) break;
  }
  // A malformed graph would crash whoever plans it.
  if (!options.verify) check_result(verify_operands, graph, "all passes, of which a debug build names the wrong one");
}

}  // namespace ridgepoint
