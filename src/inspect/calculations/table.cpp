#include "inspect/calculations/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "inspect/calculations/calculations.h"
#include "predict/time/network.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint {
namespace {

constexpr double kMsPerSecond = 1e3;

bool is_eager(const StepFacts& facts) { return facts.config.compile.level == Compile::off; }

double operand_bytes(const StepFacts& facts) {
  return static_cast<double>(size_bytes(matmul_dtype(facts.config.compile.precision)));
}

double stored_bytes(const StepFacts& facts) {
  return facts.config.compile.master_weights ? sizeof(float) : operand_bytes(facts);
}

bool stores_low_copies(const StepFacts& facts) {
  return !is_eager(facts) && operand_bytes(facts) < stored_bytes(facts);
}

// Whether the copies are halves of the parameters.
bool stores_halves(const StepFacts& facts) {
  return stores_low_copies(facts) && matmul_dtype(facts.config.compile.precision) == DType::bf16;
}

// The dtype of --parallel reduce=, else the dtype that backward makes.
double reduced_bytes(const StepFacts& facts, double made) {
  const std::optional<DType> dtype = facts.config.compile.parallel.reduce_dtype;
  return dtype ? static_cast<double>(size_bytes(*dtype)) : made;
}

double state_bytes_of(const StepFacts& facts, const OptimizerOptions& optimizer) {
  double bytes = 0;
  for (const OptimizerState& state : states_of(optimizer)) {
    switch (state.type) {
      case StateType::of_parameter: bytes += stored_bytes(facts); break;
      case StateType::signed_codes:
      case StateType::unsigned_codes: bytes += 1; break;
      case StateType::scales: bytes += static_cast<double>(sizeof(float)) / kBlockElements; break;
    }
  }
  return bytes;
}

// The mean over parameters: with adamw-8bit, parameters that are no multiple of a block have other states.
double state_bytes(const StepFacts& facts) {
  const OptimizerOptions& optimizer = facts.config.compile.optimizer;
  const double bytes = state_bytes_of(facts, optimizer);
  const std::optional<Optimizer> without_blocks = traits(optimizer.kind).without_blocks;
  if (!without_blocks) return bytes;
  const double others = state_bytes_of(facts, {.kind = *without_blocks});
  return others + (bytes - others) * facts.parameters.in_blocks / facts.parameters.all;
}

double count(std::int64_t number) { return static_cast<double>(number); }

double ring_rate(const StepFacts& facts, Op op) { return ring_of(facts.network, facts.ranks(), op).bytes_per_second; }

std::string link_source(const StepFacts& facts, Op op) {
  const Network& network = facts.network;
  if (facts.ranks() > network.ranks_on_machine)
    return fmt::format("--network: rings over machines of {}", network.ranks_on_machine);
  return fmt::format("{}: {:.0f} % of {} GB/s", facts.config.network ? "--network" : facts.card.card,
                     100 * share_inside(network, op), figure(network.inside.bytes_per_second / 1e9));
}

// Tensor ranks are in one machine; ranks that gather from one another are spread over all machines.
double tensor_rate(const StepFacts& facts, double tensor_ranks) {
  return ring_of(facts.network, static_cast<std::int64_t>(tensor_ranks), Op::all_reduce).bytes_per_second;
}
double gathering_rate(const StepFacts& facts, double tensor_ranks) {
  const auto split = static_cast<std::int64_t>(tensor_ranks);
  Network network = facts.network;
  network.ranks_on_machine = std::max<std::int64_t>(1, network.ranks_on_machine / split);
  return ring_of(network, facts.ranks() / split, Op::all_gather).bytes_per_second;
}

constexpr std::string_view kBothSeconds = "(X-1)/X (R + R_L + G)/(Y U_X) + 8 L (Y-1) e T D/W_Y";

Symbols with_split(const StepFacts& facts, Symbols symbols, double tensor_ranks) {
  symbols["Y"] = tensor_ranks;
  symbols["X"] = count(facts.ranks()) / tensor_ranks;
  symbols["W_Y"] = tensor_rate(facts, tensor_ranks);
  symbols["U_X"] = gathering_rate(facts, tensor_ranks);
  return symbols;
}

// The best of the divisors of the ranks that give both ways more than one rank.
double best_tensor_ranks(const StepFacts& facts, const Symbols& symbols) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (std::int64_t split = 2; split <= std::min(facts.ranks() / 2, facts.network.ranks_on_machine); ++split) {
    if (facts.ranks() % split != 0) continue;
    const double seconds = value_of(kBothSeconds, with_split(facts, symbols, count(split)));
    if (seconds >= least) continue;
    least = seconds;
    best = count(split);
  }
  return best;
}

