// One call of attention as a graph: its shapes, its gradients, its saved activations, and its errors.
#include "models/transformer/attention.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "backends/null/null_device.h"
#include "core/warning.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/device.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

AttentionProblem problem_of(std::int64_t sequence, std::int64_t d_model, std::int64_t heads = 2) {
  AttentionProblem problem;
  problem.batch = 2;
  problem.heads = heads;
  problem.d_model = d_model;
  problem.queries = problem.keys = sequence;
  return problem;
}

Tensors random_operands(const Graph& graph) {
  Program program(graph, open_device("reference"));
  AttentionCall({}).write_data(program, 3);
  Tensors tensors;
  for (const char* name : {"q", "k", "v", "grad.o"}) tensors.emplace(name, program.read_input(name));
  return tensors;
}

void expect_refused(const AttentionProblem& problem, const std::string& message) {
  EXPECT_THAT(error_of([&] { validate(problem); }, ErrorKind::usage), HasSubstr(message));
}

TEST(AttentionProblem, has_the_same_gradients_in_every_variant) {
  AttentionProblem problem = problem_of(19, 12);
  problem.keys = 23;
  for (const bool causal : {false, true}) {
    problem.causal = causal;
    if (causal) problem.keys = problem.queries;
    problem.variant = AttentionVariant::composite;
    const Graph composite = testing::attention_graph(problem, Mode::forward_backward);
    const Tensors inputs = random_operands(composite);
    const Tensors expected = testing::run_graph(composite, open_device("reference"), inputs);
    EXPECT_THAT(expected, SizeIs(4));
    for (const AttentionVariant variant : kAllAttentionVariants) {
      problem.variant = variant;
      const Tensors found =
          testing::run_graph(testing::attention_graph(problem, Mode::forward_backward), open_device("cpu"), inputs);
      for (const auto& [tensor, value] : expected) {
        EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-5) << name(variant) << ' ' << tensor;
      }
    }
  }
}

TEST(AttentionProblem, has_the_same_gradients_in_every_variant_with_shared_keys_a_window_and_a_cap) {
  AttentionProblem problem = problem_of(19, 24, 6);
  problem.kv_heads = 2;
  problem.causal = true;
  problem.window = 5;
  problem.soft_cap = 2;
  const Graph composite = testing::attention_graph(problem, Mode::forward_backward);
  EXPECT_EQ(composite.type(*composite.find_input("k")).shape, (Shape{2, 2, 19, 4}));
  const Tensors inputs = random_operands(composite);
  const Tensors expected = testing::run_graph(composite, open_device("reference"), inputs);
  EXPECT_EQ(expected.at("grad.v").type.shape, (Shape{2, 2, 19, 4}));
  for (const AttentionVariant variant : kAllAttentionVariants) {
    problem.variant = variant;
    const Tensors found =
        testing::run_graph(testing::attention_graph(problem, Mode::forward_backward), open_device("cpu"), inputs);
    for (const auto& [tensor, value] : expected)
      EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-5) << name(variant) << ' ' << tensor;
  }
}

TEST(AttentionProblem, has_no_window_where_it_hides_nothing) {
  AttentionProblem problem = problem_of(16, 8);
  problem.causal = true;
  problem.variant = AttentionVariant::flash;
  const auto attribute = [&](std::int64_t window) {
    problem.window = window;
    const Graph graph = build_attention_problem(problem);
    return graph.producer_node(*graph.find_output("o")).attributes.get_or<std::int64_t>("window", 0);
  };
  EXPECT_EQ(attribute(15), 15);
  EXPECT_EQ(attribute(16), 0);
}

TEST(AttentionProblem, without_backward_makes_o_alone) {
  const Graph graph = testing::attention_graph(problem_of(8, 8), Mode::forward);
  EXPECT_THAT(graph.outputs(), SizeIs(1));
  EXPECT_THAT(graph.inputs(), SizeIs(3));
}

TEST(AttentionProblem, has_operands_and_gradients_of_its_dtype) {
  for (const auto& [precision, dtype] : std::map<Precision, DType>{{Precision::fp32, DType::fp32},
                                                                   {Precision::tf32, DType::fp32},
                                                                   {Precision::bf16, DType::bf16},
                                                                   {Precision::fp16, DType::fp16}}) {
    AttentionProblem problem = problem_of(8, 8);
    problem.precision = precision;
    for (const AttentionVariant variant : kAllAttentionVariants) {
      problem.variant = variant;
      const Graph graph = testing::attention_graph(problem, Mode::forward_backward);
      for (const Output& output : graph.outputs()) EXPECT_EQ(graph.type(output.value).dtype, dtype) << output.name;
      for (const NodeId id : graph.inputs()) EXPECT_EQ(graph.type(graph.node(id).outputs[0]).dtype, dtype);
    }
  }
}

TEST(AttentionProblem, draws_operands_that_differ_and_repeat) {
  const Graph graph = testing::attention_graph(problem_of(64, 64), Mode::forward_backward);
  const Tensors first = random_operands(graph);
  EXPECT_EQ(random_operands(graph).at("q").data, first.at("q").data);
  EXPECT_NE(first.at("q").data, first.at("k").data);
  double sum = 0, squares = 0;
  const std::span<const float> values = first.at("v").as<float>();
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 0.05);
  EXPECT_NEAR(squares / count, 0.97, 0.05);  // truncated at 3 sigma
}

