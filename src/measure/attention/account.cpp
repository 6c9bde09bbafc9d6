#include "measure/attention/account.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "measure/memory/formula.h"
#include "measure/record/run_record.h"
#include "memory/memory_trace.h"
#include "ops/layout.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kTraceEvents = 1 << 16;  // a call of attention makes a few hundred
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
  std::optional<std::size_t> output;  // empty for a workspace
  std::size_t bytes = 0;
};

using LiveBlocks = std::map<std::uint64_t, Block>;  // by address

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

AccountLine line_of(const Graph& graph, const Block& block, std::size_t workspace_bytes) {
  AccountLine line;
  line.component = component_of(graph, block);
  if (block.output) {
    const TensorType& type = graph.type(graph.node(block.node).outputs[*block.output]);
    line.shape = shape_in_symbols(type.shape);
    line.formula = bytes_formula(type);
    line.predicted_bytes = static_cast<std::int64_t>(type.bytes());
  } else {
    line.predicted_bytes = static_cast<std::int64_t>(workspace_bytes);
  }
  line.measured_bytes = static_cast<std::int64_t>(block.bytes);
  const std::int64_t rounded =
      std::max((line.predicted_bytes + kRoundingBytes - 1) / kRoundingBytes, std::int64_t{1}) * kRoundingBytes;
  line.rounding_bytes = rounded - line.predicted_bytes;
  line.unsplit_bytes = line.measured_bytes - rounded;
  return line;
}

// Replays the trace of an allocator and keeps its state before backward and at the peak.
class Replay {
 public:
  explicit Replay(const Graph& graph) : graph_(graph) {}

  void follow(const MemoryTrace& trace) {
    for (std::size_t i = 0; i < trace.size(); ++i) follow(trace[i]);
  }

  std::vector<AccountMoment> moments() const {
    std::vector<AccountMoment> moments;
    if (before_backward_) moments.push_back(moment(*before_backward_, "before backward"));
    moments.push_back(moment(peak_, "peak, " + where(peak_.node)));
    return moments;
  }

 private:
  struct State {
    LiveBlocks blocks;
    std::size_t allocated_bytes = 0;
    std::size_t reserved_bytes = 0;
    NodeId node;  // of the last allocation
  };

  void follow(const MemoryEvent& event) {
    switch (event.kind) {
      case MemoryEventKind::alloc:
        allocate(event);
        break;
      case MemoryEventKind::free:
        now_.allocated_bytes -= now_.blocks.at(event.address).bytes;
        now_.blocks.erase(event.address);
        break;
      case MemoryEventKind::segment_alloc:
        now_.reserved_bytes += event.bytes;
        break;
      case MemoryEventKind::segment_free:
        now_.reserved_bytes -= event.bytes;
        break;
      case MemoryEventKind::oom:
        break;
    }
  }

  // The blocks of a node's outputs come in their order.
  void allocate(const MemoryEvent& event) {
    const NodeId node{event.node};
    const bool is_backward = graph_.node(node).phase == Phase::backward;
    if (is_backward && !before_backward_) before_backward_ = now_;
    Block block{node, std::nullopt, event.bytes};
    if (event.category == MemoryCategory::workspace) {
      workspace_bytes_[event.node] = event.requested_bytes;
    } else {
      block.output = outputs_seen_[event.node]++;
    }
    now_.blocks[event.address] = block;
    now_.allocated_bytes += event.bytes;
    now_.node = node;
    if (now_.allocated_bytes > peak_.allocated_bytes) peak_ = now_;
  }

  std::string where(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string& scope = graph_.scope_name(node);
    return "in " + std::string(name(node.phase)) + " at " + std::string(name(node.op)) +
           (scope.empty() ? "" : " of " + scope);
  }

  AccountMoment moment(const State& state, std::string name) const {
    AccountMoment moment{std::move(name),
                         {},
                         static_cast<std::int64_t>(state.allocated_bytes),
                         static_cast<std::int64_t>(state.reserved_bytes)};
    std::vector<Block> blocks;
    for (const auto& [address, block] : state.blocks) blocks.push_back(block);
    std::ranges::stable_sort(blocks, {}, [&](const Block& block) {
      const bool is_made = graph_.node(block.node).op != Op::input;
      return std::tuple(is_made, place_of(block.node), block.output.value_or(SIZE_MAX));
    });
    for (const Block& block : blocks) {
      const auto workspace = workspace_bytes_.find(block.node.id);
      moment.lines.push_back(line_of(graph_, block, workspace == workspace_bytes_.end() ? 0 : workspace->second));
    }
    return moment;
  }

  std::size_t place_of(NodeId id) const {
    return static_cast<std::size_t>(std::ranges::find(graph_.order(), id) - graph_.order().begin());
  }

  const Graph& graph_;
  State now_, peak_;
  std::optional<State> before_backward_;
  std::map<std::uint32_t, std::size_t> outputs_seen_;     // by node
  std::map<std::uint32_t, std::size_t> workspace_bytes_;  // before rounding, by node
};

}  // namespace

AttentionAccount account_for_attention(const AttentionConfig& config) {
  const RunConfig run = run_config(config);
  AttentionAccount account{config.problem, describe_run(config), {}};
  record_outcome(account.run, [&] {
    Session session(run, {}, account.run);
    const ProgramPlan plan = session.plan();
    session.require_room(plan, session.forecast(plan));
    MemoryTrace trace(kTraceEvents);
    Program program = session.make(plan, &trace);
    program.run();
    program.synchronize();
    Replay replay(program.graph());
    replay.follow(trace);
    account.moments = replay.moments();
  });
  return account;
}

}  // namespace ridgepoint
