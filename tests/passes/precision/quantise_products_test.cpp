// Products in 8 bits: codes for each order in which products read a matrix, and the values of the products themselves.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backends/reference/reference_device.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

// A linear layer and its two products in backward, of which one makes the gradient of the weight [6,8].
constexpr std::string_view kTraining = R"(
%0:bf16[T4,D8] = input() {name="x", role="data"}
%1:bf16[F6,D8] = input() {name="w", role="parameter"}
%2:bf16[T4,F6] = input() {name="dy", role="data"}
%3:bf16[D8,F6] = transpose(%1) {permutation=[1,0]}
%4:bf16[T4,F6] = matmul(%0, %3) {compute="fp8"}
%5:bf16[T4,D8] = matmul(%2, %1) {compute="fp8", left_codes="e5m2"} @backward "" ""
%6:bf16[F6,T4] = transpose(%2) {permutation=[1,0]} @backward "" ""
%7:fp32[F6,D8] = matmul(%6, %0) {compute="fp8", left_codes="e5m2", result="fp32"} @backward "" ""
output "y" %4
output "dx" %5
output "dw" %7
)";

TEST(QuantiseProducts, quantises_each_matrix_once_in_every_order_that_products_read) {
  expect_rewritten(quantise_products, kTraining, R"(
...
%3:e4m3[T4,D8], %4:e4m3[D8,T4], %5:fp32[] = quantise(%0) {dtype="e4m3", layout="both"}
%6:e4m3[F6,D8], %7:e4m3[D8,F6], %8:fp32[] = quantise(%1) {dtype="e4m3", layout="both"}
%9:bf16[T4,F6] = scaled_matmul(%3, %5, %6, %8) {result="bf16"}
%10:e5m2[T4,F6], %11:e5m2[F6,T4], %12:fp32[] = quantise(%2) {dtype="e5m2", layout="both"} @backward "" ""
%13:bf16[T4,D8] = scaled_matmul(%10, %12, %7, %8) {result="bf16"} @backward "" ""
%14:fp32[F6,D8] = scaled_matmul(%11, %12, %4, %5) {result="fp32"} @backward "" ""
output "y" %9
output "dx" %13
output "dw" %14
)");
}

constexpr const char* kProduct = R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,6] = input() {name="w", role="parameter"}
%2:bf16[4,6] = matmul(%0, %1) {compute="fp8"}
output "y" %2
)";

TEST(QuantiseProducts, transposes_codes_where_the_device_has_no_kernel_that_would) {
  expect_rewritten(quantise_products, kProduct,
                   R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,6] = input() {name="w", role="parameter"}
%2:e4m3[4,8], %3:fp32[] = quantise(%0) {dtype="e4m3", layout="rows"}
%4:e4m3[8,6], %5:fp32[] = quantise(%1) {dtype="e4m3", layout="rows"}
%6:e4m3[6,8] = transpose(%4) {permutation=[1,0]}
%7:bf16[4,6] = scaled_matmul(%2, %3, %6, %5) {result="bf16"}
output "y" %7
)",
                   testing::target_with_kernels(false));
}

TEST(QuantiseProducts, keeps_the_values_of_the_products) { expect_same_values(quantise_products, kTraining); }

// The gradient of a weight that is added to one before, in bf16. The left operand %4 is wide.
constexpr std::string_view kAdded = R"(
%0:bf16[T8,F6] = input() {name="dy", role="data"}
%1:bf16[T8,D8] = input() {name="x", role="data"}
%2:bf16[F6,D8] = input() {name="before", role="data"}
%3:bf16[T8,F6] = exp(%0)
%4:bf16[F6,T8] = transpose(%3) {permutation=[1,0]}
%5:bf16[F6,D8] = matmul_add(%4, %1, %2) {compute="fp8", left_codes="e5m2"}
output "dw" %5
)";

TEST(QuantiseProducts, add_what_the_product_adds) {
  expect_rewritten(quantise_products, kAdded, R"(
...
%4:e5m2[F6,T8], %5:fp32[] = quantise(%3) {dtype="e5m2", layout="columns"}
%6:e4m3[D8,T8], %7:fp32[] = quantise(%1) {dtype="e4m3", layout="columns"}
%8:bf16[F6,D8] = scaled_matmul(%4, %5, %6, %7, %2) {result="bf16"}
output "dw" %8
)");
  expect_same_values(quantise_products, kAdded);
}

