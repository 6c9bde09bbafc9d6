// The generated kernels of the models' ops on GPU 0, each with its floor: the time of the bytes that it must move at
// the copy bandwidth of the same run, or that of an empty launch, whichever is longer.
// generated_kernel_times [rows of a model's activations, default 8192] [part of a name]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/generator/kernel.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kRotatedBytes = std::size_t{512} << 20;  // operands of one benchmark: far more than the L2
constexpr int kRepeats = 9;
constexpr int kLaunches = 20;  // timed together

struct Operand {
  TensorType type;
  std::vector<std::int64_t> permutation = {};  // the view that the kernel reads; empty: none
};

struct Case {
  std::string label;
  Op op;
  std::vector<Operand> operands;
  Attributes attributes = {};
  std::int64_t index_bound = 1;  // of int64 operands
};

// One copy of a case's operands and results, with the node's kernel.
class Instance {
 public:
  Instance(Device& device, const Case& what) : device_(device) {
    std::vector<Value> values;
    for (const Operand& operand : what.operands) {
      values.push_back(input(graph_, std::to_string(values.size()), operand.type, Role::data));
      if (!operand.permutation.empty()) values.back() = transpose(graph_, values.back(), operand.permutation);
      inputs_.push_back(filled(operand.type, what.index_bound));
    }
    const Node& node = graph_.node(make_node(graph_, what.op, values, what.attributes));
    const std::vector<ValueLayout> layouts = value_layouts(graph_);
    std::vector<TensorLayout> in;
    std::vector<TensorLayout> out;
    for (const Value value : values) in.push_back(layouts[value.id].layout);
    for (const Value value : node.outputs) {
      out.push_back(layouts[value.id].layout);
      outputs_.push_back(allocated(graph_.type(value).bytes()));
    }
    bytes_ = static_cast<std::size_t>(cost(graph_, node).bytes);
    kernel_ = cuda::make_generated_kernel(cuda::CudaContext::of_card(0), {graph_, node, in, out});
    if (kernel_->workspace_bytes() > 0) workspace_ = allocated(kernel_->workspace_bytes());
  }
  ~Instance() {
    kernel_.reset();
    for (const auto& [address, bytes] : memory_) device_.release_memory(address, bytes);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  void launch() { kernel_->launch({inputs_.data(), outputs_.data(), workspace_}); }
  std::size_t bytes() const { return bytes_; }
  std::string_view name() const { return kernel_->name(); }

 private:
  void* allocated(std::size_t bytes) {
    void* address = device_.allocate_memory(bytes);
    if (address == nullptr) throw Error("the GPU has not enough memory for the benchmark");
    memory_.emplace_back(address, bytes);
    return address;
  }

  // Repeated random numbers near 1: their values do not change the time, but zeros would.
  void* filled(const TensorType& type, std::int64_t index_bound) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> real(0.5, 1.5);
    HostTensor pattern(TensorType{type.dtype, Shape{std::min<std::int64_t>(type.elements(), 1 << 18)}});
    const std::size_t size = size_bytes(type.dtype);
    for (std::size_t i = 0; i < pattern.data.size() / size; ++i) {
      const double value =
          is_floating(type.dtype) ? real(random) : static_cast<double>(random() % static_cast<unsigned>(index_bound));
      store_element(type.dtype, pattern.data.data() + i * size, value);
    }
    auto* address = static_cast<std::byte*>(allocated(type.bytes()));
    for (std::size_t at = 0; at < type.bytes(); at += pattern.data.size()) {
      device_.copy_to_device(address + at, pattern.data.data(), std::min(pattern.data.size(), type.bytes() - at));
    }
    return address;
  }

  Device& device_;
  Graph graph_;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  void* workspace_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::pair<void*, std::size_t>> memory_;
};

