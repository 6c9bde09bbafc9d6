// Random values written to inputs, on every device that computes.
#include <gtest/gtest.h>

#include "core/random/random_values.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

constexpr TruncatedNormal kDistribution{.mean = 0.25, .deviation = 2};

HostTensor host_values(std::int64_t count, const char* name, DType dtype) {
  HostTensor values({DType::fp32, {count}});
  fill_random(values.as<float>(), kDistribution, random_stream(name, 7));
  HostTensor stored({dtype, {count}});
  convert_to_stored(values, stored);
  return stored;
}

class WriteRandomOn : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Device> device_ = open_device(GetParam());
};

TEST_P(WriteRandomOn, rounds_the_values_of_the_host) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    Graph graph;
    const Value x = input(graph, "x", {dtype, {1001}}, Role::data);
    graph.add_output("y", neg(graph, x));
    Program program(std::move(graph), device_);
    program.write_random("x", kDistribution, 7);
    EXPECT_EQ(program.read_input("x").data, host_values(1001, "x", dtype).data) << name(dtype);
  }
}

// A device that makes values in parts continues where the last part ended.
TEST_P(WriteRandomOn, fills_an_input_of_several_parts) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 23) + 5;
  Graph graph;
  const Value x = input(graph, "x", {DType::bf16, {kCount}}, Role::data);
  graph.add_output("y", neg(graph, x));
  Program program(std::move(graph), device_);
  program.write_random("x", kDistribution, 7);
  EXPECT_EQ(program.read_input("x").data, host_values(kCount, "x", DType::bf16).data);
}

TEST_P(WriteRandomOn, asks_whether_to_stop) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {8}}, Role::data);
  graph.add_output("y", neg(graph, x));
  Program program(std::move(graph), device_);
  EXPECT_THROW(program.write_random("x", kDistribution, 7, [] { throw Error("stopped"); }), Error);
}

TEST_P(WriteRandomOn, refuses_integers_and_unknown_names) {
  Graph graph;
  const Value table = input(graph, "table", {DType::fp32, {4, 2}}, Role::parameter);
  const Value rows = input(graph, "rows", {DType::int64, {3}}, Role::data);
  graph.add_output("y", embedding(graph, table, rows));
  Program program(std::move(graph), device_);
  EXPECT_THROW(program.write_random("rows", kDistribution, 7), Error);
  EXPECT_THROW(program.write_random("tables", kDistribution, 7), Error);
}

INSTANTIATE_TEST_SUITE_P(devices, WriteRandomOn, ::testing::Values("cpu", "reference"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace ridgepoint
