// The gradient of an embedding that is added to the rest of its table's gradient in place.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

// The table [7,4] has the gradient %4 of a head.
constexpr const char* kSum = R"(
%0:fp32[5,4] = input() {name="g", role="data"}
%1:int64[5] = input() {name="i", role="data"}
%2:fp32[7,3] = input() {name="h", role="data"}
%3:fp32[3,4] = input() {name="x", role="data"}
%4:fp32[7,4] = matmul(%2, %3)
%5:fp32[7,4] = embedding_backward(%0, %1) {rows=7}
)";
constexpr const char* kAdded = R"(
%0:fp32[5,4] = input() {name="g", role="data"}
%1:int64[5] = input() {name="i", role="data"}
%2:fp32[7,3] = input() {name="h", role="data"}
%3:fp32[3,4] = input() {name="x", role="data"}
%4:fp32[7,4] = matmul(%2, %3)
%5:fp32[7,4] = embedding_backward_add(%0, %1, %4)
output "o" %5
)";

TEST(AddEmbeddingGradients, adds_to_the_other_gradient_of_a_table) {
  expect_rewritten(add_embedding_gradients, std::string(kSum) + R"(%6:fp32[7,4] = add(%4, %5)
output "o" %6
)",
                   kAdded);
  expect_rewritten(add_embedding_gradients, std::string(kSum) + R"(%6:fp32[7,4] = add(%5, %4)
output "o" %6
)",
                   kAdded);
}

TEST(AddEmbeddingGradients, leaves_a_sum_whose_terms_are_needed) {
  for (const char* other : {"%4", "%5"}) {
    expect_left(add_embedding_gradients,
                std::string(kSum) + "%6:fp32[7,4] = add(%4, %5)\noutput \"o\" %6\noutput \"p\" " + other + "\n");
    expect_left(add_embedding_gradients, std::string(kSum) + "%6:fp32[7,4] = add(%4, %5)\n%7:fp32[7,4] = exp(" + other +
                                             ")\noutput \"o\" %6\noutput \"p\" %7\n");
  }
}

TEST(AddEmbeddingGradients, leaves_what_may_not_be_overwritten) {
  expect_left(add_embedding_gradients, R"(
%0:fp32[5,4] = input() {name="g", role="data"}
%1:int64[5] = input() {name="i", role="data"}
%2:fp32[7,4] = input() {name="h", role="parameter"}
%3:fp32[7,4] = embedding_backward(%0, %1) {rows=7}
%4:fp32[7,4] = add(%2, %3)
output "o" %4
)");
  expect_left(add_embedding_gradients, R"(
%0:fp32[5,4] = input() {name="g", role="data"}
%1:int64[5] = input() {name="i", role="data"}
%2:fp32[7,1] = input() {name="h", role="data"}
%3:fp32[7,1] = exp(%2)
%4:fp32[7,4] = embedding_backward(%0, %1) {rows=7}
%5:fp32[7,4] = add(%3, %4)
output "o" %5
)");
}

TransformerConfig tied_model() {
  TransformerConfig config{"custom", 50, 8, 16, 24, 2, 2};
  config.architecture.tied_head = true;
  return config;
}

Program tied_program(const char* device, std::int64_t accumulate, std::vector<std::string> skip) {
  const Transformer workload(tied_model(), 2);
  CompileOptions options{.mode = Mode::forward_backward, .level = Compile::fuse, .keep = {.results = true}};
  options.accumulate = accumulate;
  options.loss_chunk_rows = 6;
  options.skip = std::move(skip);
  Program program(workload.build(), open_device(device), {.compile = options});
  initialise(program, workload, 3);
  program.run();
  return program;
}

TEST(AddEmbeddingGradients, keeps_the_gradients_of_a_tied_model) {
  for (const char* device : {"cpu", "reference"}) {
    for (const std::int64_t accumulate : {1, 3}) {
      Program expected = tied_program(device, accumulate, {"add_embedding_gradients"});
      Program found = tied_program(device, accumulate, {});
      EXPECT_EQ(testing::count(expected.graph(), Op::embedding_backward_add), 0);
      EXPECT_EQ(testing::count(found.graph(), Op::embedding_backward_add), accumulate);
      for (const Output& output : found.graph().outputs()) {
        EXPECT_LE(testing::relative_error(found.read_output(output.name), expected.read_output(output.name)), 1e-6)
            << output.name << " on " << device;
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
