// Mixture of experts on the CPU: the order of top-k, what is refused, and that threads change no bit. The tests over
// all ops compare the values with the reference back end.

#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/device.h"
#include "backends/cpu/kernel_harness.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::KernelRun;
using testing::Operand;

class CpuExperts : public ::testing::Test {
 protected:
  ~CpuExperts() override { make_cpu_device(); }  // back to every core

  Operand random(const Shape& shape, DType dtype = DType::fp32) {
    return testing::random_operand(dtype, shape, random_);
  }

  std::mt19937 random_{5};
};

TEST_F(CpuExperts, order_equal_values_by_index_and_nan_before_numbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> row = {1, nan, 3, 3, -std::numeric_limits<double>::infinity(), nan, 2};
  for (const char* device : {"cpu", "reference"}) {
    for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      Graph graph;
      const auto [values, indices] = top_k(graph, input(graph, "x", {dtype, {2, 7}}, Role::data), 6);
      graph.add_output("values", values);
      graph.add_output("indices", indices);
      HostTensor x({dtype, {2, 7}});
      for (std::size_t i = 0; i < 14; ++i)
        store_element(dtype, x.data.data() + i * size_bytes(dtype), i < 7 ? row[i] : 0.0);
      const testing::Tensors found = testing::run_graph(std::move(graph), open_device(device), {{"x", x}});
      const std::span<const std::int64_t> order = found.at("indices").as<std::int64_t>();
      EXPECT_THAT(std::vector(order.begin(), order.end()), ElementsAre(1, 5, 2, 3, 6, 0, 0, 1, 2, 3, 4, 5)) << device;
    }
  }
}

TEST_F(CpuExperts, refuse_experts_that_are_not_there) {
  const std::shared_ptr<Device> device = testing::cpu_with_threads(2);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, INT64_MIN, INT64_MAX}) {
    const std::vector<std::int64_t> offsets = {0, 2, bad, 4};
    const Operand laid = testing::index_operand({4}, offsets);
    KernelRun product(*device, Op::grouped_matmul, {random({4, 5}), random({3, 5, 2}), laid}, {{"transposed", false}});
    KernelRun sums(*device, Op::grouped_matmul_weights, {random({4, 5}), random({4, 2}), laid});
    if (bad == 3) {
      EXPECT_NO_THROW(product.launch());
      EXPECT_NO_THROW(sums.launch());
    } else {
      EXPECT_THROW(product.launch(), Error) << bad;
      EXPECT_THROW(sums.launch(), Error) << bad;
    }
    Graph graph;
    const Value choices = input(graph, "choices", {DType::int64, {1, 2}}, Role::data);
    graph.add_output("order", expert_order(graph, choices, 3).order);
    HostTensor given({DType::int64, {1, 2}});
    given.as<std::int64_t>()[1] = bad;
    EXPECT_THROW(testing::run_graph(std::move(graph), device, {{"choices", given}}), Error) << bad;
  }
}

TEST_F(CpuExperts, have_the_same_bits_whatever_the_threads) {
  const std::vector<std::int64_t> offsets = {0, 130, 130, 200, 301};
  const Operand laid = testing::index_operand({5}, offsets);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const std::vector<Operand> forward = {random({301, 70}, dtype), random({4, 450, 70}, dtype), laid};
    const std::vector<Operand> backward = {random({301, 70}, dtype), random({301, 450}, dtype), laid};
    std::vector<std::vector<std::byte>> bits;
    for (const int threads : {1, 2, 5}) {
      const std::shared_ptr<Device> device = testing::cpu_with_threads(threads);
      KernelRun product(*device, Op::grouped_matmul, forward, {{"transposed", true}});
      KernelRun sums(*device, Op::grouped_matmul_weights, backward);
      product.launch();
      sums.launch();
      bits.push_back(product.output.data);
      bits.back().insert(bits.back().end(), sums.output.data.begin(), sums.output.data.end());
      EXPECT_EQ(bits.back(), bits.front()) << threads;
    }
  }
}

}  // namespace
}  // namespace ridgepoint
