// The hand-written CUDA kernels on the shapes of the model presets, each with two floors: the time of the bytes that it
// must move at the copy bandwidth of the same run, and the time of its launches.
//   hand_written_kernel_times [part of a label] [device, default cuda]
// The expected microseconds of an H200 at 4.25 TB/s of copy and 50 TFLOP/s of fp32 (bytes / arithmetic):
//   embedding            1024 x 768: 1.5 / 0        32768 x 2560: 158 / 0
//   embedding_backward   1024 x 768, V 10000: 8.0 / 0.02      32768 x 768: 31 / 0.5      32768 x 2560: 103 / 1.7
//   rope                 [4,256,12,64]: 1.5 / 0.1       [32,1024,12,64]: 47 / 1.5
//   cross_entropy        1024 x 10000: 9.6 / 0.8    32768 x 10000: 308 / 26    4096 x 50257: 194 / 17
//   its gradient         1024 x 10000: 19 / 0.8     32768 x 10000: 617 / 26    4096 x 50257: 387 / 17
//   linear_attention     Qwen3-Next: 48 / 49        Nemotron-H 8B: 73 / 56 (by tensor cores at 790 TFLOP/s)
//   its gradient         Qwen3-Next: 80 / 136       Nemotron-H 8B: 114 / 175
//   adamw (28 bytes)     tiny: 20 / 1               small: 847 / 39            large: 6387 / 291
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kRotatedBytes = std::size_t{512} << 20;  // operands of one benchmark: far more than the L2
constexpr int kRepeats = 9;
constexpr int kLaunches = 20;  // timed together

struct Case {
  std::string label;
  std::function<NodeId(Graph&)> build;  // operands of floats as number_of() has them by name
  std::int64_t index_bound = 1;
  double hot_share = 0;  // share of indices that are all equal
};

// No negative number for "positive...", no positive one for "negative...", and hundredths for "small...".
double number_of(std::string_view operand, double real) {
  if (operand.starts_with("positive")) return std::fabs(real);
  if (operand.starts_with("negative")) return -std::fabs(real);
  return operand.starts_with("small") ? real / 100 : real;
}

class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, std::size_t bytes) : device_(device), bytes_(std::max<std::size_t>(bytes, 1)) {
    address_ = static_cast<std::byte*>(device.allocate_memory(bytes_));
    if (address_ == nullptr) throw Error("the GPU has not enough memory for the benchmark");
  }
  ~DeviceBuffer() { device_.release_memory(address_, bytes_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::byte* address() const { return address_; }

 private:
  Device& device_;
  std::size_t bytes_;
  std::byte* address_ = nullptr;
};

// One copy of a case's operands and results, with the node's kernel. Results reuse donated operands.
class Instance {
 public:
  Instance(Device& device, const Case& what) : device_(device), node_(what.build(graph_)) {
    const Node& node = graph_.node(node_);
    const std::vector<ValueLayout> layouts = value_layouts(graph_);
    std::vector<TensorLayout> in;
    std::vector<TensorLayout> out;
    for (const Value value : node.inputs) {
      in.push_back(layouts[value.id].layout);
      inputs_.push_back(filled(layouts[value.id].root, what));
    }
    for (const Value value : node.outputs) {
      out.push_back(layouts[value.id].layout);
      outputs_.push_back(nullptr);
    }
    if (rule(node.op).donations != nullptr) {
      for (const auto& [output, input] : rule(node.op).donations(node)) {
        outputs_[static_cast<std::size_t>(output)] = inputs_[static_cast<std::size_t>(input)];
      }
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i] == nullptr) outputs_[i] = allocated(graph_.type(node.outputs[i]).bytes());
    }
    bytes_ = static_cast<std::size_t>(cost(graph_, node).bytes);
    kernel_ = device.make_kernel({graph_, node, in, out});
    workspace_ = allocated(kernel_->workspace_bytes());
  }

  void launch() { kernel_->launch({inputs_.data(), outputs_.data(), workspace_}); }
  std::size_t bytes() const { return bytes_; }
  std::string_view name() const { return kernel_->name(); }

 private:
  void* allocated(std::size_t bytes) {
    buffers_.push_back(std::make_unique<DeviceBuffer>(device_, bytes));
    return buffers_.back()->address();
  }

  // Repeated random numbers: their values do not change the time, but zeros would.
  void* filled(Value value, const Case& what) {
    const TensorType& type = graph_.type(value);
    const std::string& operand = graph_.producer_node(value).attributes.get<std::string>("name");
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    HostTensor pattern(TensorType{type.dtype, Shape{std::min<std::int64_t>(type.elements(), 1 << 18)}});
    const std::size_t size = size_bytes(type.dtype);
    for (std::size_t i = 0; i < pattern.data.size() / size; ++i) {
      const bool hot = static_cast<double>(random()) < what.hot_share * 4294967296.0;
      const double index = hot ? 0.0 : static_cast<double>(random() % static_cast<unsigned>(what.index_bound));
      const double real = normal(random);
      store_element(type.dtype, pattern.data.data() + i * size,
                    is_floating(type.dtype) ? number_of(operand, real) : index);
    }
    auto* address = static_cast<std::byte*>(allocated(type.bytes()));
    for (std::size_t at = 0; at < type.bytes(); at += pattern.data.size()) {
      device_.copy_to_device(address + at, pattern.data.data(), std::min(pattern.data.size(), type.bytes() - at));
    }
    return address;
  }

  Device& device_;
  Graph graph_;
  NodeId node_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  void* workspace_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<Kernel> kernel_;
};

