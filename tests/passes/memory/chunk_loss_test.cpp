// The loss for some rows of logits at a time: where it applies, what it leaves alone, and that nothing but memory
// changes.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/warning.h"
#include "models/transformer/transformer.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/graph_lines.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kRows = 4;

bool in_chunks(Graph& graph, const PassOptions& options) {
  PassOptions chunked = options;
  chunked.mode = Mode::forward_backward;
  chunked.loss_chunk_rows = kRows;
  return chunk_loss(graph, chunked);
}

// A product with [D2,V5] weights, its loss over seven rows, and the gradients of its operands.
constexpr std::string_view kBegin = R"(
%0:fp32[7,2] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="w", role="parameter"}
%2:int64[7] = input() {name="targets", role="data"}
%3:fp32[2,5] = transpose(%1) {permutation=[1,0]}
%4:fp32[7,5] = matmul(%0, %3)
)";
constexpr std::string_view kLoss = R"(%5:fp32[7], %6:fp32[7] = cross_entropy(%4, %2) @loss "loss" ""
%7:fp32[] = reduce_sum(%5) {axes=[0], keep_dims=false} @loss "loss" ""
%8:fp32[] = constant() {dtype="fp32", value=0.5} @backward "loss" ""
%9:fp32[7] = broadcast(%8) {shape=[7]} @backward "loss" ""
%10:fp32[7,5] = cross_entropy_backward(%9, %4, %2, %6) @backward "loss" ""
)";
constexpr std::string_view kEnd = R"(%11:fp32[7,2] = matmul(%10, %1) @backward "" ""
%12:fp32[5,7] = transpose(%10) {permutation=[1,0]} @backward "" ""
%13:fp32[5,2] = matmul(%12, %0) @backward "" ""
output "loss" %7 loss
output "dx" %11
output "dw" %13
)";

std::string whole(std::string_view loss = kLoss, std::string_view end = kEnd) {
  return std::string(kBegin) + std::string(loss) + std::string(end);
}

TEST(ChunkLoss, computes_loss_and_gradients_of_some_rows_after_another) {
  testing::expect_rewritten(in_chunks, whole(), R"(
%0:fp32[7,2] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="w", role="parameter"}
%2:int64[7] = input() {name="targets", role="data"}
%3:fp32[2,5] = transpose(%1) {permutation=[1,0]}
%4:fp32[] = constant() {dtype="fp32", value=0.5} @backward "loss" ""
%5:fp32[7] = broadcast(%4) {shape=[7]} @backward "loss" ""
%6:fp32[4,2], %7:fp32[3,2] = split(%0) {axis=0, sizes=[4,3]} @loss "loss" ""
%8:fp32[4,5] = matmul(%6, %3)
%9:int64[4], %10:int64[3] = split(%2) {axis=0, sizes=[4,3]} @loss "loss" ""
%11:fp32[4], %12:fp32[4] = cross_entropy(%8, %9) @loss "loss" ""
%13:fp32[4], %14:fp32[3] = split(%5) {axis=0, sizes=[4,3]} @loss "loss" ""
%15:fp32[4,5] = cross_entropy_backward(%13, %8, %9, %12) @backward "loss" ""
%16:fp32[4,2] = matmul(%15, %1) @backward "" ""
%17:fp32[5,4] = transpose(%15) {permutation=[1,0]} @backward "" ""
%18:fp32[5,2] = matmul(%17, %6) @backward "" ""
%19:fp32[3,5] = matmul(%7, %3)
%20:fp32[3], %21:fp32[3] = cross_entropy(%19, %10) @loss "loss" ""
%22:fp32[3,5] = cross_entropy_backward(%14, %19, %10, %21) @backward "loss" ""
%23:fp32[3,2] = matmul(%22, %1) @backward "" ""
%24:fp32[5,3] = transpose(%22) {permutation=[1,0]} @backward "" ""
%25:fp32[5,2] = matmul_add(%24, %7, %18) @backward "" ""
%26:fp32[7] = concat(%11, %20) {axis=0} @loss "loss" ""
%27:fp32[7,2] = concat(%16, %23) {axis=0} @backward "" ""
%28:fp32[] = reduce_sum(%26) {axes=[0], keep_dims=false} @loss "loss" ""
output "loss" %28 loss
output "dx" %27
output "dw" %25
)");
}

