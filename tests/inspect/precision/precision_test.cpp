// Sums in each type, types under autocast and errors against double precision.

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "inspect/precision/errors.h"
#include "inspect/precision/loss_curve.h"
#include "models/toy_model.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "run/session/steps/anomaly.h"
#include "runtime/device/device.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.8f", value);
  return text;
}

TEST(Accumulation, has_the_published_digits) {
  const std::vector<Accumulation> rows = accumulate_in_each_type();
  ASSERT_GE(rows.size(), 9U);
  const std::pair<const char*, const char*> published[] = {{"fp32 += fp32", "10.00013351"},
                                                           {"fp16 += fp16", "9.95312500"},
                                                           {"fp32 += fp16", "10.00213623"},
                                                           {"fp32 += fp32(fp16)", "10.00213623"}};
  for (std::size_t i = 0; i < std::size(published); ++i) {
    EXPECT_EQ(rows[i].statement, published[i].first);
    EXPECT_EQ(digits(rows[i].result), published[i].second);
  }
}

TEST(Accumulation, bf16_stops_growing_and_compensation_mends_it) {
  const std::vector<Accumulation> rows = accumulate_in_each_type();
  const auto row = [&](const std::string& statement) {
    for (const Accumulation& found : rows) {
      if (found.statement == statement) return found;
    }
    throw Error("no row " + statement);
  };
  EXPECT_EQ(row("bf16 += bf16").result, 4.0);  // half a unit of the last bit there is more than 0.01
  EXPECT_LT(row("bf16 += bf16, compensated").error, 0.01);
  EXPECT_LT(row("fp16 += fp16, compensated").error, row("fp16 += fp16").error);
  EXPECT_LT(row("fp32 += fp32, compensated").error, 1e-7);
}

TEST(Accumulation, agrees_with_the_processor_in_fp32) {
  float sum = 0;
  for (int i = 0; i < 12345; ++i) sum += 0.1F;
  EXPECT_EQ(accumulate_in_each_type(12345, 0.1)[0].result, static_cast<double>(sum));
}

TEST(Accumulation, refuses_what_adds_up_to_nothing) {
  EXPECT_THROW(accumulate_in_each_type(0), Error);
  EXPECT_THROW(accumulate_in_each_type(10, -1.0), Error);
  EXPECT_THROW(accumulate_in_each_type(10, NAN), Error);
}

TransformerConfig narrow() {
  TransformerConfig config{"narrow", 50, 8, 16, 24, 3, 2};
  return config;
}

TEST(Types, layers_that_agree_share_a_line) {
  const TypeTable table =
      types_of(testing::transformer_graph(narrow(), 1, Mode::forward_backward, {.precision = Precision::bf16}));
  int lines = 0;
  for (const TypeRow& row : table.rows) {
    if (row.part != "forward" || row.module != "layers.*.attn.q_proj") continue;
    ++lines;
    EXPECT_EQ(row.nodes, 3);
    EXPECT_EQ(row.operands, "bf16");
  }
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(table.weight_casts, 7 * 3 + 1);
}

TEST(Types, tf32_shows_in_what_products_take) {
  const TypeTable table = types_of(testing::toy_graph(Precision::tf32));
  for (const TypeRow& row : table.rows) {
    EXPECT_EQ(row.operands == "tf32", row.op == "matmul") << row.op;
    EXPECT_NE(row.result, "bf16") << row.op;
    EXPECT_NE(row.result, "fp16") << row.op;
  }
  EXPECT_EQ(table.casts, 0);
}

Transformer narrow_transformer() { return {narrow(), 2}; }

const PrecisionErrorRow& row_of(const std::vector<PrecisionErrorRow>& rows, const std::string& module) {
  for (const PrecisionErrorRow& row : rows) {
    if (row.module == module) return row;
  }
  throw Error("no row '" + module + "'");
}