// Median milliseconds of one launch, over as many copies as keep the operands out of the cache.
double median_ms(Device& device, const Case& what, std::size_t& bytes, std::string& name) {
  std::vector<std::unique_ptr<Instance>> copies;
  copies.push_back(std::make_unique<Instance>(device, what));
  bytes = copies[0]->bytes();
  name = copies[0]->name();
  const std::size_t count = std::clamp<std::size_t>(kRotatedBytes / bytes, 1, 64);
  while (copies.size() < count) copies.push_back(std::make_unique<Instance>(device, what));
  const std::unique_ptr<DeviceTimer> timer = device.make_timer();
  std::vector<double> samples;
  std::size_t next = 0;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    timer->start();
    for (int i = 0; i < kLaunches; ++i) copies[next++ % copies.size()]->launch();
    timer->stop();
    const double ms = timer->elapsed_ms() / kLaunches;
    if (repeat >= 0) samples.push_back(ms);  // the first warms up
  }
  std::nth_element(samples.begin(), samples.begin() + kRepeats / 2, samples.end());
  return samples[kRepeats / 2];
}

Value tensor(Graph& graph, const std::string& name, Shape shape, DType dtype = DType::fp32) {
  return input(graph, name, {dtype, shape}, Role::data);
}

std::string text(const char* format, std::int64_t a, std::int64_t b) { return fmt::format(fmt::runtime(format), a, b); }

void add_embedding_cases(std::vector<Case>& cases) {
  constexpr std::int64_t kVocabulary = 10000;
  for (const auto& [tokens, width] : {std::pair<std::int64_t, std::int64_t>{1024, 768}, {32768, 768}, {32768, 2560}}) {
    const Shape rows{tokens, width};
    cases.push_back({text("embedding {} x {}", tokens, width),
                     [=](Graph& g) {
                       return make_node(
                           g, Op::embedding,
                           {tensor(g, "table", {kVocabulary, width}), tensor(g, "indices", {tokens}, DType::int64)});
                     },
                     kVocabulary});
    for (const double hot : {0.0, 0.05, 1.0}) {
      cases.push_back(
          {text("embedding_backward {} x {}", tokens, width) + fmt::format(", {:.0f} % one index", 100 * hot),
           [=](Graph& g) {
             return make_node(g, Op::embedding_backward,
                              {tensor(g, "gradient", rows), tensor(g, "indices", {tokens}, DType::int64)},
                              {{"rows", kVocabulary}});
           },
           kVocabulary, hot});
    }
  }
}

void add_rope_cases(std::vector<Case>& cases) {
  for (const auto& [batch, context] : {std::pair<std::int64_t, std::int64_t>{4, 256}, {32, 1024}}) {
    for (const bool by_head : {false, true}) {
      cases.push_back({text("rope [{},{},12,64]", batch, context) + (by_head ? " of a transpose" : ""), [=](Graph& g) {
                         const Value x = by_head ? transpose(g, tensor(g, "x", {batch, 12, context, 64}), {0, 2, 1, 3})
                                                 : tensor(g, "x", {batch, context, 12, 64});
                         return make_node(g, Op::rope,
                                          {x, tensor(g, "cosines", {context, 32}), tensor(g, "sines", {context, 32})},
                                          {{"axis", std::int64_t{1}}, {"inverse", by_head}});
                       }});
    }
  }
}

void add_loss_cases(std::vector<Case>& cases) {
  for (const auto& [tokens, vocabulary] :
       {std::pair<std::int64_t, std::int64_t>{1024, 10000}, {32768, 10000}, {4096, 50257}}) {
    const Shape logits{tokens, vocabulary};
    const Shape rows{tokens};
    cases.push_back({text("cross_entropy {} x {}", tokens, vocabulary),
                     [=](Graph& g) {
                       return make_node(g, Op::cross_entropy,
                                        {tensor(g, "logits", logits), tensor(g, "targets", rows, DType::int64)});
                     },
                     vocabulary});
    cases.push_back({text("cross_entropy_backward {} x {}", tokens, vocabulary),
                     [=](Graph& g) {
                       return make_node(g, Op::cross_entropy_backward,
                                        {tensor(g, "gradient", rows), tensor(g, "logits", logits),
                                         tensor(g, "targets", rows, DType::int64), tensor(g, "log_sum_exps", rows)});
                     },
                     vocabulary});
  }
}

