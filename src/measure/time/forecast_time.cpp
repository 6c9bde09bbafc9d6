#include "measure/time/forecast_time.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "measure/time/kernel_rates.h"
#include "ops/node_key.h"
#include "ops/rule.h"

namespace ridgepoint {
namespace {

// The errors that docs/predicted_times.md states, and the GPU on which they were found.
constexpr std::string_view kMeasuredCard = "H200 SXM";
constexpr double kError = 0.10;
constexpr double kErrorInTf32 = 0.15;

constexpr double kMsPerSecond = 1e3;

// Whether the last axis of the value is another one of the tensor that it is a view of.
bool moves_last_axis(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  if (node.op != Op::transpose) return false;
  const auto& permutation = node.attributes.get<std::vector<std::int64_t>>("permutation");
  return permutation.back() != static_cast<std::int64_t>(permutation.size()) - 1;
}

std::optional<ProductKind> product_kind(const Graph& graph, const Node& node) {
  if (node.attributes.get_or("compute", std::string()) == "tf32") {
    const bool is_contiguous = !moves_last_axis(graph, node.inputs[0]) && moves_last_axis(graph, node.inputs[1]);
    return is_contiguous ? ProductKind::tf32 : ProductKind::tf32_strided;
  }
  switch (graph.type(node.inputs[0]).dtype) {
    case DType::fp32:
      return ProductKind::fp32;
    case DType::bf16:
    case DType::fp16:
      return ProductKind::half;
    default:
      return std::nullopt;
  }
}

AttentionSize attention_size(const Graph& graph, const Node& node) {
  const bool is_backward = node.op == Op::attention_backward;
  const std::size_t q = is_backward ? 1 : 0;
  const TensorType& queries = graph.type(node.inputs[q]);
  AttentionSize size{.queries = queries.shape[-2],
                     .keys = graph.type(node.inputs[q + 1]).shape[-2],
                     .width = queries.shape[-1],
                     .causal = node.attributes.get<bool>("causal"),
                     .is_fp32 = queries.dtype == DType::fp32,
                     .is_backward = is_backward};
  for (int axis = 0; axis < queries.shape.rank() - 2; ++axis) size.batch *= queries.shape[axis];
  return size;
}

std::optional<KernelTime> kernel_time(const Graph& graph, const Node& node, const KernelRates& rates) {
  const auto bytes = static_cast<double>(bytes_of(graph, node));
  switch (node.op) {
    case Op::matmul: {
      const std::optional<ProductKind> kind = product_kind(graph, node);
      if (!kind) return std::nullopt;
      return rates.product(*kind, static_cast<double>(cost(graph, node).flops), bytes);
    }
    case Op::attention:
    case Op::attention_backward:
      return rates.attention(attention_size(graph, node));
    case Op::adamw:
      return rates.optimizer(bytes);
    default:
      return rates.rows(bytes);
  }
}

// The host issues launches in order, and the GPU runs them in order.
class Queue {
 public:
  explicit Queue(bool captured) : captured_(captured) {}

  void launch(const KernelTime& time) {
    if (captured_) {
      gpu_ += KernelRates::captured_share() * time.fixed + time.work;
      return;
    }
    host_ += KernelRates::host_seconds_per_launch();
    gpu_ = std::max(gpu_, host_) + time.fixed + time.work;
  }
  double seconds() const { return gpu_; }  // when the GPU ends

 private:
  bool captured_;
  double host_ = 0;
  double gpu_ = 0;
};

}  // namespace

std::optional<TimeForecast> forecast_time(const Graph& graph, Compile level, const Datasheet& card) {
  const std::optional<KernelRates> rates = KernelRates::of(card);
  if (!rates) return std::nullopt;
  TimeForecast forecast;
  Queue queue(level == Compile::full);
  bool has_tf32 = false;
  std::unordered_map<std::string, KernelTime> known;  // a model's layers have equal nodes
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!launches(node.op)) continue;
    std::string key = typed_key(graph, node);
    if (node.op == Op::matmul) {
      const std::optional<ProductKind> kind = product_kind(graph, node);
      if (!kind) return std::nullopt;
      has_tf32 = has_tf32 || kind == ProductKind::tf32 || kind == ProductKind::tf32_strided;
      key += static_cast<char>(*kind);
    }
    auto found = known.find(key);
    if (found == known.end()) {
      const std::optional<KernelTime> time = kernel_time(graph, node, *rates);
      if (!time) return std::nullopt;
      found = known.emplace(key, *time).first;
    }
    const double before = queue.seconds();
    queue.launch(found->second);
    std::optional<double>& phase = forecast.by_phase[node.phase];
    phase = phase.value_or(0) + (queue.seconds() - before) * kMsPerSecond;
  }
  forecast.ms = queue.seconds() * kMsPerSecond;
  if (card.card == kMeasuredCard) forecast.error = has_tf32 ? kErrorInTf32 : kError;
  return forecast;
}

}  // namespace ridgepoint
