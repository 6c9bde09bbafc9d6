#include "run/machine/ceilings.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

// Ascending; a size that would exceed the remaining time is left out. The largest copy is larger than the caches of
// most processors. Matmuls below kCountedSize fit into a cache, as no model does, so they count only if larger ones are
// too slow.
constexpr std::array<std::int64_t, 4> kCopyBytes = {std::int64_t{8} << 20, std::int64_t{32} << 20,
                                                    std::int64_t{128} << 20, std::int64_t{512} << 20};
constexpr std::array<std::int64_t, 8> kMatmulSizes = {256, 512, 1024, 1536, 2048, 3072, 4096, 8192};
constexpr std::int64_t kCountedSize = 1024;
constexpr int kRepeats = 5;
constexpr double kMatmulBudgetMs = 600.0;  // for each dtype
constexpr double kCopyBudgetMs = 300.0;

// Runs one node with its own operands, as the executor would.
class NodeTimer {
 public:
  NodeTimer(Device& device, const Graph& graph, const Node& node) : device_(device), timer_(device.make_timer()) {
    for (const Value value : node.inputs) inputs_.push_back(dense_layout(graph.type(value)));
    const std::array outputs = {dense_layout(graph.type(node.outputs[0]))};
    kernel_ = device.make_kernel({graph, node, inputs_, outputs});
    for (const Value value : node.inputs) {
      addresses_.push_back(take(graph.type(value).bytes()));
      write_random(graph.type(value));
    }
    output_ = take(graph.type(node.outputs[0]).bytes());
    workspace_ = kernel_->workspace_bytes() == 0 ? nullptr : take(kernel_->workspace_bytes());
  }
  ~NodeTimer() {
    try {
      device_.synchronize();
    } catch (const Error&) {  // already reported by the call that failed
    }
    for (const auto& [address, bytes] : memory_) device_.release_memory(address, bytes);
  }
  NodeTimer(const NodeTimer&) = delete;
  NodeTimer& operator=(const NodeTimer&) = delete;

  bool has_memory() const { return has_memory_; }

  // The median of kRepeats runs, or of as many as the budget allows (at least one), after a warm-up run.
  double median_ms(double budget_ms) {
    double spent_ms = run_ms();
    std::vector<double> samples;
    while (samples.empty() || (std::ssize(samples) < kRepeats && spent_ms < budget_ms)) {
      samples.push_back(run_ms());
      spent_ms += samples.back();
    }
    return describe(std::move(samples)).median;
  }

 private:
  double run_ms() {
    timer_->start();
    kernel_->launch({addresses_.data(), &output_, workspace_});
    timer_->stop();
    return timer_->elapsed_ms();
  }

  void* take(std::size_t bytes) {
    void* address = device_.allocate_memory(bytes);
    if (address == nullptr) {
      has_memory_ = false;
      return nullptr;
    }
    memory_.emplace_back(address, bytes);
    device_.fill_zero(address, bytes);
    return address;
  }

  void write_random(const TensorType& type) {
    auto* address = static_cast<std::byte*>(addresses_.back());
    if (address == nullptr) return;
    const std::vector<std::byte> pattern = random_pattern(type.dtype, type.bytes());
    for (std::size_t at = 0; at < type.bytes(); at += pattern.size()) {
      device_.copy_to_device(address + at, pattern.data(), std::min(pattern.size(), type.bytes() - at));
    }
  }

  Device& device_;
  std::unique_ptr<DeviceTimer> timer_;
  std::vector<TensorLayout> inputs_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::pair<void*, std::size_t>> memory_;
  std::vector<void*> addresses_;
  void* output_ = nullptr;
  void* workspace_ = nullptr;
  bool has_memory_ = true;
};

bool computes(const Device& device) { return device.kind() != "null"; }

std::optional<double> copy_ms(Device& device, std::int64_t bytes, double budget_ms) {
  Graph graph;
  const TensorType type{DType::fp32, Shape{bytes / static_cast<std::int64_t>(sizeof(float))}};
  const Value result = copy(graph, input(graph, "x", type, Role::data));
  NodeTimer timer(device, graph, graph.producer_node(result));
  if (!timer.has_memory()) return std::nullopt;
  return timer.median_ms(budget_ms);
}

// A product of two square matrices; in fp8 one of codes that are there.
Node& square_product(Graph& graph, Precision precision, std::int64_t size) {
  const bool is_fp8 = precision == Precision::fp8;
  const TensorType type{is_fp8 ? DType::e4m3 : matmul_dtype(precision), Shape{size, size}};
  const Value a = input(graph, "a", type, Role::data);
  const Value b = input(graph, "b", type, Role::data);
  if (is_fp8) {
    const Value scale = input(graph, "scale", {DType::fp32, Shape()}, Role::data);
    return graph.node(graph.producer(scaled_matmul(graph, a, scale, b, scale, matmul_dtype(precision))));
  }
  Node& product = graph.node(graph.producer(matmul(graph, a, b)));
  if (precision == Precision::tf32) product.attributes.set("compute", std::string("tf32"));
  return product;
}

