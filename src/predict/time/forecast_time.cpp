#include "predict/time/forecast_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/queries.h"
#include "ops/attention_form.h"
#include "ops/collectives.h"
#include "ops/node_key.h"
#include "ops/rule.h"
#include "ops/rules/optimizer/optimizer.h"
#include "predict/time/kernel_rates.h"
#include "predict/time/launch_timeline.h"
#include "predict/time/network.h"
#include "runtime/device/device.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint {
namespace {

// The errors that docs/predicted_times.md states, and the GPU on which they were found.
constexpr std::string_view kMeasuredCard = "H200 SXM";
constexpr std::string_view kMeasuredCardOfRanks = "H100 SXM";
constexpr std::int64_t kMeasuredRanks = 2;
constexpr double kError = 0.10;
constexpr double kErrorInTf32 = 0.15;

constexpr double kMsPerSecond = 1e3;

// How often the accesses of what a product ends in count, of which its sums hide some. Writes leave while the next tile
// is summed; what a tile reads must be there before it ends. A norm waits for whole rows; its derivative reads them
// twice, and sums columns too, in launches of their own.
constexpr double kShownOfReads = 1.0, kShownOfWrites = 0.2;
constexpr double kShownOfRows = 0.8, kShownOfRowsAndColumns = 1.5;
constexpr double kColumnSumsFixed = 5e-6;

// The shares of attention were fitted to calls by themselves. Beside products the GPU's power limit lowers its clock.
constexpr double kAttentionBesideProducts = 1.4;

// Whether the last axis of the value is another one of the tensor that it is a view of.
bool moves_last_axis(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  if (node.op != Op::transpose) return false;
  const auto& permutation = node.attributes.get<std::vector<std::int64_t>>("permutation");
  return permutation.back() != static_cast<std::int64_t>(permutation.size()) - 1;
}

std::optional<ProductKind> product_kind(const Graph& graph, const Node& node) {
  if (is_tf32(node)) {
    const bool is_contiguous = !moves_last_axis(graph, node.inputs[0]) && moves_last_axis(graph, node.inputs[1]);
    return is_contiguous ? ProductKind::tf32 : ProductKind::tf32_strided;
  }
  switch (graph.type(node.inputs[0]).dtype) {
    case DType::fp32:
      return ProductKind::fp32;
    case DType::bf16:
    case DType::fp16:
      return ProductKind::half;
    case DType::e4m3:
    case DType::e5m2:
      return ProductKind::quarter;
    default:
      return std::nullopt;
  }
}

ProductKind products_of_attention(const Node& node, DType dtype) {
  if (dtype != DType::fp32) return ProductKind::half;
  return is_tf32(node) ? ProductKind::tf32 : ProductKind::fp32;
}

AttentionSize attention_size(const Graph& graph, const Node& node) {
  const bool is_backward = node.op == Op::attention_backward;
  const std::size_t q = is_backward ? 1 : 0;
  const TensorType& queries = graph.type(node.inputs[q]);
  const std::int64_t keys = graph.type(node.inputs[q + 1]).shape[-2];
  const AttentionForm form = attention_form(node.attributes);
  AttentionSize size{.queries = queries.shape[-2],
                     .keys = keys,
                     .width = queries.shape[-1],
                     .causal = form.causal,
                     .window = form.window < keys ? form.window : 0,
                     .has_soft_cap = form.soft_cap > 0,
                     .bytes = static_cast<double>(bytes_of(graph, node)),
                     .products = products_of_attention(node, queries.dtype),
                     .is_backward = is_backward};
  for (int axis = 0; axis < queries.shape.rank() - 2; ++axis) size.batch *= queries.shape[axis];
  return size;
}

// Whether the time of the node is that of a product, which may end in elementwise work.
bool is_product(const Node& node) {
  return traits(node.op).kernel_class == KernelClass::matmul || (node.op == Op::fused && node.origin == Op::matmul);
}

// Whether what a product ends in needs whole rows.
bool sums_rows(const Node& node) { return has_op_of(node.body->graph, OpClass::reduction); }

// Whether a result has one value for each column, as the gradient of a norm's weight.
bool sums_columns(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](Value value) { return graph.type(value).shape.rank() == 1; });
}