// Soft caps and casts between the product and the loss, and their derivatives.
TEST(ChunkLoss, takes_elementwise_work_on_logits_along_and_sums_low_products_in_fp32) {
  Graph graph = testing::graph_of(R"(
%0:bf16[7,2] = input() {name="x", role="data"}
%1:bf16[5,2] = input() {name="w", role="data"}
%2:int64[7] = input() {name="targets", role="data"}
%3:fp32[7] = input() {name="g", role="data"}
%4:bf16[2,5] = transpose(%1) {permutation=[1,0]}
%5:bf16[7,5] = matmul(%0, %4)
%6:fp32[7,5] = cast(%5) {dtype="fp32"}
%7:fp32[7,5] = tanh(%6)
%8:fp32[7], %9:fp32[7] = cross_entropy(%7, %2) @loss "loss" ""
%10:fp32[7,5] = cross_entropy_backward(%3, %7, %2, %9) @backward "loss" ""
%11:fp32[7,5] = mul(%10, %7) @backward "loss" ""
%12:bf16[7,5] = cast(%11) {dtype="bf16"} @backward "loss" ""
%13:bf16[2,7] = transpose(%0) {permutation=[1,0]} @backward "" ""
%14:bf16[2,5] = matmul(%13, %12) @backward "" ""
%15:fp32[2,5] = cast(%14) {dtype="fp32"} @backward "" ""
output "losses" %8
output "dw" %15
)");
  testing::expect_changed(in_chunks, graph);
  EXPECT_EQ(testing::count(graph, Op::tanh), 2U);
  EXPECT_EQ(testing::count(graph, Op::matmul_add), 1U);
  const Node& last = graph.producer_node(*graph.find_output("dw"));
  EXPECT_EQ(last.op, Op::matmul_add);  // the cast is gone
  for (const NodeId id : graph.order()) {
    for (const Value value : graph.node(id).outputs) {
      const Shape& shape = graph.type(value).shape;
      EXPECT_FALSE(shape.rank() == 2 && shape[0] == 7 && shape[1] == 5) << name(graph.node(id).op);
    }
  }
}

// A gradient in fp32, of which the optimizer reads a part or a sum with another gradient, is not rounded on the way.
TEST(ChunkLoss, rounds_the_sums_for_an_optimizer_alone) {
  const std::string begin = R"(
%0:bf16[7,2] = input() {name="x", role="data"}
%1:bf16[5,2] = input() {name="w", role="data"}
%2:int64[7] = input() {name="targets", role="data"}
%3:fp32[7] = input() {name="g", role="data"}
%4:bf16[2,5] = transpose(%1) {permutation=[1,0]}
%5:bf16[7,5] = matmul(%0, %4)
%6:fp32[7], %7:fp32[7] = cross_entropy(%5, %2) @loss "loss" ""
%8:bf16[7,5] = cross_entropy_backward(%3, %5, %2, %7) @backward "loss" ""
%9:bf16[5,7] = transpose(%8) {permutation=[1,0]} @backward "" ""
%10:bf16[5,2] = matmul(%9, %0) @backward "" ""
%11:fp32[5,2] = cast(%10) {dtype="fp32"} @backward "" ""
)";
  const std::string ends[] = {"%12:fp32[] = nonfinite(%11) @optimizer \"\" \"\"\noutput \"finite\" %12\n",
                              "%12:fp32[5,2] = add(%11, %11) @backward \"\" \"\"\noutput \"dw\" %12\n"};
  for (const std::size_t i : {0U, 1U}) {
    Graph graph = testing::graph_of(begin + ends[i]);
    PassOptions options({.mode = Mode::step, .level = Compile::fuse, .loss_chunk_rows = kRows});
    EXPECT_TRUE(chunk_loss(graph, options));
    eliminate_dead_code(graph, {});
    verify(graph);
    EXPECT_EQ(testing::count(graph, Op::cast), i == 0 ? 2U : 0U);
    EXPECT_EQ(testing::count(graph, Op::matmul_add), 1U);
  }
}

TEST(ChunkLoss, rounds_the_sums_for_any_optimizer) {
  const TransformerConfig model{"custom", 320, 8, 256, 256, 1, 2};
  for (const Optimizer kind : {Optimizer::adamw, Optimizer::sgd, Optimizer::adamw_8bit}) {
    CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::fuse};
    options.optimizer.kind = kind;
    options.loss_chunk_rows = kRows;
    const Graph graph = compile(build_transformer(model, 2), *open_device("cpu"), options);
    EXPECT_GT(testing::count(graph, Op::matmul_add), 0U);
    const auto is_low_head = [&](Value value) {
      return graph.type(value).shape.elements() == 320 * 256 && graph.type(value).dtype == DType::bf16;
    };
    std::ptrdiff_t low_gradients = 0;
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const std::optional<OptimizerLayout> layout = optimizer_layout(node);
      for (std::size_t i = 0; layout && i < node.inputs.size(); ++i)
        low_gradients += layout->is_gradient(i) && is_low_head(node.inputs[i]) ? 1 : 0;
    }
    EXPECT_EQ(low_gradients, 1) << name(kind);  // the embedding's is fp32
  }
}