TEST(QuantiseProducts, give_the_operand_of_a_product_that_adds_one_scale) {
  Graph graph = testing::graph_of(R"(
%0:bf16[T4,16] = input() {name="x", role="data"}
%1:bf16[16,D8] = input() {name="w", role="parameter"}
%2:bf16[T4,D8] = input() {name="before", role="data"}
%3:bf16[T4,16] = exp(%0)
%4:bf16[T4,D8] = matmul_add(%3, %1, %2) {compute="fp8"}
output "y" %4
)");
  testing::expect_changed(quantise_products, graph);
  EXPECT_EQ(testing::count(graph, Op::quantise_rows), 0U);
  EXPECT_EQ(testing::count(graph, Op::scaled_matmul), 1U);
}

TEST(QuantiseProducts, makes_only_the_order_that_is_read) {
  expect_rewritten(quantise_products, kProduct,
                   R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,6] = input() {name="w", role="parameter"}
%2:e4m3[4,8], %3:fp32[] = quantise(%0) {dtype="e4m3", layout="rows"}
%4:e4m3[6,8], %5:fp32[] = quantise(%1) {dtype="e4m3", layout="columns"}
%6:bf16[4,6] = scaled_matmul(%2, %3, %4, %5) {result="bf16"}
output "y" %6
)");
}

TEST(QuantiseProducts, leaves_other_products) {
  expect_left(quantise_products, R"(
%0:fp32[4,8] = input() {name="x", role="data"}
%1:fp32[8,6] = input() {name="w", role="parameter"}
%2:fp32[4,6] = matmul(%0, %1) {compute="tf32"}
%3:bf16[4,6] = input() {name="a", role="data"}
%4:bf16[6,4] = transpose(%3) {permutation=[1,0]}
%5:bf16[4,4] = matmul(%3, %4)
output "y" %2
output "s" %5
)");
}

// The second product of a network with two layers, and its derivatives: its left operand is wide, and so is the
// gradient of the first layer's result.
constexpr std::string_view kWide = R"(
%0:bf16[T4,16] = input() {name="x", role="data"}
%1:bf16[D8,16] = input() {name="w", role="parameter"}
%2:bf16[T4,D8] = input() {name="dy", role="data"}
%3:bf16[T4,16] = exp(%0)
%4:bf16[16,D8] = transpose(%1) {permutation=[1,0]}
%5:bf16[T4,D8] = matmul(%3, %4) {compute="fp8"}
%6:bf16[D8,T4] = transpose(%2) {permutation=[1,0]} @backward "" ""
%7:fp32[D8,16] = matmul(%6, %3) {compute="fp8", left_codes="e5m2", result="fp32"} @backward "" ""
output "y" %5
output "dw" %7
)";

TEST(QuantiseProducts, scales_each_row_of_a_wide_operand_that_an_elementwise_kernel_makes) {
  expect_rewritten(quantise_products, kWide, R"(
...
%4:e4m3[T4,16], %5:fp32[T4,1] = quantise_rows(%3) {dtype="e4m3"}
%6:e4m3[D8,16], %7:fp32[] = quantise(%1) {dtype="e4m3", layout="rows"}
%8:fp32[8,1] = broadcast(%7) {shape=[8,1]}
%9:bf16[T4,D8] = scaled_matmul(%4, %5, %6, %8) {result="bf16"}
%10:e5m2[D8,T4], %11:fp32[] = quantise(%2) {dtype="e5m2", layout="columns"} @backward "" ""
%12:e4m3[16,T4], %13:fp32[] = transpose_codes(%4, %5) @backward "" ""
%14:fp32[D8,16] = scaled_matmul(%10, %11, %12, %13) {result="fp32"} @backward "" ""
output "y" %9
output "dw" %14
)");
}

