#include "compile/compile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/text/nearest.h"
#include "core/types/enum_names.h"
#include "ir/queries.h"
#include "ir/stored_tensors.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr auto kModeNames = enum_names<Mode>("forward", "training_forward", "forward_backward", "step");
constexpr auto kCompileNames = enum_names<Compile>("off", "fuse", "full");
constexpr auto kShardingNames = enum_names<Sharding>("none", "optimizer", "gradients", "parameters");
constexpr auto kCheckpointNames = enum_names<Checkpoint>("none", "attention", "selective", "block", "nested", "auto");

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

constexpr std::string_view kFlops = "the number of operations of a model";

// The most micro-batches of a run: each has its own nodes.
constexpr std::int64_t kMostMicroBatches = 1024;

void check_training(const CompileOptions& options) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw Error(message, ErrorKind::usage);
  };
  require(options.accumulate >= 1 && options.accumulate <= kMostMicroBatches,
          "a run has 1 to " + std::to_string(kMostMicroBatches) + " micro-batches, not " +
              std::to_string(options.accumulate));
  require(options.accumulate == 1 || runs_backward(options.mode),
          "mode " + std::string(name(options.mode)) + " has no gradients to accumulate");
  require(options.checkpoint_segment >= 1 && (options.checkpoint_segment == 1 || has_segments(options.checkpoint)),
          "a segment of checkpoint policy " + std::string(name(options.checkpoint)) + " cannot have " +
              std::to_string(options.checkpoint_segment) + " blocks");
  const bool is_bf16 = options.precision == Precision::bf16 || options.precision == Precision::fp8;
  require(options.master_weights || is_bf16,
          "parameters without fp32 master weights need bf16 or fp8, not " + std::string(name(options.precision)));
  const bool is_packed = options.base_weights != BaseWeights::as_is;
  require(!is_packed || is_low(matmul_dtype(options.precision)),
          "weights in 4 or 8 bits are widened for products in 16 bits, not in " + std::string(name(options.precision)));
  require(!is_packed || options.lora || !options.frozen.empty() || options.mode == Mode::forward,
          "weights in 4 or 8 bits cannot be trained: freeze some, or add adapters");
  require(!is_packed || options.parallel.shard != Sharding::parameters,
          "weights in 4 or 8 bits are not divided among ranks: shard the optimizer or the gradients");
  require(options.offload != Offload::automatic, "what is offloaded is decided before a graph is compiled");
  require(!includes(options.offload, Offload::optimizer) || options.mode == Mode::step,
          "mode " + std::string(name(options.mode)) + " has no states of an optimizer to offload");
  require(!includes(options.offload, Offload::activations) || runs_backward(options.mode),
          "mode " + std::string(name(options.mode)) + " has no backward phase, for which activations are offloaded");
  const double clip_norm = options.clip_norm.value_or(1);
  require(std::isfinite(clip_norm) && clip_norm > 0, "the norm to which gradients are clipped is greater than 0");
  require(std::isfinite(options.z_loss) && options.z_loss >= 0, "the factor of the z-loss is at least 0");
  const OptimizerOptions& optimizer = options.optimizer;
  const double momentum = optimizer.find("momentum").value_or(0);
  require(momentum >= 0 && momentum < 1, "the momentum is at least 0 and less than 1");
  for (const auto& [key, value] : optimizer.hyperparameters)
    require(optimizer.find(key).has_value(),
            "the optimizer " + std::string(name(optimizer.kind)) + " has no hyperparameter '" + std::string(key) + "'");
}

constexpr Pass kPipeline[] = {
#define RIDGEPOINT_PASS(name) Pass{#name, name},
#include "passes/pass_list.def"
#undef RIDGEPOINT_PASS
};
constexpr std::size_t kTrainingPasses = 17;
static_assert(kPipeline[kTrainingPasses - 1].name == "unscale_gradients");

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

std::span<const Pass> pipeline() { return kPipeline; }
std::span<const Pass> training_passes() { return pipeline().first(kTrainingPasses); }

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

std::string_view name(Mode mode) { return kModeNames[mode]; }
std::string_view name(Sharding sharding) { return kShardingNames[sharding]; }
Sharding sharding_from_name(std::string_view text) { return kShardingNames.parse(text, "unknown sharding '{}'"); }

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
  check_training(options);
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
  check_training(options);
  if (options.level != Compile::off)
    throw Error("fusion depends on the kernels of a device; create a Program of the graph", ErrorKind::usage);
  if (has_backward(forward)) {
    require_no_training(forward, options);
  } else {
    run_passes(forward, training_passes(), PassOptions(options));
  }
  return forward;
}

ParameterCounts count_parameters(Graph forward, const CompileOptions& options) {
  const CompileOptions counted{.optimizer = {.no_decay = options.optimizer.no_decay},
                               .frozen = options.frozen,
                               .lora = options.lora,
                               .until = "exempt_from_decay"};
  const Graph graph = training_graph(std::move(forward), counted);
  ParameterCounts counts;
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Node& node = graph.node(id);
    const std::int64_t elements = graph.type(node.outputs[0]).elements();
    counts.all += elements;
    if (!node.attributes.get_or(kFrozen, false)) counts.trainable += elements;
  }
  return counts;
}

std::int64_t model_flops(Graph forward, const CompileOptions& options) {
  const auto flops_with = [&](Graph graph, std::int64_t micro_batches) {
    const CompileOptions counted{.mode = runs_backward(options.mode) ? options.mode : Mode::forward,
                                 .optimizer = options.optimizer,
                                 .frozen = options.frozen,
                                 .accumulate = micro_batches,
                                 .lora = options.lora,
                                 .until = "eliminate_common_subexpressions"};
    return flops_of(compile(std::move(graph), {}, counted));
  };
  if (!runs_backward(options.mode)) return flops_with(std::move(forward), 1);
  if (options.accumulate <= 3) return flops_with(std::move(forward), options.accumulate);
  // Each further micro-batch has the same operations.
  const std::int64_t of_two = flops_with(forward, 2);
  const std::int64_t of_third = flops_with(std::move(forward), 3) - of_two;
  return checked_sum({of_two, checked_product({options.accumulate - 2, of_third}, kFlops)}, kFlops);
}

}  // namespace ridgepoint