TEST(ChunkLoss, says_that_an_explicit_number_has_no_effect) {
  std::vector<std::string> heard;
  const auto warnings_of = [&](std::string_view lines, const PassOptions& options) {
    heard.clear();
    set_warning_handler([&](std::string_view message) { heard.emplace_back(message); });
    Graph graph = testing::graph_of(lines);
    chunk_loss(graph, options);
    set_warning_handler({});
    return heard;
  };
  const std::string read = whole() + "output \"logits\" %4\n";
  const PassOptions chunked({.mode = Mode::forward_backward, .loss_chunk_rows = kRows});
  EXPECT_THAT(warnings_of(read, chunked), ElementsAre(HasSubstr("the loss is not computed in chunks of 4 tokens")));
  EXPECT_THAT(warnings_of(whole(), PassOptions({.mode = Mode::forward, .loss_chunk_rows = kRows})),
              ElementsAre(HasSubstr("only a run with a backward phase")));
  EXPECT_THAT(warnings_of(whole(), chunked), IsEmpty());
  EXPECT_THAT(warnings_of(read, PassOptions({.mode = Mode::forward_backward})), IsEmpty());
}

// The logits of each micro-batch are as large as those of one batch, and so is what it saves.
TEST(ChunkLoss, chooses_alike_for_micro_batches) {
  const TransformerConfig model{"custom", 128000, 2048, 512, 1024, 16, 8};
  const auto chunks = [&](std::int64_t micro_batches) {
    const CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .accumulate = micro_batches};
    std::size_t count = 0;
    CompileOptions counted = options;
    counted.after_pass = [&](const PassResult& pass, const Graph& graph) {
      if (pass.name == "chunk_loss") count = testing::count(graph, Op::cross_entropy);
    };
    compile(build_transformer(model, 1), *open_device("cpu"), counted);
    return count / static_cast<std::size_t>(micro_batches);
  };
  EXPECT_EQ(chunks(32), chunks(1));
}

TEST(ChunkLoss, moves_what_its_operands_need_before_it) {
  // The scale of the loss stands after the loss.
  const std::string scaled = R"(%5:fp32[7], %6:fp32[7] = cross_entropy(%4, %2) @loss "loss" ""
%7:fp32[] = reduce_sum(%5) {axes=[0], keep_dims=false} @loss "loss" ""
%8:fp32[] = input() {name="scale", role="state"}
%9:fp32[7] = broadcast(%8) {shape=[7]} @backward "loss" ""
%10:fp32[7,5] = cross_entropy_backward(%9, %4, %2, %6) @backward "loss" ""
)";
  Graph graph = testing::graph_of(whole(scaled));
  testing::OpCase numbers{Op::input, "", nullptr};
  numbers.index_bound = 5;
  const testing::Tensors inputs = testing::random_inputs(graph, numbers, 7);
  const testing::Tensors expected = testing::run_by_definition(graph, inputs);
  testing::expect_changed(in_chunks, graph);
  for (const auto& [name, tensor] : testing::run_by_definition(graph, inputs))
    EXPECT_LT(testing::relative_error(tensor, expected.at(name)), 1e-6) << name;
}

void expect_whole(std::string_view lines) { testing::expect_left(in_chunks, lines); }

TEST(ChunkLoss, leaves_logits_that_something_else_reads) {
  expect_whole(whole(kLoss, std::string(kEnd) + "output \"logits\" %4\n"));
  expect_whole(whole(kLoss,
                     "%11:fp32[7] = reduce_max(%4) {axes=[1], keep_dims=false}\n"
                     "output \"loss\" %7 loss\noutput \"d\" %10\noutput \"top\" %11\n"));
}