// Median milliseconds of one call.
double median_ms(Device& device, const std::function<void(int)>& call) {
  const std::unique_ptr<DeviceTimer> timer = device.make_timer();
  for (int i = 0; i < kLaunches; ++i) call(i);
  std::vector<double> samples;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    timer->start();
    for (int i = 0; i < kLaunches; ++i) call(i);
    timer->stop();
    samples.push_back(timer->elapsed_ms() / kLaunches);
  }
  std::nth_element(samples.begin(), samples.begin() + kRepeats / 2, samples.end());
  return samples[kRepeats / 2];
}

struct Floors {
  double bytes_per_ms = 0;  // of the driver's own copy
  double launch_ms = 0;
};

Floors measure_floors(Device& device) {
  constexpr std::size_t kCopiedBytes = std::size_t{1} << 30;
  cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  void* from = device.allocate_memory(kCopiedBytes);
  void* to = device.allocate_memory(kCopiedBytes);
  if (from == nullptr || to == nullptr) throw Error("the GPU has not enough memory for the benchmark");
  device.fill_zero(from, kCopiedBytes);
  const double copy_ms = median_ms(device, [&](int) {
    cuda::check(context.driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<cuda::CUdeviceptr>(to),
                                                      reinterpret_cast<cuda::CUdeviceptr>(from), kCopiedBytes,
                                                      context.stream()),
                "copy memory");
  });
  device.release_memory(from, kCopiedBytes);
  device.release_memory(to, kCopiedBytes);
  Instance smallest(device, {"", Op::add, {{{DType::fp32, Shape{}}}, {{DType::fp32, Shape{}}}}});
  return {2.0 * kCopiedBytes / copy_ms, median_ms(device, [&](int) { smallest.launch(); })};
}

void report(Device& device, const Case& what, const Floors& floors) {
  std::vector<std::unique_ptr<Instance>> copies;
  copies.push_back(std::make_unique<Instance>(device, what));
  const std::size_t count = std::clamp<std::size_t>(kRotatedBytes / copies[0]->bytes(), 1, 32);
  while (copies.size() < count) copies.push_back(std::make_unique<Instance>(device, what));
  const double ms = median_ms(device, [&](int i) { copies[static_cast<std::size_t>(i) % copies.size()]->launch(); });
  const auto bytes = static_cast<double>(copies[0]->bytes());
  const double floor_ms = std::max(bytes / floors.bytes_per_ms, floors.launch_ms);
  fmt::print("{:44} {:40} {:9.1f} MB {:8.1f} us {:7.0f} GB/s  floor {:7.1f} us  {:3.0f} %\n", what.label,
             copies[0]->name(), bytes / 1e6, ms * 1e3, bytes / ms / 1e6, floor_ms * 1e3, 100 * floor_ms / ms);
}

Operand fp32(Shape shape, std::vector<std::int64_t> permutation = {}) {
  return {{DType::fp32, shape}, std::move(permutation)};
}

Attributes over(std::vector<std::int64_t> axes) { return {{"axes", std::move(axes)}, {"keep_dims", false}}; }