// A product that ends in elementwise work and sums.
KernelTime fused_product(const Graph& graph, const Node& node, ProductKind kind, const KernelRates& rates) {
  double operands = 0, results = 0;  // bytes
  for (std::size_t i = 0; i < 2; ++i) operands += static_cast<double>(graph.type(node.inputs[i]).bytes());
  for (const Value value : node.outputs) results += static_cast<double>(graph.type(value).bytes());
  const auto others = std::max(static_cast<double>(bytes_of(graph, node)) - operands - results, 0.0);
  KernelTime time = rates.product(kind, static_cast<double>(cost(graph, node).flops), operands);
  if (!sums_rows(node)) {
    time.work += rates.rows(kShownOfReads * others + kShownOfWrites * results).work;
  } else if (!sums_columns(graph, node)) {
    time.work += rates.rows(kShownOfRows * (others + results)).work;
  } else {
    time.work += rates.rows(kShownOfRowsAndColumns * (others + results)).work;
    time.fixed += kColumnSumsFixed;
  }
  return time;
}

std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node, const KernelRates& rates) {
  const auto bytes = static_cast<double>(bytes_of(graph, node));
  if (is_product(node)) {
    const std::optional<ProductKind> kind = product_kind(graph, node);
    if (!kind) return std::nullopt;
    if (node.op == Op::fused) return fused_product(graph, node, *kind, rates);
    return rates.product(*kind, static_cast<double>(cost(graph, node).flops), bytes);
  }
  if (optimizer_layout(node)) return rates.optimizer(bytes);
  switch (node.op) {
    case Op::attention:
    case Op::attention_backward:
      return rates.attention(attention_size(graph, node));
    case Op::quantise: {
      const auto read = static_cast<double>(graph.type(node.inputs[0]).bytes());
      return rates.quantise(read, bytes - read);
    }
    default:
      return rates.rows(bytes);
  }
}

// Which collectives a node waits for.
class Waits {
 public:
  explicit Waits(const Graph& graph) : graph_(graph) {}

  void begin(const Node& node, std::size_t collective) {
    for (const Value value : node.outputs) collectives_[value] = collective;
    const std::int64_t in_flight = node.attributes.get_or<std::int64_t>(kInFlight, 0);
    if (in_flight > 0) limited_.push_back({collective + static_cast<std::size_t>(in_flight), collective});
    begun_ = collective + 1;
  }
  // The last collective that must have ended when the node begins: one whose result it reads, or before a collective
  // one that may not have so many behind it.
  std::optional<std::size_t> of(const Node& node) const {
    std::optional<std::size_t> last;
    for (const Value value : node.inputs) {
      const auto found = collectives_.find(view_root(graph_, value));
      if (found != collectives_.end()) last = std::max(last.value_or(0), found->second);
    }
    if (op_class(node.op) != OpClass::collective) return last;
    const auto overdue = std::ranges::find_if(limited_.rbegin(), limited_.rend(),
                                              [&](const Limited& earlier) { return earlier.last <= begun_; });
    return overdue == limited_.rend() ? last : std::max(last.value_or(0), overdue->collective);
  }

 private:
  struct Limited {
    std::size_t last;  // the collective that begins only after the end of
    std::size_t collective;
  };

  const Graph& graph_;
  std::map<Value, std::size_t> collectives_;  // by their results
  std::vector<Limited> limited_;              // in the order of their ends
  std::size_t begun_ = 0;                     // collectives
};

// As the CUDA back end decides in a captured run, whose arena the cards of one machine reach. It decides for each
// tensor; here most of the bytes decide. Where the links are no faster than PCIe, whether cards reach each other is not
// known.
Sender sender_of(const Graph& graph, const Node& node, Compile level, const Network& network) {
  const bool reaches_memory = level == Compile::full && has_fast_links(network) &&
                              node.attributes.get<std::int64_t>("ranks") <= network.ranks_on_machine;
  if (!reaches_memory || node.phase == Phase::optimizer || node.op == Op::collective_broadcast) return Sender::kernels;
  std::size_t all = 0, copied = 0;
  const std::span<const Value> sent = sent_operands(node);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::size_t bytes = std::max(graph.type(sent[i]).bytes(), graph.type(node.outputs[i]).bytes());
    const bool fits = node.op != Op::reduce_scatter || bytes <= kMostBytesOfCopiedScatter;
    all += bytes;
    if (bytes >= kLeastBytesOfCopies && fits) copied += bytes;
  }
  if (node.op == Op::all_reduce) return all >= kLeastBytesOfCopiedSums ? Sender::copy_engines : Sender::kernels;
  return 2 * copied >= all ? Sender::copy_engines : Sender::kernels;
}

// Whether measured times tell of such runs: of one rank, or of compiled ones on two of a machine with the links of the
// card.
bool was_measured(const Graph& graph, Compile level, const Network& network, const Datasheet& card) {
  if (!has_op_of(graph, OpClass::collective)) return card.card == kMeasuredCard;
  if (card.card != kMeasuredCardOfRanks || level != Compile::full) return false;
  const bool has_links = network.inside.bytes_per_second == card.link_bytes_per_second && network.ranks_on_machine > 1;
  return std::ranges::all_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    if (op_class(node.op) != OpClass::collective) return true;
    return has_links && node.attributes.get<std::int64_t>("ranks") <= kMeasuredRanks;
  });
}

}  // namespace

