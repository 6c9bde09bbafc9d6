#include "inspect/attention/account.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "inspect/memory/analyse.h"
#include "inspect/memory/run/record_history.h"
#include "memory/memory_trace.h"
#include "ops/layout.h"
#include "predict/formula.h"
#include "ridgepoint/core/error.h"
#include "run/session/run_record.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kRoundingBytes = 512;
// A plan may fit in one iteration and not in the next; forecasts run until iterations repeat, which takes two or three.
constexpr std::int64_t kMostIterations = 100;

// The usual names of forward results. Decomposed attention has no scopes.
struct KnownResult {
  std::string_view scope;
  Op op;
  std::size_t output;
  std::string_view name;
};
constexpr std::array kKnownResults = {
    KnownResult{"", Op::attention, 1, "log-sum-exp"},         KnownResult{"", Op::add, 0, "log-sum-exp"},
    KnownResult{"scores", Op::matmul, 0, "products q k"},     KnownResult{"scores", Op::mul, 0, "scores"},
    KnownResult{"mask", Op::causal_mask, 0, "masked scores"}, KnownResult{"softmax", Op::reduce_max, 0, "row maxima"},
    KnownResult{"softmax", Op::sub, 0, "shifted scores"},     KnownResult{"softmax", Op::exp, 0, "exponentials"},
    KnownResult{"softmax", Op::reduce_sum, 0, "row sums"},    KnownResult{"softmax", Op::div, 0, "weights"},
    KnownResult{"softmax", Op::softmax, 0, "weights"},
};

// A block of a node's output or workspace.
struct Block {
  BlockSource source;
  const BlockLife* life = nullptr;
};

std::string describe_result(const Graph& graph, const Node& node, std::size_t output) {
  const std::string& scope = graph.scope_name(node);
  if (node.op == Op::cast) {
    const Value source = view_root(graph, node.inputs[0]);
    return describe_result(graph, graph.producer_node(source), 0) + " as " +
           std::string(name(graph.type(node.outputs[0]).dtype));
  }
  for (const KnownResult& known : kKnownResults) {
    const bool is_here = scope.empty() || known.scope == scope;
    if (node.phase == Phase::forward && is_here && known.op == node.op && known.output == output) {
      return std::string(known.name);
    }
  }
  std::string text = node.phase == Phase::backward ? "backward " : "";
  text += std::string(name(node.op));
  return scope.empty() ? text : text + " of " + scope;
}

std::string component_of(const Graph& graph, const BlockSource& source) {
  const Node& node = graph.node(source.node);
  if (!source.output) return "workspace";
  const Value value = node.outputs[*source.output];
  if (node.op == Op::input) return input_name(node);
  for (const Output& output : graph.outputs()) {
    if (view_root(graph, output.value) == value) return output.name;
  }
  return describe_result(graph, node, *source.output);
}

// What is asked for.
AccountLine request_of(const Graph& graph, const BlockSource& source, std::uint64_t requested_bytes) {
  AccountLine line;
  line.component = component_of(graph, source);
  line.predicted_bytes = static_cast<std::int64_t>(requested_bytes);
  if (!source.output) return line;
  const TensorType& type = graph.type(graph.node(source.node).outputs[*source.output]);
  line.shape = shape_in_symbols(type.shape);
  line.formula = bytes_formula(type);
  line.predicted_bytes = static_cast<std::int64_t>(type.bytes());
  return line;
}

AccountLine line_of(const Graph& graph, const Block& block) {
  AccountLine line = request_of(graph, block.source, block.life->requested_bytes());
  line.measured_bytes = static_cast<std::int64_t>(block.life->bytes);
  const std::int64_t rounded =
      std::max((line.predicted_bytes + kRoundingBytes - 1) / kRoundingBytes, std::int64_t{1}) * kRoundingBytes;
  line.rounding_bytes = rounded - line.predicted_bytes;
  line.unsplit_bytes = line.measured_bytes - rounded;
  return line;
}

// Lists the blocks that a run of the graph holds at a moment.
class Lines {
 public:
  Lines(const RecordedMemory& recorded, const MemoryAnalysis& analysis, const Graph& graph)
      : recorded_(recorded), analysis_(analysis), graph_(graph) {}

