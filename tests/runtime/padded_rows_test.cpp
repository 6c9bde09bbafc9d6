// Programs whose kernels pad the rows of logits compute what others do, in the memory that their plan says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "models/transformer/transformer.h"
#include "ops/layout.h"
#include "plan/plan.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kVocabulary = 1027;  // rows of 2054 and 4108 bytes
constexpr std::int64_t kPaddedInBf16 = 1088, kPaddedInFp32 = 1056;

// The distances of rows that are not dense, of roots alone.
std::multiset<std::int64_t> padded_rows(const Graph& graph) {
  std::multiset<std::int64_t> rows;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (const auto row = result_row(node, i, graph.type(node.outputs[i]).shape)) rows.insert(*row);
    }
  }
  return rows;
}

struct Padding {
  std::string name;
  CompileOptions options;
  Architecture architecture = {};
};

class PaddedRowsOn : public ::testing::TestWithParam<const char*> {
 protected:
  Tensors run(const Padding& padding, bool pads) {
    const bool is_reference = std::string(GetParam()) == "reference";
    const TransformerConfig config{
        "odd", kVocabulary, 8, 16, 32, 1, 2, AttentionVariant::composite, padding.architecture};
    const Transformer workload(config, is_reference ? 2 : 4);
    CompileOptions options = padding.options;
    options.verify = true;
    if (!pads) options.skip.push_back("pad_rows");
    Program program(workload.build(), device_, {.compile = options});
    const std::multiset<std::int64_t> rows = padded_rows(program.graph());
    EXPECT_EQ(rows.count(kPaddedInBf16) + rows.count(kPaddedInFp32), rows.size());
    EXPECT_EQ(rows.size() > 1, pads) << print_graph(program.graph());
    initialise(program, workload, 3);
    program.run();
    Tensors results;
    for (const Output& output : program.graph().outputs()) results[output.name] = program.read_output(output.name);
    const Graph forward = workload.build();
    for (const NodeId id : forward.inputs(Role::parameter)) {
      const std::string& name = input_name(forward.node(id));
      results["after " + name] = program.read_input(name);
    }
    return results;
  }

  void expect_equal(const Padding& padding) {
    SCOPED_TRACE(padding.name);
    const Tensors expected = run(padding, false);
    const Tensors found = run(padding, true);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected)
      EXPECT_LE(testing::relative_error(found.at(name), tensor), 1e-6) << name;
  }

  std::shared_ptr<Device> device_ = open_device(GetParam());
};

TEST_P(PaddedRowsOn, change_no_result_of_a_step) {
  const CompileOptions step{.mode = Mode::step, .level = Compile::full};
  const auto with = [&](auto&& change) {
    CompileOptions options = step;
    change(options);
    return options;
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp8})
    expect_equal({std::string(name(precision)), with([&](auto& o) { o.precision = precision; })});
  expect_equal({"tied", with([](auto& o) { o.precision = Precision::bf16; }), {.tied_head = true}});
  expect_equal({"capped", with([](auto& o) { o.precision = Precision::bf16; }), {.logit_cap = 3}});
  expect_equal({"chunks",
                with([](auto& o) {
                  o.precision = Precision::bf16;
                  o.loss_chunk_rows = 8;
                }),
                {.tied_head = true}});
  expect_equal({"chunks of other sizes", with([](auto& o) { o.loss_chunk_rows = 7; })});
  expect_equal({"micro-batches", with([](auto& o) {
                  o.precision = Precision::bf16;
                  o.accumulate = 2;
                })});
  expect_equal({"z-loss", with([](auto& o) { o.z_loss = 1e-2; })});
  expect_equal({"an uncompiled order of memory", with([](auto& o) { o.level = Compile::fuse; })});
}

// Each buffer has the bytes of its rows as they lie; without padding, those of its elements.
TEST_P(PaddedRowsOn, are_counted_in_the_plan_to_the_byte) {
  const TransformerConfig config{"odd", kVocabulary, 8, 16, 32, 1, 2, AttentionVariant::composite, {}};
  const Transformer workload(config, 4);
  const auto planned = [&](bool pads) {
    CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
    if (!pads) options.skip.push_back("pad_rows");
    return ProgramPlan(workload.build(), device_, {.compile = options});
  };
  const ProgramPlan dense = planned(false), padded = planned(true);
  const auto bytes_of = [](const ProgramPlan& plan) {
    std::size_t bytes = 0;
    for (const Buffer& buffer : plan.execution().buffers) bytes += buffer.bytes;
    return bytes;
  };
  std::map<std::int64_t, std::size_t> buffers;
  for (const Buffer& buffer : padded.execution().buffers) {
    const TensorType stored = storage_type(padded.graph(), buffer.value);
    EXPECT_EQ(buffer.bytes, stored.bytes());
    if (stored != padded.graph().type(buffer.value)) ++buffers[stored.shape[1]];
  }
  std::size_t more = 0;
  for (const auto& [row, count] : buffers)
    more += count * 32 * static_cast<std::size_t>(row - kVocabulary) * (row == kPaddedInBf16 ? 2 : 4);
  EXPECT_GT(more, 0U);
  EXPECT_EQ(padded.execution().buffers.size(), dense.execution().buffers.size()) << "something is not taken over";
  EXPECT_EQ(bytes_of(padded), bytes_of(dense) + more);
}

