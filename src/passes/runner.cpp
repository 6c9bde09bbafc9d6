#include <algorithm>
#include <chrono>

#include "core/nearest.h"
#include "passes/pass.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

void check_skipped_names(std::span<const Pass> passes, const PassOptions& options) {
  std::vector<std::string_view> names;
  for (const Pass& pass : passes) names.push_back(pass.name);
  for (const std::string& skipped : options.skip) {
    if (std::find(names.begin(), names.end(), skipped) == names.end()) {
      throw Error("no pass is called '" + skipped + "'" + hint(skipped, names), ErrorKind::usage);
    }
  }
}

void check_result(const Graph& graph, const Pass& pass) {
  try {
    verify(graph);
  } catch (const Error& error) {
    throw Error("after pass '" + std::string(pass.name) + "': " + error.what());
  }
}

}  // namespace

std::vector<PassResult> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options) {
  check_skipped_names(passes, options);
  std::vector<PassResult> results;
  for (const Pass& pass : passes) {
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end()) continue;
    if (options.stop_point) options.stop_point();
    const auto begin = std::chrono::steady_clock::now();
    const bool changed = pass.run(graph, options);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    results.push_back({pass.name, changed, elapsed.count()});
    graph.set_insertion_at_end();
    if (!changed) continue;
    if (options.verify) check_result(graph, pass);
    if (options.dump) options.dump(pass.name, graph);
  }
  return results;
}

}  // namespace ridgepoint