std::optional<TimeForecast> forecast_time(const Graph& graph, Compile level, const Datasheet& card,
                                          const std::optional<Network>& network) {
  const std::optional<KernelRates> rates = KernelRates::of(card);
  if (!rates || (has_op_of(graph, OpClass::collective) && !network)) return std::nullopt;
  const Network links = network.value_or(Network{});
  Waits waits(graph);
  TimeForecast forecast;
  LaunchTimeline timeline(level == Compile::full);
  bool has_tf32 = false;
  Phase last_phase = Phase::forward;
  const bool has_products = std::ranges::any_of(graph.order(), [&](NodeId id) { return is_product(graph.node(id)); });
  std::unordered_map<std::string, KernelTime> known;  // a model's layers have equal nodes
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!launches(node.op)) continue;
    last_phase = node.phase;
    const double before = timeline.seconds();
    const auto count = [&] {
      std::optional<double>& phase = forecast.by_phase[node.phase];
      phase = phase.value_or(0) + (timeline.seconds() - before) * kMsPerSecond;
    };
    if (const std::optional<std::size_t> collective = waits.of(node)) timeline.wait_for(*collective);
    forecast.exposed_ms += (timeline.seconds() - before) * kMsPerSecond;
    if (op_class(node.op) == OpClass::collective) {
      const Sender sender = sender_of(graph, node, level, links);
      waits.begin(node, timeline.begin_collective(collective_seconds(links, graph, node), sender));
      count();
      continue;
    }
    std::string key = typed_key(graph, node);
    if (is_product(node)) {
      const std::optional<ProductKind> kind = product_kind(graph, node);
      if (!kind) return std::nullopt;
      has_tf32 = has_tf32 || kind == ProductKind::tf32 || kind == ProductKind::tf32_strided;
      key += static_cast<char>(*kind);
    }
    auto found = known.find(key);
    if (found == known.end()) {
      std::optional<KernelTime> time = kernel_time(graph, node, *rates);
      if (!time) return std::nullopt;
      if (has_products && (node.op == Op::attention || node.op == Op::attention_backward))
        time->work *= kAttentionBesideProducts;
      found = known.emplace(key, *time).first;
    }
    timeline.launch(found->second);
    count();
  }
  const double last = timeline.seconds();
  timeline.wait_for_all();
  if (timeline.seconds() > last) {  // for gathers of sharded parameters, and without an optimizer sums of gradients
    const double waited_ms = (timeline.seconds() - last) * kMsPerSecond;
    forecast.exposed_ms += waited_ms;
    std::optional<double>& phase = forecast.by_phase[last_phase];
    phase = phase.value_or(0) + waited_ms;
  }
  forecast.communication_ms = timeline.communication_seconds() * kMsPerSecond;
  forecast.ms = timeline.seconds() * kMsPerSecond;
  if (was_measured(graph, level, links, card)) forecast.error = has_tf32 ? kErrorInTf32 : kError;
  return forecast;
}

std::optional<TimeForecast> forecast_time(const ProgramPlan& plan, const RunConfig& config,
                                          const std::optional<std::string>& card) {
  const Datasheet* sheet = find_datasheet(plan.device()->name());
  if (sheet == nullptr || card.value_or(std::string(sheet->card)) != sheet->card) return std::nullopt;
  const std::optional<Network> network =
      config.network ? config.network : network_of_card(sheet->link_bytes_per_second);
  return forecast_time(plan.graph(), config.compile.level, *sheet, network);
}

std::string problem_of_forecast(const RunConfig& config, const std::string& card) {
  const Datasheet* sheet = find_datasheet(card);
  if (sheet == nullptr) return "";
  if (!can_describe_card(sheet->compute_capability)) {
    return fmt::format(
        "No time is predicted for {}: no kernel of this engine runs on compute capability {}.{}, so the memory is that "
        "of "
        "this processor's kernels.",
        card, sheet->compute_capability / 10, sheet->compute_capability % 10);
  }
  if (!KernelRates::of(*sheet))
    return fmt::format("No time is predicted for {}: its datasheet does not say the rates of bf16, tf32 and fp32.",
                       card);
  if (config.compile.parallel.is_parallel() && !config.network && !sheet->link_bytes_per_second) {
    return fmt::format(
        "No time is predicted between ranks on {}, because the links of such cards differ; name them, as --network "
        "\"8x "
        "PCIe 32 GB/s\".",
        card);
  }
  return "";
}

}  // namespace ridgepoint