// The layers of two models with 8,192 tokens, their heads where projections have them.
void add_linear_attention_cases(std::vector<Case>& cases) {
  struct Layer {
    std::string model;
    std::int64_t key_heads, heads, key_width, value_width;
    bool delta;
  };
  for (const Layer& layer :
       {Layer{"Qwen3-Next", 16, 32, 128, 128, true}, Layer{"Nemotron-H 8B", 8, 128, 128, 64, false}}) {
    for (const bool backward : {false, true}) {
      cases.push_back(
          {fmt::format("linear_attention{} of {}", backward ? "_backward" : "", layer.model), [=](Graph& g) {
             const auto rows = [&](const char* name, std::int64_t heads, std::int64_t width) {
               return transpose(g, tensor(g, name, {1, 8192, heads, width}, DType::bf16), {0, 2, 1, 3});
             };
             std::vector<Value> operands;
             if (backward) operands.push_back(rows("d_o", layer.heads, layer.value_width));
             operands.push_back(rows("q", layer.key_heads, layer.key_width));
             operands.push_back(rows("small.k", layer.key_heads, layer.key_width));
             operands.push_back(rows("v", layer.heads, layer.value_width));
             operands.push_back(tensor(g, "negative.g", {1, layer.heads, 8192}));
             operands.push_back(tensor(g, "positive.beta", {1, layer.heads, 8192}));
             return make_node(g, backward ? Op::linear_attention_backward : Op::linear_attention, operands,
                              {{"delta", layer.delta}, {"scale", 0.1}});
           }});
    }
  }
}

// Every tensor of a preset in one node.
NodeId build_optimizer(Graph& graph, const std::string& preset) {
  TransformerConfig config = transformer_preset(preset);
  config.context = 1;
  const Graph model = build_transformer(config, 1);
  std::vector<Value> operands = {tensor(graph, "positive.step", {})};
  for (const NodeId id : model.inputs()) {
    const Node& node = model.node(id);
    if (node.attributes.get<std::string>("role") != name(Role::parameter)) continue;
    const Shape& shape = model.type(node.outputs[0]).shape;
    const std::string& parameter = node.attributes.get<std::string>("name");
    for (const char* part : {"parameter.", "gradient.", "first.", "positive.second."}) {
      operands.push_back(tensor(graph, part + parameter, shape));
    }
  }
  return make_node(
      graph, Op::adamw, operands,
      {{"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  // The copy bandwidth, and the time of an empty launch.
  cases.push_back({"copy 1 GiB", [](Graph& g) { return make_node(g, Op::copy, {tensor(g, "x", {1 << 28})}); }});
  cases.push_back(
      {"embedding 1 x 4", [](Graph& g) {
         return make_node(g, Op::embedding, {tensor(g, "table", {1, 4}), tensor(g, "indices", {1}, DType::int64)});
       }});
  add_embedding_cases(cases);
  add_rope_cases(cases);
  add_loss_cases(cases);
  add_linear_attention_cases(cases);
  for (const char* preset : {"tiny", "small", "large"}) {
    cases.push_back({fmt::format("adamw {}", preset), [=](Graph& g) { return build_optimizer(g, preset); }});
  }
  return cases;
}

void run(std::string_view wanted, std::string_view device_name) {
  const std::shared_ptr<Device> device = open_device(device_name);
  double bytes_per_ms = 0;
  double launch_ms = 0;
  fmt::print("{}\n", device->name());
  for (const Case& what : all_cases()) {
    const bool is_floor = bytes_per_ms == 0 || launch_ms == 0;
    if (!is_floor && what.label.find(wanted) == std::string::npos) continue;
    std::size_t bytes = 0;
    std::string name;
    const double ms = median_ms(*device, what, bytes, name);
    if (bytes_per_ms == 0) {
      bytes_per_ms = static_cast<double>(bytes) / ms;
    } else if (launch_ms == 0) {
      launch_ms = ms;
    }
    const double floor_ms = std::max(static_cast<double>(bytes) / bytes_per_ms, launch_ms);
    fmt::print("{:50} {:36} {:9.1f} MB {:9.1f} us {:6.0f} GB/s  floor {:8.1f} us  {:3.0f} %\n", what.label, name,
               static_cast<double>(bytes) / 1e6, ms * 1e3, static_cast<double>(bytes) / ms / 1e6, floor_ms * 1e3,
               100 * floor_ms / ms);
  }
}

}  // namespace
}  // namespace ridgepoint

int main(int count, char** arguments) {
  try {
    ridgepoint::run(count > 1 ? arguments[1] : "", count > 2 ? arguments[2] : "cuda");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hand_written_kernel_times: {}\n", error.what());
    return 1;
  }
}
