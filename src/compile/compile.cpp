#include "compile/compile.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compile/pipeline.h"
#include "core/enum_names.h"
#include "ops/rule.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr auto kModeNames = enum_names<Mode>("forward", "training_forward", "backward", "step");
constexpr auto kCompileNames = enum_names<Compile>("off", "fuse", "full");
constexpr auto kCheckpointNames = enum_names<Checkpoint>("none", "attention", "selective", "block", "auto");

bool has_backward(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) { return graph.node(id).phase == Phase::backward; });
}

void require_no_training(const Graph& graph, const CompileOptions& options) {
  const bool is_plain = options.precision == Precision::fp32 && options.checkpoint == Checkpoint::none;
  if (options.mode == Mode::forward && is_plain) return;
  throw Error("graph '" + graph.name +
                  "' has a backward phase already; mode, precision and checkpointing need a forward graph: omit these "
                  "options",
              ErrorKind::usage);
}

}  // namespace

std::string_view name(Mode mode) { return kModeNames[mode]; }
Mode mode_from_name(std::string_view text) { return kModeNames.parse(text, "unknown mode '{}'"); }

std::string_view name(Compile compile) { return kCompileNames[compile]; }
Compile compile_from_name(std::string_view text) { return kCompileNames.parse(text, "unknown compile level '{}'"); }

std::string_view name(Checkpoint checkpoint) { return kCheckpointNames[checkpoint]; }
Checkpoint checkpoint_from_name(std::string_view text) {
  return kCheckpointNames.parse(text, "unknown checkpoint policy '{}'");
}

bool CompileOptions::verifies_by_default() {
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : pipeline()) names.push_back(pass.name);
  return names;
}

std::string_view last_training_pass() { return training_passes().back().name; }

Graph compile(Graph graph, const PassTarget& target, const CompileOptions& options) {
  verify(graph);
  std::span<const Pass> passes = pipeline();
  if (has_backward(graph)) {
    require_no_training(graph, options);
    passes = passes.subspan(training_passes().size());
  }
  PassOptions with_target(options, target);
  with_target.target.has_kernel = [&](const Graph& of, const Node& node) {
    return std::ranges::find(options.decompose, node.op) == options.decompose.end() && target.has_kernel(of, node);
  };
  run_passes(graph, passes, with_target);
  return graph;
}

Graph training_graph(Graph forward, const CompileOptions& options) {
  verify(forward);
  if (options.level != Compile::off)
    throw Error("fusion depends on the kernels of a device; create a Program of the graph", ErrorKind::usage);
  if (has_backward(forward)) {
    require_no_training(forward, options);
  } else {
    run_passes(forward, training_passes(), PassOptions(options));
  }
  return forward;
}

std::int64_t model_flops(Graph forward, Mode mode) {
  const CompileOptions options{.mode = runs_backward(mode) ? mode : Mode::forward,
                               .until = "eliminate_common_subexpressions"};
  return flops_of(compile(std::move(forward), {}, options));
}

}  // namespace ridgepoint