TEST(AttentionProblem, counts_operations_by_the_published_convention) {
  AttentionProblem problem = problem_of(1024, 128, 2);
  EXPECT_EQ(forward_flops(problem), 4.0 * 2 * 2 * 1024 * 1024 * 64);
  EXPECT_EQ(backward_flops(problem), 2.5 * forward_flops(problem));
  const double full = forward_flops(problem);
  problem.causal = true;
  EXPECT_EQ(forward_flops(problem), full / 2);
}

TEST(AttentionProblem, counts_the_operations_of_the_pairs_that_a_window_leaves) {
  AttentionProblem problem = problem_of(1024, 128, 2);
  problem.causal = true;
  const double causal = forward_flops(problem);
  problem.kv_heads = 1;
  EXPECT_EQ(forward_flops(problem), causal);
  problem.window = 3;
  const double pairs = 1 + 2 + 3.0 * 1022;
  EXPECT_EQ(forward_flops(problem), 4.0 * 2 * 128 * pairs);
  EXPECT_EQ(backward_flops(problem), 2.5 * forward_flops(problem));
  problem.window = 1024;
  EXPECT_EQ(forward_flops(problem), causal);
}

TEST(AttentionProblem, refuses_what_cannot_be) {
  expect_refused(problem_of(0, 8), "--sequence 0 must be positive");
  expect_refused(problem_of(8, 9), "--heads 2 does not divide --d-model 9");
  AttentionProblem unequal = problem_of(8, 8);
  unequal.keys = 9;
  EXPECT_NO_THROW(validate(unequal));
  unequal.causal = true;
  expect_refused(unequal, "as many queries (--sequence 8) as keys (--keys 9)");
  expect_refused(problem_of(std::int64_t{1} << 32, 8), "the size of the scores overflows 64 bits");
  AttentionProblem wide = problem_of(8, std::int64_t{1} << 62);
  expect_refused(wide, "the size of q, k and v overflows 64 bits");
  expect_refused(problem_of(std::int64_t{1} << 26, 4096), "the number of operations overflows 64 bits");
}

TEST(AttentionProblem, refuses_key_heads_windows_and_caps_that_cannot_be) {
  AttentionProblem problem = problem_of(8, 12, 6);
  problem.kv_heads = 4;
  expect_refused(problem, "--kv-heads 4 does not divide --heads 6");
  problem.kv_heads = 12;
  expect_refused(problem, "--kv-heads 12 does not divide --heads 6");
  problem.kv_heads = 2;
  EXPECT_NO_THROW(validate(problem));
  problem.window = 4;
  expect_refused(problem, "--window 4 counts back from a query's own key; add --causal true");
  problem.causal = true;
  EXPECT_NO_THROW(validate(problem));
  problem.window = -1;
  expect_refused(problem, "--window -1 must not be negative");
  problem.window = 0;
  for (const double cap : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    problem.soft_cap = cap;
    expect_refused(problem, "--soft-cap must be a number and not negative");
  }
}

class AttentionFallback : public ::testing::Test {
 protected:
  AttentionFallback() {
    set_warning_handler([this](std::string_view message) { warnings_.emplace_back(message); });
    problem_.variant = AttentionVariant::flash;
  }
  ~AttentionFallback() override { set_warning_handler({}); }

  AttentionProblem problem_ = problem_of(8, 8);
  std::vector<std::string> warnings_;
};

TEST_F(AttentionFallback, is_named_where_there_is_no_kernel_and_warned_of_once) {
  const std::shared_ptr<Device> device = open_device("reference");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(attention_fallback(testing::attention_graph(problem_, Mode::forward_backward), *device),
              AttentionVariant::recompute);
  }
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("no tiled attention kernel for fp32[B2,H2,S8,D4]"));
  // A null device has the kernels of its target.
  EXPECT_EQ(attention_fallback(testing::attention_graph(problem_, Mode::forward_backward), *make_null_device(device)),
            AttentionVariant::recompute);
  problem_.queries = problem_.keys = 9;
  attention_fallback(testing::attention_graph(problem_, Mode::forward_backward), *device);
  EXPECT_THAT(warnings_, SizeIs(1)) << "another shape of a sweep needs no other warning";
}

TEST_F(AttentionFallback, is_none_where_there_is_a_kernel_or_none_was_asked_for) {
  EXPECT_EQ(attention_fallback(testing::attention_graph(problem_, Mode::forward_backward), *open_device("cpu")),
            std::nullopt);
  problem_.variant = AttentionVariant::recompute;
  EXPECT_EQ(attention_fallback(testing::attention_graph(problem_, Mode::forward_backward), *open_device("reference")),
            std::nullopt);
  EXPECT_THAT(warnings_, SizeIs(0));
}

TEST_F(AttentionFallback, keeps_and_holds_what_recompute_does) {
  const auto memory_of = [&](AttentionVariant variant) {
    problem_.variant = variant;
    Program program(testing::attention_graph(problem_, Mode::forward_backward), open_device("reference"));
    program.run();
    return std::pair(program.before_backward_bytes(), program.memory_use().peak_allocated_bytes);
  };
  EXPECT_EQ(memory_of(AttentionVariant::flash), memory_of(AttentionVariant::recompute));
}

}  // namespace
}  // namespace ridgepoint