// The second product reads what the first wrote.
TEST_P(PaddedRowsOn, are_written_and_read_by_products_of_every_type) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t inner : {0, 3}) {
      for (const std::int64_t rows : {1, 4}) {
        SCOPED_TRACE(fmt::format("{} {} x {}", name(dtype), rows, inner));
        Graph graph;
        const Value x = input(graph, "x", {dtype, {rows, inner}}, Role::data);
        const Value w = input(graph, "w", {dtype, {inner, 5}}, Role::data);
        const Value product = matmul(graph, x, w);
        set_result_row(graph.node(graph.producer(product)), 0, 8);
        const Value identity = input(graph, "identity", {dtype, {5, 5}}, Role::data);
        graph.add_output("y", matmul(graph, product, identity));
        Program program(std::move(graph), device_);
        HostTensor left({dtype, {rows, inner}}), right({dtype, {inner, 5}});
        for (HostTensor* tensor : {&left, &right}) {
          const std::size_t bytes = size_bytes(dtype);
          for (std::size_t at = 0; at < tensor->data.size(); at += bytes)
            store_element(dtype, tensor->data.data() + at, static_cast<double>(at / bytes % 4) + 1);
        }
        HostTensor one({dtype, {5, 5}});
        for (std::size_t i = 0; i < 5; ++i) store_element(dtype, one.data.data() + 6 * i * size_bytes(dtype), 1);
        program.write_input("identity", one);
        program.write_input("x", left);
        program.write_input("w", right);
        program.run();
        const HostTensor y = program.read_output("y");
        for (std::int64_t i = 0; i < rows * 5; ++i) {
          double expected = 0;
          for (std::int64_t k = 0; k < inner; ++k)
            expected += static_cast<double>(((i / 5 * inner + k) % 4 + 1) * ((k * 5 + i % 5) % 4 + 1));
          EXPECT_EQ(load_element(dtype, y.data.data() + static_cast<std::size_t>(i) * size_bytes(dtype)), expected);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PaddedRowsOn, ::testing::Values("cpu", "reference"),
                         [](const auto& instance) { return std::string(instance.param); });

// The gradient of logits takes the place of the logits, in the same rows.
TEST(PaddedRows, are_written_over_those_of_the_same_distance_alone) {
  for (const std::int64_t row : {1088, 1152}) {
    Graph graph = parse_graph(fmt::format(R"(graph "g"
%0:bf16[4,8] = input() {{name="x", role="data"}} @forward "" ""
%1:bf16[8,1027] = input() {{name="w", role="data"}} @forward "" ""
%2:int64[4] = input() {{name="targets", role="data"}} @forward "" ""
%3:bf16[4,1027] = matmul(%0, %1) {{result_row_0=1088}} @forward "" ""
%4:fp32[4], %5:fp32[4] = cross_entropy(%3, %2) @loss "" ""
%6:bf16[4,1027] = cross_entropy_backward(%4, %3, %2, %5) {{result_row_0={}}} @backward "" ""
%7:bf16[1027,4] = transpose(%6) {{permutation=[1,0]}} @backward "" ""
%8:bf16[1027,8] = matmul(%7, %0) @backward "" ""
output "g" %8
)",
                                          row));
    const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
    ASSERT_EQ(plan.steps.size(), 4U);
    EXPECT_EQ(plan.steps[2].outputs[0].buffer == plan.steps[0].outputs[0].buffer, row == 1088);
    EXPECT_EQ(plan.buffers[plan.steps[2].outputs[0].buffer].bytes, static_cast<std::size_t>(4 * row * 2));
  }
}

TEST(PaddedRows, are_at_least_as_long_as_the_row_of_a_matrix) {
  for (const std::string_view wrong :
       {"fp32[3,8] = exp(%0) {result_row_0=7}", "fp32[3,8] = exp(%0) {result_order_0=[1,0], result_row_0=16}"}) {
    const Graph graph =
        parse_graph(fmt::format("graph \"g\"\n%0:fp32[3,8] = input() {{name=\"x\", role=\"data\"}} @forward \"\" "
                                "\"\"\n%1:{} @forward \"\" \"\"\noutput \"y\" %1\n",
                                wrong));
    EXPECT_THROW(value_layouts(graph), Error) << wrong;
  }
}

}  // namespace
}  // namespace ridgepoint