constexpr std::string_view kSegmentBytes = "ceil(L/k) r + k a";
constexpr std::string_view kNestedBytes = "ceil(L/j) r + j r + a";

double best_segment(const Symbols& known, std::string_view symbol, std::string_view formula) {
  Symbols symbols = known;
  double best = 1, least = std::numeric_limits<double>::infinity();
  for (double size = 1; size <= known.at("L"); ++size) {
    symbols[std::string(symbol)] = size;
    const double bytes = value_of(formula, symbols);
    if (bytes >= least) continue;
    least = bytes;
    best = size;
  }
  return best;
}

std::optional<double> seconds(std::optional<double> ms) {
  return ms ? std::optional(*ms / kMsPerSecond) : std::nullopt;
}

template <Sharding kShard>
std::optional<double> sent(const StepFacts& facts) {
  const std::optional<std::int64_t> bytes = facts.run(kShard).training_step->parallel.wire_bytes;
  return bytes ? std::optional(count(*bytes)) : std::nullopt;
}
template <Sharding kShard>
std::optional<double> communication(const StepFacts& facts) {
  return seconds(facts.run(kShard).plan->predicted_communication_ms);
}
template <Sharding kShard>
std::optional<double> exposed(const StepFacts& facts) {
  return seconds(facts.run(kShard).plan->predicted_exposed_ms);
}
template <Sharding kShard>
std::optional<double> peak(const StepFacts& facts) {
  const std::optional<std::int64_t> bytes = facts.run(kShard).memory_bytes.peak_allocated;
  return bytes ? std::optional(count(*bytes)) : std::nullopt;
}

std::optional<double> planned_flops(const StepFacts& facts) {
  const std::optional<std::int64_t> flops = facts.run(Sharding::none).training_step->flops_per_step;
  return flops ? std::optional(count(*flops)) : std::nullopt;
}

std::optional<double> planned_kernels(const StepFacts& facts) {
  const PlanSection& plan = *facts.run(Sharding::none).plan;
  return plan.predicted_ms ? seconds(*plan.predicted_ms - plan.predicted_exposed_ms.value_or(0)) : std::nullopt;
}

}  // namespace

