// Linear attention on the CPU in low types, and that threads change no bit. The tests over all ops compare fp32 with
// the reference back end.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/device.h"
#include "backends/cpu/kernel_harness.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

// A derivative of two heads of keys and six of values, whose tokens are no whole number of chunks.
testing::Tensors gradients(const std::shared_ptr<Device>& device, DType dtype, bool delta) {
  Graph graph;
  std::mt19937 random(7);
  testing::Tensors inputs;
  const auto in = [&](const char* name, const Shape& shape, DType of, double factor, double shift) {
    const TensorType type{of, shape};
    HostTensor tensor(type);
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      const double value = shift + factor * std::uniform_real_distribution<double>(-1, 1)(random);
      std::byte short_number[2];  // which every type has
      store_element(DType::bf16, short_number, value);
      store_element(of, tensor.data.data() + static_cast<std::size_t>(i) * size_bytes(of),
                    load_element(DType::bf16, short_number));
    }
    inputs.emplace(name, tensor);
    return input(graph, name, type, Role::data);
  };
  const Shape keys{2, 150, 24}, values{6, 150, 36}, rows{6, 150};
  const Value d_o = in("d_o", values, dtype, 1, 0);
  const Value q = in("q", keys, dtype, 1, 0), k = in("k", keys, dtype, 0.4, 0), v = in("v", values, dtype, 1, 0);
  const Value g = in("g", rows, accumulator(dtype), 0.1, -0.1), beta = in("beta", rows, accumulator(dtype), 0.4, 0.5);
  const Attributes attributes = {{"delta", delta}, {"scale", 0.2}};
  graph.add_output("o", make_value(graph, Op::linear_attention, {q, k, v, g, beta}, attributes));
  const NodeId made = make_node(graph, Op::linear_attention_backward, {d_o, q, k, v, g, beta}, attributes);
  for (const Value value : graph.node(made).outputs) graph.add_output(std::to_string(value.id), value);
  return testing::run_graph(std::move(graph), device, inputs);
}

TEST(CpuLinearAttention, agrees_with_the_recurrence_in_every_type) {
  for (const bool delta : {false, true}) {
    const testing::Tensors expected = gradients(open_device("reference"), DType::fp64, delta);
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::fp64, 1e-13}, {DType::fp32, 2e-6}, {DType::fp16, 1e-3}, {DType::bf16, 6e-3}}) {
      const testing::Tensors found = gradients(open_device("cpu"), dtype, delta);
      for (const auto& [name, tensor] : expected)
        EXPECT_LE(testing::relative_error(found.at(name), tensor), tolerance) << ridgepoint::name(dtype) << ' ' << name;
    }
  }
}

TEST(CpuLinearAttention, has_no_gradient_of_the_first_decay_where_there_is_no_state) {
  for (const bool delta : {false, true}) {
    const testing::Tensors found = gradients(open_device("cpu"), DType::fp64, delta);
    constexpr std::int64_t kHeads = 6, kTokens = 150;
    int of_rows = 0;
    for (const auto& [name, tensor] : found) {
      if (tensor.type.shape != Shape{kHeads, kTokens} || of_rows++ > 0) continue;  // of g, before that of beta
      for (std::int64_t head = 0; head < kHeads; ++head)
        EXPECT_EQ(tensor.as<double>()[static_cast<std::size_t>(head * kTokens)], 0) << delta;
    }
    EXPECT_EQ(of_rows, 2);
  }
}

TEST(CpuLinearAttention, has_the_same_bits_whatever_the_threads) {
  const testing::Tensors expected = gradients(testing::cpu_with_threads(1), DType::bf16, true);
  for (const int threads : {2, 5}) {
    const testing::Tensors found = gradients(testing::cpu_with_threads(threads), DType::bf16, true);
    for (const auto& [name, tensor] : expected) EXPECT_EQ(found.at(name).data, tensor.data) << threads << ' ' << name;
  }
  make_cpu_device();  // back to every core
}

}  // namespace
}  // namespace ridgepoint