std::vector<Case> activation_cases(std::int64_t rows) {
  std::vector<Case> cases;
  const Shape wide{rows, 4096};
  const auto label = [](std::string_view what, const Shape& shape) {
    return fmt::format("{} {}", what, shape.to_string());
  };
  for (const Op op : {Op::add, Op::mul, Op::silu_backward}) {
    cases.push_back({label(name(op), wide), op, {fp32(wide), fp32(wide)}});
  }
  for (const Op op : {Op::exp, Op::silu, Op::copy}) cases.push_back({label(name(op), wide), op, {fp32(wide)}});
  cases.push_back({label("sub a row value", wide), Op::sub, {fp32(wide), fp32(Shape{rows, 1})}});
  cases.push_back({label("div by a row value", wide), Op::div, {fp32(wide), fp32(Shape{rows, 1})}});
  cases.push_back({label("cast to bf16", wide), Op::cast, {fp32(wide)}, {{"dtype", std::string("bf16")}}});
  cases.push_back({label("cast to fp32", wide), Op::cast, {{{DType::bf16, wide}}}, {{"dtype", std::string("fp32")}}});
  for (const std::int64_t width : {768, 1024, 1280, 1600, 2560}) {
    const Shape x{rows, width};
    cases.push_back({label("rms_norm", x), Op::rms_norm, {fp32(x), fp32(Shape{width})}, {{"epsilon", 1e-5}}});
    cases.push_back({label("rms_norm_backward", x),
                     Op::rms_norm_backward,
                     {fp32(x), fp32(x), fp32(Shape{width}), fp32(Shape{rows, 1})}});
    cases.push_back({label("column sums", x), Op::reduce_sum, {fp32(x)}, over({0})});
  }
  const Shape logits{rows, 10000};
  const Operand targets{{DType::int64, Shape{rows}}};
  cases.push_back({label("cross_entropy", logits), Op::cross_entropy, {fp32(logits), targets}, {}, 10000});
  cases.push_back({label("cross_entropy_backward", logits),
                   Op::cross_entropy_backward,
                   {fp32(Shape{rows}), fp32(logits), targets, fp32(Shape{rows})},
                   {},
                   10000});
  cases.push_back({label("sum of all", wide), Op::reduce_sum, {fp32(wide)}, over({0, 1})});
  return cases;
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const std::int64_t context : {128, 256, 512, 1024}) {
    const std::int64_t batch = 4096 / context;
    const Shape scores{batch, 16, context, context};
    cases.push_back({"causal_mask " + scores.to_string(), Op::causal_mask, {fp32(scores)}, {{"fill", -INFINITY}}});
    cases.push_back({"softmax " + scores.to_string(), Op::softmax, {fp32(scores)}});
    cases.push_back({"softmax_backward " + scores.to_string(), Op::softmax_backward, {fp32(scores), fp32(scores)}});
    cases.push_back({"reduce_max " + scores.to_string(), Op::reduce_max, {fp32(scores)}, over({-1})});
  }
  for (const std::int64_t columns : {256, 1024, 4096, 16384, 65536}) {
    const Shape x{(std::int64_t{1} << 25) / columns, columns};
    cases.push_back({"reduce_sum rows " + x.to_string(), Op::reduce_sum, {fp32(x)}, over({-1})});
    cases.push_back({"softmax rows " + x.to_string(), Op::softmax, {fp32(x)}});
  }
  const Shape heads{32, 16, 1024, 64};
  cases.push_back({"copy [B,H,S,D] to [B,S,H,D]", Op::copy, {fp32(heads, {0, 2, 1, 3})}});
  cases.push_back({"copy [B,H,S,D] to [B,H,D,S]", Op::copy, {fp32(heads, {0, 1, 3, 2})}});
  cases.push_back({"copy of a bf16 transpose", Op::copy, {{{DType::bf16, Shape{8192, 8192}}, {1, 0}}}});
  return cases;
}

std::vector<Case> optimizer_cases() {
  const Attributes options = {
      {"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}};
  const Shape weight{4096, 4096};
  return {{"adamw [4096,4096]",
           Op::adamw,
           {fp32(Shape{}), fp32(weight), fp32(weight), fp32(weight), fp32(weight)},
           options},
          {"adamw, transposed gradient",
           Op::adamw,
           {fp32(Shape{}), fp32(weight), fp32(weight, {1, 0}), fp32(weight), fp32(weight)},
           options}};
}

int run(std::int64_t rows, std::string_view wanted) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  const Floors floors = measure_floors(*device);
  fmt::print("{}: copy {:.0f} GB/s, a launch {:.2f} us\n", device->name(), floors.bytes_per_ms / 1e6,
             floors.launch_ms * 1e3);
  for (const std::vector<Case>& group : {activation_cases(rows), attention_cases(), optimizer_cases()}) {
    for (const Case& what : group) {
      if (what.label.find(wanted) != std::string::npos) report(*device, what, floors);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ridgepoint

int main(int count, char** arguments) {
  try {
    return ridgepoint::run(count > 1 ? std::atoll(arguments[1]) : 8192, count > 2 ? arguments[2] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "generated_kernel_times: {}\n", error.what());
    return 1;
  }
}
