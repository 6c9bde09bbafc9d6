#include "predict/time/forecast_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "ir/queries.h"
#include "ops/collectives.h"
#include "ops/node_key.h"
#include "plan/plan.h"
#include "predict/time/kernel_time.h"
#include "predict/time/network.h"
#include "runtime/device/device.h"
#include "runtime/execution/executor.h"

namespace ridgepoint {
namespace {

// The errors that docs/predicted_times.md states, and the GPUs on which they were found, one of them with compiled
// runs.
constexpr std::string_view kMeasuredCard = "H200 SXM";
constexpr std::string_view kMeasuredCompiledCard = "H100 SXM";
constexpr std::int64_t kMeasuredRanks = 4;
constexpr double kError = 0.10;
constexpr double kErrorInTf32 = 0.15;
// The range of runs that were not measured. Published runs of an 8B model on eight H100s with a power limit of 500 W
// take 1.54 times the predicted time; two or four H100s or H200s of a machine take at most 1.1 times.
constexpr double kLeastOfUnmeasured = 0.9, kMostOfUnmeasured = 1.6;

constexpr double kMsPerSecond = 1e3;

// The shares of attention were fitted to single calls. In a step with products, the GPU's power limit lowers its clock.
constexpr double kAttentionBesideProducts = 1.4;

// An update that runs beside backward lengthens backward by this share of the update's time alone. Measured on an H100
// with `small` and `large`, 4 x 256 tokens.
constexpr double kTimeBesideBackward = 0.85;

bool is_product(const Node& node) {
  return traits(node.op).kernel_class == KernelClass::matmul || (node.op == Op::fused && node.origin == Op::matmul);
}

// Whether copy engines send the collective, as the CUDA back end decides in a captured run, whose arena the cards of
// one machine can reach. The back end decides for each tensor; here the majority of the bytes decides. If the links are
// no faster than PCIe, it is not known whether cards reach each other.
Sender sender_of(const Graph& graph, const Node& node, Compile level, const Network& network) {
  const bool reaches_memory = level == Compile::full && has_fast_links(network) &&
                              node.attributes.get<std::int64_t>("ranks") <= network.ranks_on_machine;
  if (!reaches_memory) return Sender::kernels;
  std::size_t all = 0, copied = 0;
  const std::span<const Value> sent = sent_operands(node);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::size_t bytes = std::max(graph.type(sent[i]).bytes(), graph.type(node.outputs[i]).bytes());
    all += bytes;
    if (are_sent_by_copies(node, bytes)) copied += bytes;
  }
  const bool are_copied = node.op == Op::all_reduce ? are_sent_by_copies(node, all) : copied > 0 && 2 * copied >= all;
  return are_copied ? Sender::copy_engines : Sender::kernels;
}

// Whether runs of this kind were measured: one rank (on an H100 only compiled), or up to four compiled ranks of a
// machine with the links of the card and sums beside backward. With optimizer states on the host: one rank on an H100.
// No run with other tensors on the host, or with offload on several ranks, was measured.
bool was_measured(const Graph& graph, Compile level, const Network& network, const Datasheet& card) {
  if (!has_op_of(graph, OpClass::collective)) {
    const bool has_others = std::ranges::any_of(graph.order(), [&](NodeId id) {
      const Node& node = graph.node(id);
      return op_class(node.op) == OpClass::transfer && node.phase != Phase::optimizer;
    });
    return !has_others && ((card.card == kMeasuredCard && !has_op_of(graph, OpClass::transfer)) ||
                           (card.card == kMeasuredCompiledCard && level == Compile::full));
  }
  if (level != Compile::full || has_op_of(graph, OpClass::transfer)) return false;
  if (card.card != kMeasuredCard && card.card != kMeasuredCompiledCard) return false;
  const bool has_links = network.inside.bytes_per_second == card.link_bytes_per_second && network.ranks_on_machine > 1;
  return std::ranges::all_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    if (op_class(node.op) != OpClass::collective) return true;
    return has_links && node.attributes.get<std::int64_t>("ranks") <= kMeasuredRanks &&
           !node.attributes.get_or(kExposed, false);
  });
}