  AccountMoment at(const MemoryContents& contents, std::string name) const {
    AccountMoment moment{std::move(name),
                         {},
                         static_cast<std::int64_t>(contents.levels.allocated_bytes),
                         static_cast<std::int64_t>(contents.levels.reserved_bytes)};
    std::vector<Block> blocks;
    analysis_.lifetimes.for_each({}, [&](const BlockLife& life) {
      if (life.is_allocated(contents.at.moment)) blocks.push_back({recorded_.sources[life.origin], &life});
    });
    std::ranges::stable_sort(blocks, {}, [&](const Block& block) {
      const bool is_made = graph_.node(block.source.node).op != Op::input;
      return std::tuple(is_made, place_of(block.source.node), block.source.output.value_or(UINT32_MAX));
    });
    for (const Block& block : blocks) moment.lines.push_back(line_of(graph_, block));
    return moment;
  }

  // The contents when the last request of the history failed.
  AccountMoment at_failure(const MemoryContents& held) const {
    const MemoryHistory& history = recorded_.snapshot.histories.front();
    const MemoryHistory::Request& request = history.request(history.added_event(history.added() - 1).request);
    const bool is_arena = request.origin == kNoOrigin;
    AccountMoment moment = at(held, "out of memory, " + (is_arena ? "before the first op" : where(request.origin)));
    moment.refused = is_arena ? AccountLine{.component = "arena of all tensors",
                                            .predicted_bytes = static_cast<std::int64_t>(request.size_bytes)}
                              : request_of(graph_, recorded_.sources[request.origin], request.size_bytes);
    return moment;
  }

  AccountMoment at_peak(const MemoryContents& contents) const {
    std::uint32_t origin = kNoOrigin;  // of the block that was allocated last
    for (const BlockLife& life : analysis_.lifetimes.recorded) {
      if (life.begin <= contents.at.moment) origin = life.origin;
    }
    return at(contents, "peak, " + where(origin));
  }

 private:
  std::string where(std::uint32_t origin) const {
    const Node& node = graph_.node(recorded_.sources[origin].node);
    const std::string& scope = graph_.scope_name(node);
    return "in " + std::string(name(node.phase)) + " at " + std::string(name(node.op)) +
           (scope.empty() ? "" : " of " + scope);
  }
  std::size_t place_of(NodeId id) const {
    return static_cast<std::size_t>(std::ranges::find(graph_.order(), id) - graph_.order().begin());
  }

  const RecordedMemory& recorded_;
  const MemoryAnalysis& analysis_;
  const Graph& graph_;
};

std::vector<AccountMoment> moments_of(const RecordedMemory& recorded, const Graph& graph) {
  const MemoryAnalysis analysis = analyse_memory(recorded.snapshot, 0);
  const MemoryReport& report = analysis.report;
  const Lines lines(recorded, analysis, graph);
  if (!report.out_of_memory.empty()) return {lines.at_failure(report.out_of_memory.front().held)};
  std::vector<AccountMoment> moments;
  if (report.before_backward) moments.push_back(lines.at(*report.before_backward, "before backward"));
  moments.push_back(lines.at_peak(report.contents));
  return moments;
}

}  // namespace

AttentionAccount account_for_attention(const AttentionConfig& config) {
  const RunConfig run = run_config(config);
  AttentionAccount account{config.problem, describe_run(config), {}};
  record_outcome(account.run, [&] {
    Session session(run, {}, account.run);
    const ProgramPlan plan = session.plan();
    const std::size_t available_bytes = session.available_bytes();
    MemoryTrace trace(HistoryRecorder::most_events(plan, kMostIterations));
    HistoryRecorder recorder(plan, trace);
    try {
      session.require_room(plan, session.forecast(plan));
      Program program = session.make(plan, &trace);
      recorder.iterate(program);
      account.moments = moments_of(recorder.finish(0, session.computes()), plan.graph());
    } catch (const OutOfMemory&) {
      if (trace.size() == 0) recorder.walk(available_bytes, kMostIterations);
      account.moments = moments_of(recorder.finish(0, false), plan.graph());
      throw;
    }
  });
  return account;
}

}  // namespace ridgepoint