TEST(Errors, grow_as_bits_of_the_mantissa_go) {
  const std::vector<PrecisionVariant> variants = {{Precision::fp32}, {Precision::fp16}, {Precision::bf16}};
  const auto rows = measure_precision_errors(narrow_transformer(), 3, variants, open_device("cpu"), 1);
  for (const char* module : {"layers.0", "layers.2", "lm_head"}) {
    const std::vector<PrecisionError>& errors = row_of(rows, module).errors;
    ASSERT_EQ(errors.size(), 3U);
    EXPECT_LT(*errors[0].forward, 1e-6) << module;
    EXPECT_GT(*errors[1].forward, 3e-5) << module;
    EXPECT_LT(*errors[1].forward, 3e-3) << module;
    EXPECT_GT(*errors[2].forward, 3 * *errors[1].forward) << module;
    EXPECT_LT(*errors[2].forward, 3e-2) << module;
    EXPECT_LT(*errors[0].gradient, 1e-5) << module;
    EXPECT_GT(*errors[2].gradient, 3 * *errors[1].gradient) << module;
  }
  EXPECT_FALSE(row_of(rows, "loss").errors[0].gradient.has_value());
}

TEST(Errors, a_norm_out_of_fp32_costs_precision) {
  const std::vector<PrecisionVariant> variants = {{Precision::bf16, false}, {Precision::bf16, true}};
  const auto rows = measure_precision_errors(narrow_transformer(), 3, variants, open_device("cpu"), 2);
  const std::vector<PrecisionError>& errors = row_of(rows, "layers.0.ln1").errors;
  EXPECT_LT(*errors[0].forward, 1e-6);  // the embedding and the norm are fp32
  EXPECT_GT(*errors[1].forward, 1e-3);
}

TEST(Errors, are_zero_where_both_gradients_are) {
  // Of one token the weights of attention are 1, whatever q and k are.
  TransformerConfig config = narrow();
  config.context = 1;
  const Transformer workload(config, 2);
  const auto rows =
      measure_precision_errors(workload, 3, {{Precision::fp32}, {Precision::bf16}}, open_device("cpu"), 3);
  for (const PrecisionError& error : row_of(rows, "layers.0.attn.q_proj").errors) EXPECT_EQ(error.gradient, 0.0);
  for (const PrecisionErrorRow& row : rows) {
    for (const PrecisionError& error : row.errors) {
      EXPECT_FALSE(error.forward && std::isnan(*error.forward)) << row.module;
      EXPECT_FALSE(error.gradient && std::isnan(*error.gradient)) << row.module;
    }
  }
}

TEST(Errors, tf32_is_shown_by_the_reference_device) {
  const auto rows = measure_precision_errors(narrow_transformer(), 3, {{Precision::tf32}}, open_device("reference"), 1);
  const double error = *row_of(rows, "layers.0").errors[0].forward;
  EXPECT_GT(error, 1e-5);
  EXPECT_LT(error, 3e-3);
}

TEST(Errors, a_precision_that_the_device_lacks_is_said) {
  EXPECT_THAT(
      error_of([&] { measure_precision_errors(narrow_transformer(), 3, {{Precision::tf32}}, open_device("cpu"), 1); },
               ErrorKind::unsupported),
      HasSubstr("tf32"));
}

TEST(Errors, stops_when_told) {
  const auto rows = measure_precision_errors(narrow_transformer(), 3, {{Precision::bf16}}, open_device("cpu"), 1,
                                             [](std::string_view what) { return what != "bf16"; });
  EXPECT_TRUE(rows.empty());
}

struct Anomaly : ::testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {2, 3}}, Role::data);

  std::optional<std::string> first(float third, float fourth = 1.0F) {
    Program program(graph, open_device("cpu"));
    HostTensor tensor(TensorType{DType::fp32, {2, 3}});
    for (float& element : tensor.as<float>()) element = 1.0F;
    tensor.as<float>()[2] = third;
    tensor.as<float>()[3] = fourth;
    program.write_input("x", tensor);
    AnomalyDetector detector(program);
    program.run();
    return detector.first();
  }
};