// Why no time is predicted: "No time is predicted for <what>".
template <class... Arguments>
TimePrediction no_time(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return {{}, "No time is predicted " + fmt::format(format, std::forward<Arguments>(arguments)...)};
}

class Forecaster {
 public:
  Forecaster(const ProgramPlan& plan, Compile level, const Datasheet& card, const Network& network,
             std::vector<LaunchForecast>* launches)
      : graph_(plan.graph()),
        plan_(plan.execution()),
        device_(*plan.device()),
        level_(level),
        card_(card),
        network_(network),
        launches_(launches),
        timeline_(level == Compile::full),
        has_products_(std::ranges::any_of(graph_.order(), [&](NodeId id) { return is_product(graph_.node(id)); })),
        is_host_shared_(has_op_of(graph_, OpClass::collective) && network.ranks_on_machine > 1) {}

  TimePrediction run() {
    std::vector<std::size_t> numbers(plan_.steps.size());  // of collectives and transfers in the timeline
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      const Node& node = graph_.node(step.node);
      const double before = timeline_.seconds();
      for (const std::size_t earlier : step.waits) {
        const Op op = graph_.node(plan_.steps[earlier].node).op;
        if (!runs_beside(op)) continue;  // an update, whose time has been counted
        if (op_class(op) == OpClass::transfer) {
          timeline_.wait_for_transfer(numbers[earlier]);
        } else {
          expose([&] { timeline_.wait_for(numbers[earlier]); });
        }
      }
      if (op_class(node.op) == OpClass::collective) {
        const Sender sender = sender_of(graph_, node, level_, network_);
        numbers[i] = timeline_.begin_collective(collective_seconds(network_, graph_, node), sender);
      } else if (op_class(node.op) == OpClass::transfer) {
        numbers[i] = begin_transfer(node);
      } else {
        std::optional<KernelTime> time = time_of(step);
        if (time && runs_beside(node)) *time = {.fixed = 0, .work = kTimeBesideBackward * time->work};
        if (!time) return no_time("for {}: the rate of {} is not known.", card_.card, name(node.op));
        const double begin = timeline_.launch(*time);
        if (launches_ != nullptr)
          launches_->push_back({step.node, begin * kMsPerSecond, (timeline_.seconds() - begin) * kMsPerSecond});
      }
      count(step.phase, before);
    }
    wait_at_end();
    forecast_.communication_ms = timeline_.communication_seconds() * kMsPerSecond;
    forecast_.ms = timeline_.seconds() * kMsPerSecond;
    if (was_measured(graph_, level_, network_, card_) && !has_assumed_rate_)
      forecast_.error = has_tf32_ ? kErrorInTf32 : kError;
    forecast_.low_ms = forecast_.ms * (forecast_.error ? 1 - *forecast_.error : kLeastOfUnmeasured);
    forecast_.high_ms = forecast_.ms * (forecast_.error ? 1 + *forecast_.error : kMostOfUnmeasured);
    if (!forecast_.error) {
      forecast_.warning = fmt::format(
          "No run like this has been measured on {}{}, so its time may be far from the prediction: a lower power limit "
          "or slower links make it longer.",
          card_.card,
          has_op_of(graph_, OpClass::collective) ? " with these ranks"
          : has_op_of(graph_, OpClass::transfer) ? " with these tensors on the host"
                                                 : "");
    }
    return {forecast_, {}};
  }

 private:
  std::size_t begin_transfer(const Node& node) {
    double bytes = 0;
    for (const Value value : node.outputs) bytes += static_cast<double>(graph_.type(value).bytes());
    using Direction = LaunchTimeline::Direction;
    return timeline_.begin_transfer(node.op == Op::copy_to_host ? Direction::to_host : Direction::from_host,
                                    transfer_seconds(card_, bytes, is_host_shared_));
  }

  std::optional<KernelTime> time_of(const PlanStep& step) {
    const StepSpec of_step(graph_, step);
    const KernelSpec spec = of_step.spec();
    std::string key = typed_key(graph_, spec.node);
    for (const std::span<const TensorLayout> layouts : {spec.inputs, spec.outputs}) {
      for (const TensorLayout& layout : layouts) {
        for (const std::int64_t stride : layout.strides) append_bits(key, stride);
      }
    }
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const KernelRate rate = device_.outline(spec).rate;
    std::optional<KernelTime> time = kernel_time(graph_, spec.node, rate, card_);
    if (time && has_products_ && std::holds_alternative<AttentionRate>(rate)) time->work *= kAttentionBesideProducts;
    const auto* product = std::get_if<ProductRate>(&rate);
    has_tf32_ = has_tf32_ || (product != nullptr && product->peak == PeakRate::tf32);
    has_assumed_rate_ =
        has_assumed_rate_ || (product != nullptr && product->is_assumed && is_decided_by(*product, spec));
    known_.emplace(std::move(key), time);
    return time;
  }

  // Whether the product is bound by its arithmetic rate, not by memory.
  bool is_decided_by(ProductRate rate, const KernelSpec& spec) const {
    const double seconds = kernel_time(graph_, spec.node, rate, card_)->work;
    rate.share = 1;
    return kernel_time(graph_, spec.node, rate, card_)->work < seconds;
  }

  // For gathers of sharded parameters, for sums of gradients in runs without an optimizer, and for states that are
  // copied to the host.
  void wait_at_end() {
    const double last = timeline_.seconds();
    expose([&] { timeline_.wait_for_all(); });
    timeline_.wait_for_all_transfers();
    if (timeline_.seconds() > last) count(plan_.steps.back().phase, last);
  }

  // Waits for collectives.
  template <typename Wait>
  void expose(const Wait& wait) {
    const double before = timeline_.seconds();
    wait();
    forecast_.exposed_ms += (timeline_.seconds() - before) * kMsPerSecond;
  }

  void count(Phase phase, double before) {
    std::optional<double>& ms = forecast_.by_phase[phase];
    ms = ms.value_or(0) + (timeline_.seconds() - before) * kMsPerSecond;
  }

  const Graph& graph_;
  const ExecutionPlan& plan_;
  Device& device_;
  Compile level_;
  const Datasheet& card_;
  const Network& network_;
  std::vector<LaunchForecast>* launches_;
  LaunchTimeline timeline_;
  bool has_products_;
  bool is_host_shared_;  // by ranks, which copy at the same time
  bool has_tf32_ = false;
  bool has_assumed_rate_ = false;
  std::unordered_map<std::string, std::optional<KernelTime>> known_;  // a model's layers have equal nodes
  TimeForecast forecast_;
};

}  // namespace