TEST(QuantiseProducts, multiplies_results_by_the_scales_of_rows_where_the_device_has_no_kernel_that_would) {
  expect_rewritten(quantise_products, std::string(kWide.substr(0, kWide.find("%6"))) + "output \"y\" %5\n", R"(
%0:bf16[T4,16] = input() {name="x", role="data"}
%1:bf16[D8,16] = input() {name="w", role="parameter"}
%2:bf16[T4,D8] = input() {name="dy", role="data"}
%3:bf16[T4,16] = exp(%0)
%4:e4m3[T4,16], %5:fp32[T4,1] = quantise_rows(%3) {dtype="e4m3"}
%6:e4m3[D8,16], %7:fp32[] = quantise(%1) {dtype="e4m3", layout="rows"}
%8:fp32[] = constant() {dtype="fp32", value=1.0}
%9:bf16[T4,D8] = scaled_matmul(%4, %8, %6, %7) {result="bf16"}
%10:fp32[T4,D8] = cast(%9) {dtype="fp32"}
%11:fp32[T4,D8] = mul(%10, %5)
%12:bf16[T4,D8] = cast(%11) {dtype="bf16"}
output "y" %12
)",
                   testing::target_with_kernels(false));
}

// A linear layer and its derivative, whose weight is stored as codes.
constexpr std::string_view kOfCodes = R"(
%0:bf16[T4,D8] = input() {name="x", role="data"}
%1:e4m3[F6,D8] = input() {name="w", role="parameter"}
%2:fp32[] = input() {name="scale.w", role="state", scale_of="w"}
%3:bf16[T4,F6] = input() {name="dy", role="data"}
%4:bf16[F6,D8] = widen_codes(%1, %2) {dtype="bf16"}
%5:bf16[D8,F6] = transpose(%4) {permutation=[1,0]}
%6:bf16[T4,F6] = matmul(%0, %5) {compute="fp8"}
%7:bf16[F6,D8] = widen_codes(%1, %2) {dtype="bf16"} @backward "" ""
%8:bf16[T4,D8] = matmul(%3, %7) {compute="fp8", left_codes="e5m2"} @backward "" ""
output "y" %6
output "dx" %8
)";

TEST(QuantiseProducts, reads_weights_that_are_codes_as_they_are) {
  expect_rewritten(quantise_products, kOfCodes, R"(
...
%4:e4m3[T4,D8], %5:fp32[] = quantise(%0) {dtype="e4m3", layout="rows"}
%6:bf16[T4,F6] = scaled_matmul(%4, %5, %1, %2) {result="bf16"}
%7:e5m2[T4,F6], %8:fp32[] = quantise(%3) {dtype="e5m2", layout="rows"} @backward "" ""
%9:e4m3[D8,F6], %10:fp32[] = transpose_codes(%1, %2) @backward "" ""
%11:bf16[T4,D8] = scaled_matmul(%7, %8, %9, %2) {result="bf16"} @backward "" ""
output "y" %6
output "dx" %11
)");
}

TEST(QuantiseProducts, widens_weights_that_are_codes_for_other_products) {
  expect_left(quantise_products, R"(
%0:bf16[T4,D8] = input() {name="x", role="data"}
%1:e4m3[D8,F6] = input() {name="w", role="parameter"}
%2:fp32[] = input() {name="scale.w", role="state", scale_of="w"}
%3:bf16[D8,F6] = widen_codes(%1, %2) {dtype="bf16"}
%4:bf16[T4,F6] = matmul(%0, %3)
output "y" %4
)");
}

testing::Tensors values_of_wide(bool is_rewritten, bool has_kernels) {
  Graph graph = testing::graph_of(kWide);
  const testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::input, "", nullptr}, 7);
  if (is_rewritten) testing::expect_changed(quantise_products, graph, testing::target_with_kernels(has_kernels));
  return testing::run_by_definition(graph, inputs);
}

TEST(QuantiseProducts, with_scales_of_rows_have_the_same_bits_on_all_devices_and_the_usual_error) {
  const testing::Tensors expected = values_of_wide(false, true);
  const testing::Tensors with_kernels = values_of_wide(true, true), without = values_of_wide(true, false);
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(with_kernels.at(name).data, without.at(name).data) << name;
    EXPECT_LT(testing::relative_error(convert(without.at(name), DType::fp64), convert(tensor, DType::fp64)), 0.05)
        << name;
  }
}