TEST_F(Anomaly, names_the_node_that_makes_the_first_nan) {
  {
    const ScopeGuard scope(graph, "block.norm");
    graph.add_output("y", exp(graph, log(graph, scale(graph, x, 2.0))));
  }
  EXPECT_FALSE(first(3.0F).has_value());
  const std::optional<std::string> found = first(-3.0F);
  ASSERT_TRUE(found.has_value());
  for (const char* part : {"NaN", "log", "'block.norm'", "forward", "[0,2]", "fp32[2,3]"}) {
    EXPECT_NE(found->find(part), std::string::npos) << *found << " lacks " << part;
  }
}

TEST_F(Anomaly, names_an_overflow_to_infinity_in_fp16) {
  graph.add_output("y", cast(graph, scale(graph, x, 1000.0), DType::fp16));
  const std::optional<std::string> found = first(100.0F);
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->find("infinity is made by cast"), std::string::npos) << *found;
}

TEST_F(Anomaly, names_an_input_that_is_not_finite) {
  graph.add_output("y", exp(graph, x));
  const std::optional<std::string> found = first(1.0F, std::numeric_limits<float>::quiet_NaN());
  ASSERT_TRUE(found.has_value());
  EXPECT_NE(found->find("input 'x' has a NaN at [1,0]"), std::string::npos) << *found;
}

TEST_F(Anomaly, takes_no_offence_at_a_mask) {
  const Value scores = matmul(graph, x, transpose(graph, x, {1, 0}));
  graph.add_output("y", softmax(graph, causal_mask(graph, scores, -std::numeric_limits<double>::infinity())));
  EXPECT_FALSE(first(2.0F).has_value());
}

TEST(AnomalyStep, a_whole_step_has_none) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    Program program(testing::transformer_graph(narrow(), 2, Mode::step, {.precision = precision}), open_device("cpu"));
    initialise(program, narrow_transformer(), 3);
    AnomalyDetector detector(program);
    program.run();
    EXPECT_FALSE(detector.first().has_value()) << *detector.first();
  }
}

double error_of(const std::vector<NormStep>& steps, const std::string& step, double spread, DType dtype) {
  for (const NormStep& each : steps) {
    if (each.step != step || each.spread != spread) continue;
    for (const auto& [type, error] : each.errors)
      if (type == dtype) return error;
  }
  ADD_FAILURE() << step;
  return 0;
}

TEST(NormSteps, that_add_up_lose_more_than_those_that_round_once) {
  const std::vector<NormStep> steps = round_steps_of_layer_norm();
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    const double last_place = dtype == DType::fp16 ? 0x1p-11 : 0x1p-8;
    EXPECT_LT(error_of(steps, "product", 1, dtype), last_place);
    EXPECT_LT(error_of(steps, "squares", 1, dtype), last_place);
    EXPECT_GT(error_of(steps, "sum of x", 1, dtype), last_place);
    EXPECT_GE(error_of(steps, "all", 1, dtype), error_of(steps, "product", 1, dtype));
  }
}

TEST(NormSteps, overflow_in_fp16_alone) {
  const std::vector<NormStep> steps = round_steps_of_layer_norm();
  for (const char* step : {"sum of x", "squares", "sum of squares", "all"}) {
    EXPECT_GE(error_of(steps, step, 300, DType::fp16), 1) << step;
    EXPECT_LT(error_of(steps, step, 300, DType::bf16), 0.5) << step;
  }
  EXPECT_LT(error_of(steps, "x - mean", 300, DType::fp16), 0x1p-11);
}

TEST(LossCurves, that_are_stopped_keep_those_that_are_finished) {
  const Transformer model({"custom", 256, 8, 16, 24, 1, 2}, 1);
  const LossCurveOptions options{.precisions = {Precision::fp32, Precision::bf16, Precision::fp16}, .steps = 3};
  const std::vector<LossCurve> curves = measure_loss_curves(
      model, std::string(100, 'x'), options, open_device("cpu"),
      [](Precision precision, std::int64_t step) { return precision != Precision::bf16 || step < 1; });
  ASSERT_THAT(curves, SizeIs(1));
  EXPECT_EQ(curves[0].precision, Precision::fp32);
  EXPECT_THAT(curves[0].losses, SizeIs(3));
}

}  // namespace
}  // namespace ridgepoint