TEST(ChunkLoss, leaves_a_gradient_that_depends_on_the_losses_of_other_rows) {
  expect_whole(whole(R"(%5:fp32[7], %6:fp32[7] = cross_entropy(%4, %2) @loss "loss" ""
%7:fp32[] = reduce_sum(%5) {axes=[0], keep_dims=false} @loss "loss" ""
%8:fp32[] = exp(%7) @backward "loss" ""
%9:fp32[7] = broadcast(%8) {shape=[7]} @backward "loss" ""
%10:fp32[7,5] = cross_entropy_backward(%9, %4, %2, %6) @backward "loss" ""
)"));
}

TEST(ChunkLoss, leaves_a_loss_without_a_derivative_or_of_logits_that_no_product_makes) {
  expect_whole(whole("%5:fp32[7], %6:fp32[7] = cross_entropy(%4, %2) @loss \"loss\" \"\"\n", "output \"losses\" %5\n"));
  expect_whole(R"(
%0:fp32[7,5] = input() {name="logits", role="data"}
%1:int64[7] = input() {name="targets", role="data"}
%2:fp32[7], %3:fp32[7] = cross_entropy(%0, %1)
%4:fp32[7,5] = cross_entropy_backward(%2, %0, %1, %3)
output "d" %4
)");
}

TEST(ChunkLoss, leaves_small_logits_unless_told_and_all_logits_when_told_so) {
  Graph graph = testing::graph_of(whole());
  PassOptions options({.mode = Mode::forward_backward});
  EXPECT_FALSE(chunk_loss(graph, options));
  options.loss_chunk_rows = 0;
  EXPECT_FALSE(chunk_loss(graph, options));
  options.loss_chunk_rows = 7;
  EXPECT_FALSE(chunk_loss(graph, options));
  options.mode = Mode::training_forward;
  options.loss_chunk_rows = kRows;
  EXPECT_FALSE(chunk_loss(graph, options));
}

// A model of 2^33 tokens has a graph of the usual size, and a chunk for each of many tokens is refused.
TEST(ChunkLoss, has_a_bounded_number_of_chunks) {
  const TransformerConfig model{"custom", 1000, 8, 16, 24, 1, 2};
  const auto compiled = [&](std::optional<std::int64_t> rows, std::int64_t batch) {
    Graph graph = training_graph(build_transformer(model, batch), {.mode = Mode::step});
    eliminate_dead_code(graph, {});
    PassOptions options({.mode = Mode::step, .loss_chunk_rows = rows});
    EXPECT_TRUE(chunk_loss(graph, options));
    return graph;
  };
  EXPECT_EQ(testing::count(compiled(std::nullopt, std::int64_t{1} << 30), Op::cross_entropy), 64U);
  // The 64th part of 2^18 + 8 tokens is rounded up, or there would be one more.
  EXPECT_EQ(testing::count(compiled(std::nullopt, (1 << 15) + 1), Op::cross_entropy), 63U);
  EXPECT_EQ(testing::count(compiled(2, 1024), Op::cross_entropy), 4096U);
  EXPECT_THROW(compiled(1, 1024), Error);
}

// Rows, columns and inner sizes that no chunk divides.
const TransformerConfig kChunkedModel{"custom", 101, 13, 16, 24, 2, 2};
constexpr std::int64_t kBatch = 3;

struct Outcome {
  double loss = 0;
  std::map<std::string, HostTensor> results;  // gradients and, after two steps, parameters
};

Outcome run(const char* device, CompileOptions options) {
  const Transformer model(kChunkedModel, kBatch);
  options.verify = true;
  options.keep.gradients = true;
  Program program(model.build(), open_device(device), {.compile = options});
  initialise(program, model, 3);
  Outcome found;
  for (int step = 0; step < 2; ++step) program.run();
  program.synchronize();
  found.loss = program.read_output("loss").as<float>()[0];
  for (const Output& output : program.graph().outputs()) {
    if (output.role == OutputRole::gradient) found.results[output.name] = program.read_output(output.name);
  }
  for (const ParameterDeclaration& parameter : parameters_of(model))
    found.results[parameter.name] = program.read_input(parameter.name);
  return found;
}

void expect_equal(const Outcome& found, const Outcome& expected, double tolerance) {
  EXPECT_NEAR(found.loss, expected.loss, tolerance * expected.loss);
  ASSERT_EQ(found.results.size(), expected.results.size());
  for (const auto& [name, tensor] : expected.results)
    EXPECT_LT(testing::relative_error(found.results.at(name), tensor), tolerance) << name;
}

TEST(ChunkLoss, changes_no_gradient_and_no_step_in_fp32_or_double) {
  for (const char* device : {"cpu", "reference"}) {
    for (const Compile level : {Compile::off, Compile::fuse, Compile::full}) {
      for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::selective, Checkpoint::block}) {
        SCOPED_TRACE(fmt::format("{} {} {}", device, name(level), name(checkpoint)));
        CompileOptions options{.mode = Mode::step, .level = level, .checkpoint = checkpoint, .loss_chunk_rows = 0};
        const Outcome expected = run(device, options);
        for (const std::int64_t rows : {1, 7, 38}) {
          options.loss_chunk_rows = rows;
          expect_equal(run(device, options), expected, 1e-6);
        }
      }
    }
  }
}

TEST(ChunkLoss, is_as_exact_as_low_products_and_keeps_loss_scaling) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    for (const Compile level : {Compile::off, Compile::fuse}) {
      SCOPED_TRACE(fmt::format("{} {}", name(precision), name(level)));
      CompileOptions options{
          .mode = Mode::step, .precision = precision, .level = level, .loss_chunk_rows = std::int64_t{0}};
      const Outcome expected = run("cpu", options);
      options.loss_chunk_rows = 10;
      expect_equal(run("cpu", options), expected, precision == Precision::bf16 ? 2e-2 : 3e-3);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
