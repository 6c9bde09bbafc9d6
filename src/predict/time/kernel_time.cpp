#include "predict/time/kernel_time.h"

#include <utility>

#include "backends/cuda/kernels/rates.h"
#include "ops/attention_form.h"
#include "ops/rule.h"

namespace ridgepoint {
namespace {

// A soft cap takes an exponential and a reciprocal of each score. A multiprocessor begins 16 of them in a cycle (CUDA
// C++ Programming Guide, "Throughput of Native Arithmetic Instructions"), while it adds and multiplies 128 times, or 64
// with compute capability 8.0. In forward they do not overlap with products; in backward half of them do.
constexpr double kFunctionsOfCap = 2, kFunctionsOfCapInBackward = 1;
double special_functions_per_second(const Datasheet& card) {
  constexpr int kHalfTheLanes = 80;
  return *card.fp32 / 2 * 16 / (card.compute_capability == kHalfTheLanes ? 64 : 128);
}

// A window has a second edge with partial tiles, but its blocks have equal length: a factor on the overhead of a block.
constexpr double kOverheadOfWindow = 1.35, kOverheadOfWindowInBackward = 0.7;

// The most time to add the parts of blocks that several multiprocessors share.
constexpr double kDivisionSeconds = 10e-6;

// All batch dimensions as one.
struct AttentionSize {
  double batch = 1, queries = 1, keys = 1;
  bool causal = false;
  double window = 0;  // keys that a query attends to; 0: no window
  bool has_soft_cap = false;
  bool is_backward = false;
};

AttentionSize attention_size(const Graph& graph, const Node& node) {
  const bool is_backward = node.op == Op::attention_backward;
  const std::size_t q = is_backward ? 1 : 0;
  const Shape& queries = graph.type(node.inputs[q]).shape;
  const std::int64_t keys = graph.type(node.inputs[q + 1]).shape[-2];
  const AttentionForm form = attention_form(node.attributes);
  AttentionSize size{.queries = static_cast<double>(queries[-2]),
                     .keys = static_cast<double>(keys),
                     .causal = form.causal,
                     .window = form.window < keys ? static_cast<double>(form.window) : 0,
                     .has_soft_cap = form.soft_cap > 0,
                     .is_backward = is_backward};
  for (int axis = 0; axis < queries.rank() - 2; ++axis) size.batch *= static_cast<double>(queries[axis]);
  return size;
}

// The number of keys that a query attends to; in backward, the number of queries that attend to a key.
double seen_on_average(const AttentionSize& size, double rows, double others) {
  if (size.window == 0) return size.causal ? others / 2 : others;
  return (size.window * rows - size.window * (size.window - 1) / 2) / rows;
}

class TimeOf {
 public:
  TimeOf(const Graph& graph, const Node& node, const Datasheet& card)
      : graph_(graph), node_(node), card_(card), bytes_(static_cast<double>(bytes_of(graph, node))) {}

  std::optional<KernelTime> operator()(std::monostate /*unknown*/) const { return std::nullopt; }

  std::optional<KernelTime> operator()(const MemoryRate& rate) const {
    const double again = rate.reads == 1 ? 0 : (rate.reads - 1) * bytes_of_value(node_.inputs[0]);
    return KernelTime{rate.fixed_seconds, memory_seconds(again + bytes_, rate.share)};
  }

  std::optional<KernelTime> operator()(const ProductRate& rate) const { return product(rate, bytes_); }

  std::optional<KernelTime> operator()(const EpilogueRate& rate) const {
    double operands = 0, results = 0;  // bytes
    for (std::size_t i = 0; i < 2; ++i) operands += bytes_of_value(node_.inputs[i]);
    for (const Value value : node_.outputs) results += bytes_of_value(value);
    const double others = std::max(bytes_ - operands - results, 0.0);
    KernelTime time = product(rate.product, operands);
    time.work += memory_seconds(rate.reads * others + rate.writes * results, rate.memory_share);
    time.fixed += rate.fixed_seconds;
    return time;
  }

  // In causal attention the longest block sees all keys (in backward all queries), or as many as the window has.
  std::optional<KernelTime> operator()(const AttentionRate& rate) const {
    const AttentionSize size = attention_size(graph_, node_);
    const double rows = size.is_backward ? size.keys : size.queries;
    const double others = size.is_backward ? size.queries : size.keys;
    const double of_window = size.is_backward ? kOverheadOfWindowInBackward : kOverheadOfWindow;
    const double seen = seen_on_average(size, rows, others) + (size.window > 0 ? of_window : 1) * rate.overhead;
    const double seen_by_all = size.batch * rows * seen;
    const double longest = std::min<double>(rate.block, rows) * std::max(seen, size.window > 0 ? size.window : others);
    const double seconds_of_one = (size.is_backward ? 2.5 : 1.0) * 4 * rate.width / (*card_.bf16 * rate.share);
    double scores = std::max(seen_by_all, longest * card_.multiprocessors);
    if (rate.is_divided) scores = std::min(scores, seen_by_all + kDivisionSeconds / seconds_of_one);
    double seconds = seconds_of_one * scores;
    const double functions = size.is_backward ? kFunctionsOfCapInBackward : kFunctionsOfCap;
    if (size.has_soft_cap) seconds += functions * scores / special_functions_per_second(card_);
    return KernelTime{rate.fixed_seconds, std::max(seconds, memory_seconds(bytes_, cuda::kRowRate.share))};
  }