// Whether kWide gets scales of rows, with another text in place of one.
bool scales_rows(std::string_view before, std::string_view after) {
  Graph graph = testing::graph_of(testing::replaced(std::string(kWide), before, after));
  quantise_products(graph, PassOptions({}, testing::target_with_kernels()));
  return std::ranges::any_of(graph.order(), [&](NodeId id) { return graph.node(id).op == Op::quantise_rows; });
}

TEST(QuantiseProducts, scales_no_rows_of_narrow_operands_inputs_and_results_of_reductions) {
  EXPECT_TRUE(scales_rows("exp(%0)", "neg(%0)"));
  EXPECT_FALSE(scales_rows("%3:bf16[T4,16] = exp(%0)", R"(%8:bf16[T4,1] = reduce_max(%0) {axes=[1], keep_dims=true}
%3:bf16[T4,16] = broadcast(%8) {shape=[4,16]})"));
  EXPECT_FALSE(scales_rows("matmul(%3, %4)", "matmul(%0, %4)"));
}

testing::Tensors gradients_of(const CompileOptions& options, const std::shared_ptr<Device>& device) {
  const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
  Program program(workload.build(), device, {.compile = options});
  initialise(program, workload, 3);
  program.run();
  program.synchronize();
  testing::Tensors gradients;
  for (const Output& output : program.graph().outputs()) {
    if (output.role == OutputRole::gradient) gradients.emplace(output.name, program.read_output(output.name));
  }
  return gradients;
}

// Of the gradients of two runs, whatever the passes of each made of the products.
double largest_difference(const testing::Tensors& found, const testing::Tensors& expected) {
  double largest = 0;
  for (const auto& [name, tensor] : expected)
    largest =
        std::max(largest, testing::relative_error(convert(found.at(name), DType::fp64), convert(tensor, DType::fp64)));
  return largest;
}

TEST(QuantiseProducts, train_a_model_at_every_level_and_however_activations_are_kept) {
  CompileOptions in_bf16{.mode = Mode::forward_backward, .precision = Precision::bf16};
  const testing::Tensors expected = gradients_of(in_bf16, make_reference_device());
  const auto expect_usual_error = [&](const testing::Tensors& found, const std::string& what) {
    const double lost = largest_difference(found, expected);
    EXPECT_GT(lost, 0.02) << what << ": e4m3 has 3 bits of mantissa";
    EXPECT_LT(lost, 0.3) << what;
  };
  CompileOptions in_fp8 = in_bf16;
  in_fp8.precision = Precision::fp8;
  expect_usual_error(gradients_of(in_fp8, make_reference_device()), "reference");
  for (const Compile level : kAllCompiles) {
    for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::block}) {
      in_fp8.level = level;
      in_fp8.checkpoint = checkpoint;
      expect_usual_error(gradients_of(in_fp8, open_device("cpu")),
                         std::string(name(level)) + ' ' + std::string(name(checkpoint)));
    }
  }
}

// What the reference device makes of a product in 8 bits is its meaning.
float product_of(const std::vector<float>& row, float factor) {
  const auto width = static_cast<std::int64_t>(row.size());
  Graph graph;
  const Value x = input(graph, "x", {DType::bf16, {1, width}}, Role::data);
  const Value w = input(graph, "w", {DType::bf16, {width, 1}}, Role::parameter);
  graph.add_output("y", make_value(graph, Op::matmul, {x, w}, {{"compute", "fp8"}, {"result", "fp32"}}));
  testing::Tensors inputs;
  HostTensor values({DType::fp32, {1, width}});
  std::ranges::copy(row, values.as<float>().begin());
  inputs.emplace("x", convert(values, DType::bf16));
  HostTensor factors({DType::fp32, {width, 1}});
  std::ranges::fill(factors.as<float>(), factor);
  inputs.emplace("w", convert(factors, DType::bf16));
  const testing::Tensors defined = testing::run_by_definition(graph, inputs);
  const testing::Tensors run = testing::run_graph(graph, make_reference_device(), inputs);
  EXPECT_EQ(defined.at("y").data, run.at("y").data);
  return run.at("y").as<float>()[0];
}

