#include "inspect/attention/account.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "inspect/memory/blocks.h"
#include "inspect/memory/contents.h"
#include "inspect/memory/history.h"
#include "memory/memory_trace.h"
#include "ops/layout.h"
#include "predict/formula.h"
#include "run/session/run_record.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kRoundingBytes = 512;

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
  NodeId node;
  std::optional<std::uint32_t> output;  // empty for a workspace
  const MemoryEvent* allocation = nullptr;
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

std::string component_of(const Graph& graph, const Block& block) {
  const Node& node = graph.node(block.node);
  if (!block.output) return "workspace";
  const Value value = node.outputs[*block.output];
  if (node.op == Op::input) return input_name(node);
  for (const Output& output : graph.outputs()) {
    if (view_root(graph, output.value) == value) return output.name;
  }
  return describe_result(graph, node, *block.output);
}

AccountLine line_of(const Graph& graph, const Block& block) {
  AccountLine line;
  line.component = component_of(graph, block);
  if (block.output) {
    const TensorType& type = graph.type(graph.node(block.node).outputs[*block.output]);
    line.shape = shape_in_symbols(type.shape);
    line.formula = bytes_formula(type);
    line.predicted_bytes = static_cast<std::int64_t>(type.bytes());
  } else {
    line.predicted_bytes = static_cast<std::int64_t>(block.allocation->requested_bytes);
  }
  line.measured_bytes = static_cast<std::int64_t>(block.allocation->bytes);
  const std::int64_t rounded =
      std::max((line.predicted_bytes + kRoundingBytes - 1) / kRoundingBytes, std::int64_t{1}) * kRoundingBytes;
  line.rounding_bytes = rounded - line.predicted_bytes;
  line.unsplit_bytes = line.measured_bytes - rounded;
  return line;
}

// Lists the blocks that a run of the graph holds at a moment.
class Lines {
 public:
  Lines(const MemoryHistory& history, const Graph& graph)
      : history_(history), graph_(graph), outputs_(outputs_of_blocks(history, graph)) {}

  AccountMoment at(const HeldMemory& held, std::string name) const {
    AccountMoment moment{std::move(name),
                         {},
                         static_cast<std::int64_t>(held.level.allocated_bytes),
                         static_cast<std::int64_t>(held.level.reserved_bytes)};
    std::vector<Block> blocks;
    for (const std::size_t index : live_blocks_at(history_, held.moment)) {
      const MemoryEvent& allocation = history_.events[index];
      blocks.push_back({NodeId{allocation.node}, outputs_[index], &allocation});
    }
    std::ranges::stable_sort(blocks, {}, [&](const Block& block) {
      const bool is_made = graph_.node(block.node).op != Op::input;
      return std::tuple(is_made, place_of(block.node), block.output.value_or(UINT32_MAX));
    });
    for (const Block& block : blocks) moment.lines.push_back(line_of(graph_, block));
    return moment;
  }

  // The node for which memory was allocated last before the moment.
  std::string where(std::size_t moment) const {
    while (history_.events[moment - 1].kind != MemoryEventKind::alloc) --moment;
    const Node& node = graph_.node(NodeId{history_.events[moment - 1].node});
    const std::string& scope = graph_.scope_name(node);
    return "in " + std::string(name(node.phase)) + " at " + std::string(name(node.op)) +
           (scope.empty() ? "" : " of " + scope);
  }

 private:
  std::size_t place_of(NodeId id) const {
    return static_cast<std::size_t>(std::ranges::find(graph_.order(), id) - graph_.order().begin());
  }

  const MemoryHistory& history_;
  const Graph& graph_;
  std::vector<std::optional<std::uint32_t>> outputs_;  // by event
};

std::vector<AccountMoment> moments_of(const MemoryHistory& history, const Graph& graph) {
  const Lines lines(history, graph);
  const MemoryPeaks peaks = find_peaks(history, graph);
  std::vector<AccountMoment> moments;
  if (peaks.before_backward) moments.push_back(lines.at(*peaks.before_backward, "before backward"));
  const HeldMemory& highest = peaks.phases[peaks.highest].contents;
  moments.push_back(lines.at(highest, "peak, " + lines.where(highest.moment)));
  return moments;
}

}  // namespace

AttentionAccount account_for_attention(const AttentionConfig& config) {
  const RunConfig run = run_config(config);
  AttentionAccount account{config.problem, describe_run(config), {}};
  record_outcome(account.run, [&] {
    Session session(run, {}, account.run);
    const ProgramPlan plan = session.plan();
    session.require_room(plan, session.forecast(plan));
    MemoryTrace trace(HistoryRecorder::most_events(plan, 1));
    Program program = session.make(plan, &trace);
    HistoryRecorder recorder(program, trace);
    recorder.iterate();
    account.moments = moments_of(recorder.finish(0), program.graph());
  });
  return account;
}

}  // namespace ridgepoint