std::span<const SymbolRow> symbol_rows() {
  using Facts = StepFacts;
  static const std::vector<SymbolRow> rows = {
      {"N", "ranks", "ranks", [](const Facts& f) { return count(f.ranks()); },
       [](const Facts&) { return std::string("--parallel data"); }},
      {"B", "sequences of a rank", "", [](const Facts& f) { return count(f.workload.batch); },
       [](const Facts&) { return std::string("--batch"); }},
      {"S", "tokens of a sequence", "tokens", [](const Facts& f) { return count(f.workload.context); },
       [](const Facts&) { return std::string("--context"); }},
      {"T", "tokens of a rank, B S", "tokens",
       [](const Facts& f) { return count(f.workload.batch) * count(f.workload.context); }},
      {"L", "layers", "", [](const Facts& f) { return count(f.workload.model.layers); },
       [](const Facts& f) { return f.workload.model.name; }},
      {"D", "width of the residual stream", "", [](const Facts& f) { return count(f.workload.model.d_model); }},
      {"P", "parameters", "", [](const Facts& f) { return f.parameters.all; }},
      {"M", "parameters that matrix products read", "", [](const Facts& f) { return f.parameters.products; }},
      {"E", "parameters that only matrix products read", "", [](const Facts& f) { return f.parameters.only_products; }},
      {"P_L", "P of all layers", "", [](const Facts& f) { return f.parameters.all_of_blocks; }},
      {"E_L", "E of all layers", "", [](const Facts& f) { return f.parameters.only_products_of_blocks; }},
      {"e", "bytes of an operand of a product", "bytes", operand_bytes,
       [](const Facts& f) { return std::string(name(f.config.compile.precision)); }},
      {"w", "bytes of a stored parameter", "bytes", stored_bytes},
      {"c", "bytes of the copy of a weight that products read, beside the parameter", "bytes",
       [](const Facts& f) { return stores_low_copies(f) ? operand_bytes(f) : 0; },
       [](const Facts& f) { return fmt::format("--compile {}", name(f.config.compile.level)); }},
      {"d", "of c, what halves save: the copy is half of the parameter", "bytes",
       [](const Facts& f) { return stores_halves(f) ? operand_bytes(f) : 0; }},
      {"v", "of d, what backward reads too: products in 8 bits read codes", "bytes",
       [](const Facts& f) {
         return stores_halves(f) && f.config.compile.precision != Precision::fp8 ? operand_bytes(f) : 0;
       }},
      {"u", "bytes of the weight that products, or their casts, read", "bytes",
       [](const Facts& f) { return stores_low_copies(f) ? operand_bytes(f) : stored_bytes(f); }},
      {"g", "bytes of a gradient that is summed, of parameters of E", "bytes",
       [](const Facts& f) { return reduced_bytes(f, operand_bytes(f)); }},
      {"h", "the same, of other parameters", "bytes", [](const Facts& f) { return reduced_bytes(f, stored_bytes(f)); }},
      {"q", "bytes of a gradient that the optimizer reads, of parameters of E", "bytes",
       [](const Facts& f) { return is_eager(f) ? stored_bytes(f) : reduced_bytes(f, operand_bytes(f)); }},
      {"s", "bytes of the optimizer's states of a parameter, the mean", "bytes", state_bytes,
       [](const Facts& f) { return std::string(name(f.config.compile.optimizer.kind)); }},
      {"C", "operations of a card", "flop/s",
       [](const Facts& f) { return *datasheet_flops_per_second(f.card, name(f.config.compile.precision)); },
       [](const Facts& f) {
         return fmt::format("datasheet of {}, dense {}", f.card.card, name(f.config.compile.precision));
       }},
      {"W", "bytes that a rank sends, all_reduce", "bytes/s",
       [](const Facts& f) { return ring_rate(f, Op::all_reduce); },
       [](const Facts& f) { return link_source(f, Op::all_reduce); }},
      {"U", "the same, reduce_scatter and all_gather", "bytes/s",
       [](const Facts& f) { return ring_rate(f, Op::all_gather); },
       [](const Facts& f) { return link_source(f, Op::all_gather); }},
      {"o", "time of an all_reduce of no bytes", "s",
       [](const Facts& f) { return ring_of(f.network, f.ranks(), Op::all_reduce).overhead_seconds; },
       [](const Facts&) { return std::string("a launch, and messages up and down a tree"); }},
      {"n", "all_reduces of a step", "",
       [](const Facts& f) { return count(f.run(Sharding::none).training_step->parallel.collectives.value_or(1)); },
       [](const Facts&) { return std::string("planned, by --parallel bucket"); }},
      {"Q", "memory of a card for the run", "bytes", [](const Facts& f) { return f.capacity_bytes; },
       [](const Facts& f) { return std::string(f.card.card); }},
      {"A", "saved for backward by a rank", "bytes", [](const Facts& f) { return f.planned.saved_bytes; },
       [](const Facts&) { return std::string("planned"); }},
      {"A_P", "the same with sharded parameters", "bytes", [](const Facts& f) { return f.planned.saved_sharded_bytes; },
       [](const Facts&) { return std::string("planned"); }},
      {"a", "saved for backward by one layer, without checkpointing", "bytes",
       [](const Facts& f) { return f.planned.layer_saved_bytes; }, [](const Facts&) { return std::string("planned"); }},
      {"r", "one activation of the residual stream", "bytes", [](const Facts& f) { return f.planned.residual_bytes; },
       [](const Facts&) { return std::string("planned"); }},
  };
  return rows;
}

