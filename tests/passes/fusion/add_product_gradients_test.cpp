// The gradients of weights whose products add to those of the micro-batches before.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "passes/graph_lines.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

// Gradients of three micro-batches, in bf16.
constexpr std::string_view kLow = R"(
%0:bf16[6,4] = input() {name="g", role="data"}
%1:bf16[4,8] = input() {name="x", role="data"}
%2:bf16[6,8] = matmul(%0, %1) {compute="fp8", left_codes="e5m2"}
%3:bf16[6,8] = matmul(%0, %1) {compute="fp8", left_codes="e5m2"}
%4:bf16[6,8] = add(%2, %3) {accumulates=true}
%5:bf16[6,8] = matmul(%0, %1) {compute="fp8", left_codes="e5m2"}
%6:bf16[6,8] = add(%4, %5) {accumulates=true}
output "o" %6
)";

TEST(AddProductGradients, adds_in_the_product) {
  expect_rewritten(add_product_gradients, kLow, R"(
...
%3:bf16[6,8] = matmul_add(%0, %1, %2) {compute="fp8", left_codes="e5m2"}
%4:bf16[6,8] = matmul_add(%0, %1, %3) {compute="fp8", left_codes="e5m2"}
output "o" %4
)");
}

// The same two, which add up in fp32.
constexpr std::string_view kWide = R"(
%0:bf16[6,4] = input() {name="g", role="data"}
%1:bf16[4,8] = input() {name="x", role="data"}
%2:bf16[6,8] = matmul(%0, %1)
%3:fp32[6,8] = cast(%2) {dtype="fp32"}
%4:bf16[6,8] = matmul(%0, %1)
%5:fp32[6,8] = cast(%4) {dtype="fp32"}
%6:fp32[6,8] = add(%3, %5) {accumulates=true}
output "o" %6
)";

TEST(AddProductGradients, rounds_no_product_of_gradients_that_add_up_in_fp32) {
  expect_rewritten(add_product_gradients, kWide, R"(
%0:bf16[6,4] = input() {name="g", role="data"}
%1:bf16[4,8] = input() {name="x", role="data"}
%2:fp32[6,8] = matmul(%0, %1) {result="fp32"}
%3:fp32[6,8] = matmul_add(%0, %1, %2)
output "o" %3
)");
}

TEST(AddProductGradients, leaves_other_sums) {
  const auto expect_left_with = [](std::string_view before, std::string_view after) {
    expect_left(add_product_gradients, testing::replaced(std::string(kWide), before, after));
  };
  expect_left_with(" {accumulates=true}", "");
  expect_left_with("output \"o\"", "output \"p\" %4\noutput \"o\"");
  expect_left_with("output \"o\"", "output \"p\" %5\noutput \"o\"");
  expect_left_with("%4:bf16[6,8] = matmul(%0, %1)", "%4:bf16[6,8] = exp(%2)");
}

Program program_of(const char* device, const CompileOptions& options) {
  const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
  Program program(workload.build(), open_device(device), {.compile = options});
  initialise(program, workload, 3);
  program.run();
  return program;
}

TEST(AddProductGradients, keeps_the_gradients_of_a_model) {
  for (const char* device : {"cpu", "reference"}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8}) {
      for (const bool master_weights : {true, false}) {
        if (precision == Precision::fp32 && !master_weights) continue;
        CompileOptions options{.mode = Mode::forward_backward, .precision = precision, .level = Compile::fuse};
        options.master_weights = master_weights;
        options.accumulate = 3;
        Program found = program_of(device, options);
        options.skip = {"add_product_gradients"};
        Program expected = program_of(device, options);
        EXPECT_GT(testing::count(found.graph(), Op::matmul), 0U);
        const double tolerance = precision == Precision::fp32 ? 1e-6 : 1e-2;
        for (const Output& output : found.graph().outputs()) {
          const HostTensor of_sums = convert(expected.read_output(output.name), DType::fp64);
          EXPECT_LE(testing::relative_error(convert(found.read_output(output.name), DType::fp64), of_sums), tolerance)
              << output.name << " on " << device << " in " << name(precision);
        }
      }
    }
  }
}

// None of the kernels that remain reads and writes two gradients of a weight.
TEST(AddProductGradients, leaves_no_sum_of_matrices_to_another_kernel) {
  DeviceOptions h100;
  h100.card = describe_card(*find_datasheet("h100"));
  for (const Precision precision : {Precision::bf16, Precision::fp8}) {
    for (const bool master_weights : {true, false}) {
      const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
      CompileOptions options{.mode = Mode::step, .precision = precision, .level = Compile::full};
      options.master_weights = master_weights;
      options.accumulate = 2;
      const Program program(workload.build(), open_device("null", h100), {.compile = options});
      std::size_t added = 0;
      for (const NodeId id : program.graph().order()) {
        const Node& node = program.graph().node(id);
        added += addend_operand(node) ? 1 : 0;
        const bool is_matrix = node.op == Op::add && program.graph().type(node.outputs[0]).shape.rank() > 1;
        EXPECT_FALSE(is_matrix && node.attributes.get_or(kAccumulates, false));
      }
      EXPECT_EQ(added, 2U * 4 + 1) << "four weights of a block, and the head";
    }
  }
}

}  // namespace
}  // namespace ridgepoint