 private:
  double bytes_of_value(Value value) const { return static_cast<double>(graph_.type(value).bytes()); }
  double memory_seconds(double bytes, double share) const { return bytes / (card_.bytes_per_second * share); }

  double peak(PeakRate of) const {
    switch (of) {
      case PeakRate::fp32: return *card_.fp32;
      case PeakRate::tf32: return *card_.tf32;
      case PeakRate::fp8: return card_.fp8.value_or(*card_.bf16);
      case PeakRate::half: break;
    }
    return *card_.bf16;
  }

  KernelTime product(const ProductRate& rate, double bytes) const {
    const auto operations = static_cast<double>(cost(graph_, node_).flops);
    return {rate.fixed_seconds,
            std::max(operations / (peak(rate.peak) * rate.share), memory_seconds(bytes, rate.memory_share))};
  }

  const Graph& graph_;
  const Node& node_;
  const Datasheet& card_;
  double bytes_;  // of operands and results
};

// Both while they run at the same time.
struct Beside {
  double times_of_collective;  // as long as alone
  double lost_of_launch;       // the share of its speed
};

// NCCL's kernels between two H200s: in 17 steps of three models each millisecond of collectives lengthened the step by
// 0.3 to 0.7 ms, even if NCCL had fewer blocks and so less bandwidth; collectives took 1.3 to 1.9 times as long as
// alone. Copy engines between two H100s: in 27 steps of three models it lengthened the step by 0.1 to 0.3 ms;
// collectives took 2 to 3 times as long as alone, because ranks wait for one another between copies.
constexpr Beside kKernels{.times_of_collective = 1.5, .lost_of_launch = 0.45};
constexpr Beside kCopyEngines{.times_of_collective = 3, .lost_of_launch = 0.14};

Beside beside(Sender sender) { return sender == Sender::kernels ? kKernels : kCopyEngines; }

}  // namespace

bool has_rates(const Datasheet& card) { return card.bf16 && card.fp32 && card.tf32; }

std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node, const KernelRate& rate,
                                      const Datasheet& card) {
  return std::visit(TimeOf(graph, node, card), rate);
}

double transfer_seconds(const Datasheet& card, double bytes, bool is_host_shared) {
  // One rank: fitted to steps of three models with states on the host of an H100 SXM, whose link moves 64 GB/s;
  // predictions are 9 % too long to 2 % too short. Two ranks of a host: fitted to four steps of two models on H100s and
  // H200s, 4 % too long to 6 % too short; copies in both directions at once slow only those from the host, to half the
  // rate.
  constexpr double kShareOfLink = 0.76, kShareOfRanks = 0.56, kFixedSeconds = 10e-6;
  return kFixedSeconds + bytes / ((is_host_shared ? kShareOfRanks : kShareOfLink) * host_link_bytes_per_second(card));
}

double LaunchTimeline::launch(const KernelTime& time) {
  if (!captured_) {
    host_ += kHostSecondsPerLaunch;
    idle(std::max(host_ - now_, 0.0));
  }
  const double begin = now_;
  work((captured_ ? kCapturedShare : 1) * time.fixed + time.work);
  return begin;
}

std::size_t LaunchTimeline::begin_collective(double seconds, Sender sender) {
  collectives_.push_back({seconds, sender});
  return collectives_.size() - 1;
}

std::size_t LaunchTimeline::begin_transfer(Direction direction, double seconds) {
  double& end = directions_[static_cast<std::size_t>(direction)];
  end = std::max(end, now_) + seconds;
  transfers_.push_back(end);
  return transfers_.size() - 1;
}

void LaunchTimeline::wait_for_all_transfers() { idle(std::max(*std::ranges::max_element(directions_) - now_, 0.0)); }

void LaunchTimeline::wait_for(std::size_t collective) {
  if (collective < ended_) return;
  double seconds = 0;
  for (std::size_t i = ended_; i <= collective; ++i) seconds += std::exchange(collectives_[i].left, 0);
  ended_ = collective + 1;
  now_ += seconds;
  communication_ += seconds;
}

void LaunchTimeline::wait_for_all() {
  if (!collectives_.empty()) wait_for(collectives_.size() - 1);
}

// No launch runs.
void LaunchTimeline::idle(double seconds) {
  now_ += seconds;
  for (; ended_ < collectives_.size() && seconds > 0; ++ended_) {
    double& left = collectives_[ended_].left;
    const double step = std::min(left, seconds);
    communication_ += step;
    seconds -= step;
    left -= step;
    if (left > 0) return;
  }
}

// A launch runs; alone it would take `seconds`.
void LaunchTimeline::work(double seconds) {
  for (; ended_ < collectives_.size() && seconds > 0; ++ended_) {
    auto& [left, sender] = collectives_[ended_];
    const auto [times, lost] = beside(sender);
    const double both = std::min(left * times, seconds / (1 - lost));
    now_ += both;
    communication_ += both;
    if (left * times > both) {
      left -= both / times;
      return;
    }
    seconds -= both * (1 - lost);
  }
  now_ += std::max(seconds, 0.0);
}

}  // namespace ridgepoint