std::span<const Calculation> calculations() {
  static const std::vector<Calculation> rows = {
      {"all_reduce.gradients", "G", "gradients", "g E + h (P-E)", "bytes"},
      {"all_reduce.to_all", "", "every rank sends its gradients to all others", "(N-1) G", "bytes"},
      {"all_reduce.one_rank", "", "one rank adds all and sends the sum back: that rank", "(N-1) G", "bytes"},
      {"all_reduce.reduce_scatter", "", "ring, reduce_scatter: N-1 messages of G/N", "(N-1) G/N", "bytes"},
      {"all_reduce.all_gather", "", "ring, all_gather: N-1 messages of G/N", "(N-1) G/N", "bytes"},
      {"all_reduce.ring", "", "ring, both", "2 (N-1)/N G", "bytes"},
      {"all_reduce.limit", "", "ring, any number of ranks: less than", "2 G", "bytes"},
      {"all_reduce.to_all_time", "", "time where every rank sends to all others", "(N-1) G/W", "s"},
      {"all_reduce.time", "", "time of the ring", "2 (N-1)/N G/W", "s"},

      {"compute.token", "f", "operations of a token, forward", "2 M + 4 L S D", "flop"},
      {"compute.step", "", "operations of a step of a rank", "3 f T", "flop", planned_flops},
      {"compute.forward_time", "", "time of forward", "f T/C", "s"},
      {"compute.backward_time", "", "time of backward", "2 f T/C", "s"},
      {"compute.time", "", "time of a step", "3 f T/C", "s", planned_kernels},

      {"data_parallel.bytes", "", "sent in a step: gradients, and the loss", "2 (N-1)/N (G + 4)", "bytes",
       sent<Sharding::none>},
      {"data_parallel.time", "", "time of communication", "2 (N-1)/N (G + 4)/W", "s", communication<Sharding::none>},
      {"data_parallel.exposed", "", "of it not hidden behind backward", "max(0, 2 (N-1)/N (G + 4)/W - 2 f T/C)", "s",
       exposed<Sharding::none>},
      {"data_parallel.tokens", "", "tokens of a rank from which it hides", "(N-1)/N G C/(W f)", "tokens"},

      {"buckets.overhead", "", "after backward: the last bucket, and what all calls take", "2 (N-1)/N G/(n W) + n o",
       "s"},
      {"buckets.best_count", "", "buckets with the least of it", "sqrt(2 (N-1)/N G/(W o))", ""},
      {"buckets.best_size", "", "their size", "sqrt(N/(2 (N-1)) G W o)", "bytes"},

      {"optimizer_shards.parameters", "R_1", "new parameters, gathered", "u E + w (P-E)", "bytes"},
      {"optimizer_shards.bytes", "", "sent in a step", "(N-1)/N (G + R_1 + 8)", "bytes", sent<Sharding::optimizer>},
      {"optimizer_shards.time", "", "time of communication", "(N-1)/N (G + R_1 + 8)/U", "s",
       communication<Sharding::optimizer>},

      {"fully_sharded.forward_parameters", "R", "parameters that forward gathers", "e E + w (P-E) + w (M-E)", "bytes"},
      {"fully_sharded.backward_parameters", "R_L", "parameters that backward gathers again: layers",
       "e E_L + w (P_L-E_L)", "bytes"},
      {"fully_sharded.forward_bytes", "", "sent in forward: all_gather", "(N-1)/N R", "bytes"},
      {"fully_sharded.backward_bytes", "", "sent in backward: all_gather, reduce_scatter", "(N-1)/N (R_L + G)",
       "bytes"},
      {"fully_sharded.bytes", "", "sent in a step", "(N-1)/N (R + R_L + G + 8)", "bytes", sent<Sharding::parameters>},
      {"fully_sharded.time", "", "time of communication", "(N-1)/N (R + R_L + G + 8)/U", "s",
       communication<Sharding::parameters>},
      {"fully_sharded.exposed", "", "of it not hidden behind forward and backward",
       "max(0, (N-1)/N R/U - f T/C) + max(0, (N-1)/N (R_L + G)/U - 2 f T/C)", "s", exposed<Sharding::parameters>},
      {"fully_sharded.tokens", "", "tokens of a rank from which it hides", "(N-1)/N C/(U f) max(R, (R_L + G)/2)",
       "tokens"},

      {"tensor.message", "", "activations that an all_reduce sums, of all N T tokens", "e N T D", "bytes"},
      {"tensor.bytes", "", "sent in a step: 4 all_reduces a layer", "4 L 2 (N-1)/N e N T D", "bytes"},
      {"tensor.time", "", "time of communication", "4 L 2 (N-1)/N e N T D/W", "s"},
      {"tensor.ranks", "", "ranks up to which it takes no longer than the arithmetic", "1 + 3 f W/(8 L e D C)", ""},
      {"tensor.width", "", "least width for N ranks, layers of this shape",
       "max(0, 8 (N-1) e C/W - 12 S) L D^2/(6 E_L)", ""},

      {"both.tensor_ranks", "Y", "tensor ranks of a group, of those that divide N: least time", kBothSeconds, "ranks",
       nullptr, best_tensor_ranks, 4},
      {"both.sharded_ranks", "X", "ranks among which parameters are divided", "N/Y", "ranks", nullptr, nullptr, 4},
      {"both.tensor_rate", "W_Y", "rate of all_reduce among Y ranks of a machine", "", "bytes/s", nullptr,
       [](const StepFacts& f, const Symbols& symbols) { return tensor_rate(f, symbols.at("Y")); }, 4},
      {"both.gathering_rate", "U_X", "rate of all_gather among X ranks", "", "bytes/s", nullptr,
       [](const StepFacts& f, const Symbols& symbols) { return gathering_rate(f, symbols.at("Y")); }, 4},
      {"both.parameter_bytes", "", "sent in a step: parameters and gradients", "(X-1)/X (R + R_L + G)/Y", "bytes",
       nullptr, nullptr, 4},
      {"both.activation_bytes", "", "sent in a step: activations", "8 L (Y-1) e T D", "bytes", nullptr, nullptr, 4},
      {"both.time", "", "time of communication", kBothSeconds, "s", nullptr, nullptr, 4},
      {"both.best_split", "", "Y with the least time, were it no whole number",
       "sqrt((R + R_L + G) W_Y/(8 L e T D U_X))", "ranks", nullptr, nullptr, 4},
      {"both.tokens", "", "tokens of a rank from which it takes no longer than the arithmetic",
       "(X-1)/X (R + R_L + G)/(Y U_X)/(3 f/C - 8 L (Y-1) e D/W_Y)", "tokens", nullptr, nullptr, 4},

      {"memory.states", "Z", "parameters, copies of weights, optimizer states", "w P + c E + s P", "bytes"},
      {"memory.gradients", "K", "gradients", "q E + w (P-E)", "bytes",
       [](const StepFacts& f) { return std::optional(f.planned.gradient_bytes); }},
      {"memory.layer_gradients", "", "of them, those of one layer", "(q E_L + w (P_L-E_L))/L", "bytes",
       [](const StepFacts& f) { return f.planned.layer_gradient_bytes; }},
      {"memory.none", "", "peak: activations are freed while gradients are made", "Z - d E + max(A, K)", "bytes",
       peak<Sharding::none>},
      {"memory.optimizer", "", "peak, optimizer states sharded",
       "R_1 - d E + (Z - R_1)/N + max(d E, max(v E + A, G + K/N))", "bytes", peak<Sharding::optimizer>},
      {"memory.gradient_shards", "", "peak, gradients sharded too",
       "R_1 - d E + (Z - R_1)/N + max(d E, max(v E + A, K/N))", "bytes", peak<Sharding::gradients>},
      {"memory.parameters", "", "peak, parameters sharded too; two layers are whole",
       "(Z - d E)/N + max(A_P, K/N) + 2 R_L/L", "bytes", peak<Sharding::parameters>},
      {"memory.least_ranks", "", "least ranks that hold all of it sharded", "ceil((Z - d E + K)/(Q - A_P - 2 R_L/L))",
       "ranks"},

      {"checkpointing.none", "", "all layers save everything", "L a", "bytes"},
      {"checkpointing.optimum", "", "layers of a segment with the least memory, were it no whole number", "sqrt(L r/a)",
       ""},
      {"checkpointing.least", "", "the memory then", "2 sqrt(L r a)", "bytes"},
      {"checkpointing.segment", "k", "layers of a segment: least memory", kSegmentBytes, "", nullptr,
       [](const StepFacts&, const Symbols& symbols) { return best_segment(symbols, "k", kSegmentBytes); }},
      {"checkpointing.bytes", "", "inputs of segments, and one segment", kSegmentBytes, "bytes"},
      {"checkpointing.again", "", "computed again: one more forward of the layers", "(2 E_L + 4 L S D) T", "flop"},
      {"checkpointing.nested_segment", "j", "nested: layers of a segment with least memory", kNestedBytes, "", nullptr,
       [](const StepFacts&, const Symbols& symbols) { return best_segment(symbols, "j", kNestedBytes); }},
      {"checkpointing.nested_bytes", "", "nested: inputs of segments, of the layers of one, and one layer",
       kNestedBytes, "bytes"},
      {"checkpointing.nested_least", "", "nested, segments of sqrt(L) layers", "2 sqrt(L) r + a", "bytes"},
      {"checkpointing.nested_again", "", "nested: computed again, twice", "2 (2 E_L + 4 L S D) T", "flop"},
      {"checkpointing.recursive", "", "halves of halves, m(n) = r + m(n/2), m(1) = a", "log2(L) r + a", "bytes"},
      {"checkpointing.recursive_again", "", "halves of halves: computed again, log2 L times",
       "log2(L) (2 E_L + 4 L S D) T", "flop"},
  };
  return rows;
}