TEST(QuantiseProducts, scales_by_the_largest_magnitude) {
  EXPECT_NEAR(product_of({1e-4F, -3.5e-4F}, 2.0F), -5e-4F, 1e-5F) << "these are subnormal without a scale";
  EXPECT_EQ(product_of({0, 0, 0}, 2.0F), 0.0F) << "a matrix of zeros has a scale too";
  EXPECT_EQ(product_of({1.0F, 2.0F, 0.5F}, 0.0F), 0.0F);
}

// The codes and scales of rows, and codes in the order of columns with their scale, of a matrix that is one number in
// the first row, zero in the second, and the numbers of `row` in the third.
testing::Tensors codes_of_rows_with(std::vector<float> row) {
  const auto width = static_cast<std::int64_t>(row.size());
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {3, width}}, Role::data);
  const QuantisedRows made = quantise_rows(graph, x, DType::e4m3);
  const Quantised turned = transpose_codes(graph, made.codes, made.scales);
  graph.add_output("codes", cast(graph, made.codes, DType::fp32));
  graph.add_output("scales", made.scales);
  graph.add_output("columns", cast(graph, turned.columns, DType::fp32));
  graph.add_output("scale", turned.scale);
  HostTensor values({DType::fp32, {3, width}});
  std::ranges::fill(values.as<float>().first(row.size()), 7.0F);
  std::ranges::copy(row, values.as<float>().end() - width);
  const testing::Tensors inputs{{"x", values}};
  testing::Tensors found = testing::run_graph(graph, make_reference_device(), inputs);
  for (const auto& [name, tensor] : testing::run_graph(graph, open_device("cpu"), inputs))
    EXPECT_TRUE(testing::relative_error(convert(tensor, DType::fp64), convert(found.at(name), DType::fp64)) == 0 ||
                std::isnan(row[0]) || std::isinf(row[0]))
        << name;
  return found;
}

TEST(QuantiseProducts, scales_of_rows_are_the_least_powers_of_two_that_their_codes_reach) {
  const testing::Tensors found = codes_of_rows_with({448.0F, -3.0F});
  const auto scales = found.at("scales").as<float>();
  EXPECT_EQ(scales[0], 0x1p-6F) << "7 / 2^-6 is 448";
  EXPECT_EQ(scales[1], 0x1p-100F) << "a row of zeros has a scale too";
  EXPECT_EQ(scales[2], 1.0F);
  EXPECT_EQ(found.at("codes").as<float>()[0], 448.0F);
  EXPECT_EQ(found.at("codes").as<float>()[2], 0.0F);
  EXPECT_EQ(found.at("scale").as<float>()[0], 1.0F);
  EXPECT_EQ(found.at("columns").as<float>()[0], 7.0F) << "the exponent alone has changed";
  EXPECT_EQ(found.at("columns").as<float>()[2], 448.0F);
  EXPECT_EQ(codes_of_rows_with({std::nextafter(448.0F, 1e9F), 1.0F}).at("scales").as<float>()[2], 2.0F);
  EXPECT_EQ(codes_of_rows_with({0x1p127F, 1.0F}).at("scales").as<float>()[2], 0x1p119F);
}

TEST(QuantiseProducts, an_infinity_or_nan_spoils_the_scale_of_its_row_and_of_all_columns) {
  for (const float special : {INFINITY, -INFINITY, NAN}) {
    const testing::Tensors found = codes_of_rows_with({special, 1.0F});
    EXPECT_TRUE(std::isnan(found.at("scales").as<float>()[2])) << special;
    EXPECT_EQ(found.at("scales").as<float>()[0], 0x1p-6F);
    EXPECT_TRUE(std::isnan(found.at("scale").as<float>()[0]));
  }
}

TEST(QuantiseProducts, an_infinity_or_nan_spoils_every_product_of_its_matrix) {
  EXPECT_TRUE(std::isnan(product_of({1.0F, INFINITY}, 1.0F)));
  EXPECT_TRUE(std::isnan(product_of({1.0F, -INFINITY, 2.0F}, 0.0F)));
  EXPECT_TRUE(std::isnan(product_of({NAN, 1.0F}, 1.0F)));
  EXPECT_TRUE(std::isnan(product_of({1.0F, 1.0F}, NAN)));
}

}  // namespace
}  // namespace ridgepoint
