#include "ridgepoint/runtime/program.h"

#include <algorithm>

#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

HostTensor tensor(const Shape& shape, std::vector<float> values) {
  HostTensor result({DType::fp32, shape});
  std::copy(values.begin(), values.end(), result.as<float>().begin());
  return result;
}

Graph chain(std::int64_t elements) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {elements}}, Role::data);
  graph.add_output("y", neg(graph, exp(graph, neg(graph, x))));
  return graph;
}

class ProgramOn : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Device> device_ = open_device(GetParam());
};

TEST_P(ProgramOn, runs_again_and_again_without_growing) {
  Program program(chain(1000), device_);
  program.write_input("x", tensor({1000}, std::vector<float>(1000, 0.0F)));
  program.run();
  const MemoryUse first = program.memory_use();
  for (int i = 0; i < 100; ++i) program.run();
  EXPECT_EQ(program.read_output("y").as<float>()[999], -1.0F);
  EXPECT_EQ(program.memory_use().peak_allocated_bytes, first.peak_allocated_bytes);
  EXPECT_EQ(program.memory_use().reserved_bytes, first.reserved_bytes);
}

TEST_P(ProgramOn, updates_state_in_place_run_after_run) {
  Graph graph;
  const Value count = input(graph, "count", {DType::fp32, {}}, Role::state);
  const Value next = shift(graph, count, 1.0);
  graph.add_update(count, next);
  graph.add_output("double", scale(graph, next, 2.0));
  Program program(std::move(graph), device_);
  for (int i = 0; i < 3; ++i) program.run();
  EXPECT_EQ(program.read_input("count").as<float>()[0], 3.0F);
  EXPECT_EQ(program.read_output("double").as<float>()[0], 6.0F);
}

TEST_P(ProgramOn, gives_an_output_that_is_an_input_or_two_names_of_one_value) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  const Value y = exp(graph, x);
  graph.add_output("x_again", x);
  graph.add_output("y", y);
  graph.add_output("y_again", y);
  Program program(std::move(graph), device_);
  program.write_input("x", tensor({2}, {0.0F, 0.0F}));
  program.run();
  program.run();
  EXPECT_EQ(program.read_output("x_again").as<float>()[1], 0.0F);
  EXPECT_EQ(program.read_output("y").as<float>()[1], 1.0F);
  EXPECT_EQ(program.read_output("y_again").as<float>()[1], 1.0F);
}

TEST_P(ProgramOn, stays_usable_after_running_out_of_memory) {
  DeviceOptions options;
  options.memory_limit_bytes = std::size_t{64} << 20;
  const std::shared_ptr<Device> device = open_device(GetParam(), options);
  {
    Program too_large(chain(8 << 20), device);  // 32 MiB of input, and two buffers of 32 MiB at once
    EXPECT_THROW(too_large.run(), OutOfMemory);
    EXPECT_LE(too_large.memory_use().allocated_bytes, std::size_t{32} << 20);
    EXPECT_THROW(too_large.run(), OutOfMemory);
  }
  EXPECT_THROW(Program(chain(32 << 20), device), OutOfMemory);
  Program fits(chain(1000), device);
  fits.write_input("x", tensor({1000}, std::vector<float>(1000, 0.0F)));
  fits.run();
  EXPECT_EQ(fits.read_output("y").as<float>()[0], -1.0F);
}

TEST_P(ProgramOn, refuses_indices_outside_a_table) {
  Graph graph;
  const Value table = input(graph, "table", {DType::fp32, {10, 4}}, Role::parameter);
  const Value indices = input(graph, "indices", {DType::int64, {2, 3}}, Role::data);
  graph.add_output("rows", embedding(graph, table, reshape(graph, indices, Shape{6})));
  Program program(std::move(graph), device_);
  HostTensor bad({DType::int64, {2, 3}});
  bad.as<std::int64_t>()[4] = 10;
  EXPECT_EQ(error_of([&] { program.write_input("indices", bad); }),
            "element 4 of 'indices' is 10; indices must be from 0 to 9");
  bad.as<std::int64_t>()[4] = -1;
  EXPECT_THROW(program.write_input("indices", bad), Error);
  bad.as<std::int64_t>()[4] = 9;
  EXPECT_NO_THROW(program.write_input("indices", bad));
}

INSTANTIATE_TEST_SUITE_P(devices, ProgramOn, ::testing::Values("cpu", "reference"));

TEST(Program, names_the_nearest_input_and_output) {
  Program program(chain(4), open_device("cpu"));
  EXPECT_NE(error_of([&] { program.write_input("xx", tensor({4}, {})); }).find("did you mean 'x'"), std::string::npos);
  EXPECT_NE(error_of([&] { program.read_output("z"); }).find("available: y"), std::string::npos);
  EXPECT_NE(error_of([&] { program.read_output("y"); }).find("before the program ran"), std::string::npos);
}

TEST(Program, refuses_a_tensor_of_another_type) {
  Program program(chain(4), open_device("cpu"));
  EXPECT_EQ(error_of([&] { program.write_input("x", tensor({5}, {})); }),
            "input 'x' is fp32[4]; the given tensor is fp32[5]");
}

TEST(Program, counts_flops_exactly) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {3, 5}}, Role::data);
  const Value b = input(graph, "b", {DType::fp32, {5, 7}}, Role::data);
  graph.add_output("y", exp(graph, matmul(graph, a, b)));
  const Program program(std::move(graph), open_device("cpu"));
  EXPECT_EQ(program.flops_per_run(), 2 * 3 * 5 * 7 + 3 * 7);
}

TEST(Program, knows_the_memory_before_backward) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {1 << 20}}, Role::parameter);
  const Value saved = exp(graph, x);
  const Value loss = reduce_sum(graph, mul(graph, saved, saved), {0});
  graph.add_output("loss", loss);
  graph.add_output("grad.x", differentiate(graph, loss, std::vector{x})[0]);
  Program program(std::move(graph), open_device("cpu"));
  EXPECT_EQ(program.before_backward_bytes(), 0U);
  program.run();
  EXPECT_EQ(program.before_backward_bytes(), (std::size_t{8} << 20) + 512);  // x, exp(x) and the loss
}

}  // namespace
}  // namespace ridgepoint