// Empty where the device has no kernel or no memory for it.
std::optional<double> matmul_ms(Device& device, Precision precision, std::int64_t size, double budget_ms) {
  Graph graph;
  const Node& product = square_product(graph, precision, size);
  if (!device.has_kernel(graph, product)) return std::nullopt;
  NodeTimer timer(device, graph, product);
  if (!timer.has_memory()) return std::nullopt;
  return timer.median_ms(budget_ms);
}

// The remaining time; the time of a size is estimated from the rate of the size before.
class Budget {
 public:
  explicit Budget(double ms) : left_ms_(ms) {}
  double left_ms() const { return left_ms_; }
  // Whether the minimum of two runs fits.
  bool allows(double work) const { return 2.0 * work * ms_a_unit_ <= left_ms_; }
  void spend(double run_ms, double work) {
    ms_a_unit_ = run_ms / work;
    left_ms_ -= (kRepeats + 1) * run_ms;
  }

 private:
  double left_ms_;
  double ms_a_unit_ = 0;
};

}  // namespace

std::optional<CopyCeiling> measure_copy(Device& device, const StopPoint& stop_point) {
  if (!computes(device)) return std::nullopt;
  std::optional<CopyCeiling> largest;
  Budget budget(kCopyBudgetMs);
  for (const std::int64_t bytes : kCopyBytes) {
    const auto work = static_cast<double>(bytes);
    if (!budget.allows(work)) break;
    if (stop_point) stop_point();
    const std::optional<double> ms = copy_ms(device, bytes, budget.left_ms());
    if (!ms) break;
    budget.spend(*ms, work);
    largest = CopyCeiling{2.0 * work / (*ms / 1e3), bytes};
  }
  return largest;
}

std::optional<MatmulCeiling> measure_matmul(Device& device, Precision precision, const StopPoint& stop_point) {
  if (!computes(device)) return std::nullopt;
  std::optional<MatmulCeiling> best;
  Budget budget(kMatmulBudgetMs);
  for (const std::int64_t size : kMatmulSizes) {
    const double flops = 2.0 * static_cast<double>(size * size * size);
    if (!budget.allows(flops)) break;
    if (stop_point) stop_point();
    const std::optional<double> ms = matmul_ms(device, precision, size, budget.left_ms());
    if (!ms) break;
    budget.spend(*ms, flops);
    const double rate = flops / (*ms / 1e3);
    const bool replaces = !best || best->size < kCountedSize || rate > best->flops_per_second;
    if (replaces) best = MatmulCeiling{precision, rate, size};
  }
  return best;
}

Ceilings measure_ceilings(Device& device, const StopPoint& stop_point) {
  Ceilings ceilings;
  ceilings.copy = measure_copy(device, stop_point);
  for (const Precision precision : kAllPrecisions) {
    // A CPU has no tf32, and computes fp16 in fp32.
    const bool has = device.kind() == "cuda" || precision == Precision::fp32 || precision == Precision::bf16;
    if (!has) continue;
    if (const std::optional<MatmulCeiling> ceiling = measure_matmul(device, precision, stop_point)) {
      ceilings.matmul.push_back(*ceiling);
    }
  }
  return ceilings;
}

std::optional<double> CeilingCache::matmul(const std::string& device, int threads, Precision precision,
                                           const StopPoint& stop_point) {
  return rate(device, threads, precision, [&](Device& opened) -> std::optional<double> {
    const std::optional<MatmulCeiling> ceiling = measure_matmul(opened, precision, stop_point);
    return ceiling ? std::optional(ceiling->flops_per_second) : std::nullopt;
  });
}

std::optional<double> CeilingCache::copy(const std::string& device, int threads, const StopPoint& stop_point) {
  return rate(device, threads, std::nullopt, [&](Device& opened) -> std::optional<double> {
    const std::optional<CopyCeiling> ceiling = measure_copy(opened, stop_point);
    return ceiling ? std::optional(ceiling->bytes_per_second) : std::nullopt;
  });
}

std::optional<double> CeilingCache::rate(const std::string& device, int threads, std::optional<Precision> precision,
                                         const std::function<std::optional<double>(Device&)>& measure) {
  const std::tuple key(device, threads, precision);
  if (const auto known = rates_.find(key); known != rates_.end()) return known->second;
  std::optional<double> found;
  try {
    found = measure(*open_device(device, {.threads = threads, .memory_limit_bytes = std::nullopt}));
  } catch (const Error&) {  // a finished run must not fail for its ceiling
  }
  return rates_[key] = found;
}

}  // namespace ridgepoint