const std::vector<ExplainedTopic>& explained_topics() {
  static const std::vector<ExplainedTopic> topics = {
      {"all_reduce", "An all_reduce of the gradients, by several means",
       "Each rank adds the gradients of all ranks. In a ring, each rank sends to its neighbour alone."},
      {"compute", "Arithmetic",
       "2 operations for each parameter of a product and each token, and 4 S D in attention, for each layer; backward "
       "has twice as many. Planned: the operations of the graph, and the predicted time of its kernels."},
      {"data_parallel", "Data parallel",
       "Gradients are summed while backward runs. Planned communication is slowed by the kernels that run beside it. "
       "For a table of tokens of 64 MiB or more, ranks gather the gradients of tokens instead, and send less."},
      {"buckets", "Data parallel, in buckets",
       "Every bucket but the last is summed behind the backward that follows it, if communication takes as long as "
       "backward."},
      {"optimizer_shards", "Data parallel, optimizer states sharded (ZeRO 1)",
       "Gradients are scattered, and new parameters gathered. The loss has 4 bytes, which an all_reduce sends twice."},
      {"fully_sharded", "Parameters sharded (FSDP, ZeRO 3)",
       "Parameters are gathered for forward and again for backward, and gradients scattered. The head is still whole "
       "when backward begins, and backward of the embedding reads no parameter."},
      {"tensor", "Tensor parallel",
       "The matrices of each layer are divided among N ranks, which compute the same N T tokens (Megatron-LM). "
       "Attention and feed-forward each need one all_reduce in forward and one in backward. The engine has no tensor "
       "parallelism, so nothing is planned."},
      {"both", "Parameters sharded and tensor parallel",
       "N = X Y: Y ranks divide the matrices of a layer, and X such groups divide the parameters. A group computes Y T "
       "tokens. Both kinds of messages share the links, so their times add up."},
      {"memory", "Memory of a card",
       "Planned: the peak of allocated memory, with temporaries, workspaces and the buckets of gradients that are "
       "summed, which the formula leaves out. Whole weights of halves are gathered for a step and freed in backward. "
       "With only optimizer states sharded, whole gradients stay beside the rank's part of their sums until the "
       "update."},
      {"checkpointing", "Activation checkpointing",
       "Saved activations of the layers. i nested checkpoints a level give m(n) = i r + m(n/(i+1)), so m(L) = i "
       "log2(L)/log2(i+1) r + a, which is least for i = 1."},
  };
  return topics;
}

}  // namespace ridgepoint