TimePrediction forecast_time(const ProgramPlan& plan, Compile level, const Datasheet& card,
                             const std::optional<Network>& network, std::vector<LaunchForecast>* launches) {
  if (!can_describe_card(card.compute_capability)) {
    return no_time(
        "for {}: no kernel of this engine runs on compute capability {}.{}, so the memory is that of this processor's "
        "kernels.",
        card.card, card.compute_capability / 10, card.compute_capability % 10);
  }
  if (!has_rates(card))
    return no_time("for {}: its datasheet does not say the rates of bf16, tf32 and fp32.", card.card);
  if (!network && has_op_of(plan.graph(), OpClass::collective)) {
    return no_time(
        "between ranks on {}, because the links of such cards differ; name them, as --network \"8x PCIe 32 GB/s\".",
        card.card);
  }
  if (plan.execution().disk.bytes > 0)
    return no_time("with states in a file, because the rate of its disk is not known.");
  const Network links = network.value_or(Network{});
  return Forecaster(plan, level, card, links, launches).run();
}

TimePrediction forecast_time(const ProgramPlan& plan, const RunConfig& config, const std::optional<std::string>& card,
                             std::vector<LaunchForecast>* launches) {
  const std::string device = plan.device()->name();
  const Datasheet* sheet = find_datasheet(card.value_or(device));
  if (sheet == nullptr) return {};
  if (can_describe_card(sheet->compute_capability) && find_datasheet(device) != sheet) return {};
  const std::optional<Network> network =
      config.network ? config.network : network_of_card(sheet->link_bytes_per_second);
  return forecast_time(plan, config.compile.level, *sheet, network, launches);
}

}  // namespace ridgepoint
