// Generated kernels on the GPU: compares every variant with the reference back end, and tests what emulation cannot
// show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/card.h"
#include "backends/cuda/generator/cases.h"
#include "backends/cuda/node_run.h"
#include "support/graphs/agreement.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::LayoutChoice;
using testing::NodeRun;
using testing::Operand;
using testing::shifted;

constexpr double kOnCardTolerance = 5e-6;

double tolerance_of(DType dtype) {
  return dtype == DType::bf16 ? 4e-3 : dtype == DType::fp16 ? 5e-4 : dtype == DType::fp64 ? 1e-13 : 2e-6;
}

class OnCardGenerated : public testing::OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape, const LayoutChoice& choice = {}) {
    return testing::random_operand(dtype, shape, random_, choice);
  }

  // Also checks that every run gives the same bits.
  void expect_agrees(Op op, const std::vector<Operand>& operands, const Attributes& attributes = {}) {
    NodeRun run(*device_, op, operands, attributes);
    const std::vector<HostTensor> found = run.launch();
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, attributes);
    const std::vector<HostTensor> again = run.launch();
    for (std::size_t i = 0; i < found.size(); ++i) {
      // Small fp16 results are subnormal and have fewer digits.
      const DType dtype = found[i].type.dtype;
      const double rounding = testing::relative_error(convert(expected[i], dtype), expected[i]);
      EXPECT_LE(testing::relative_error(found[i], expected[i]), std::max(tolerance_of(dtype), 1.01 * rounding))
          << run.kernel().name() << " output " << i << " of " << found[i].type.to_string();
      EXPECT_EQ(found[i].data, again[i].data) << run.kernel().name() << " differs from run to run";
    }
  }

  std::mt19937 random_{29};
};

Attributes over(std::vector<std::int64_t> axes) { return {{"axes", std::move(axes)}, {"keep_dims", false}}; }

// Which has no division in it.
TEST_F(OnCardGenerated, sigmoid_has_the_bits_of_the_division) {
  constexpr std::int64_t kNumbers = 1 << 20;
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {kNumbers}}, Role::data);
  const Value one = constant(graph, 1.0, DType::fp32);
  const Value magnitude = maximum(graph, x, neg(graph, x));
  const Value e = exp(graph, neg(graph, magnitude));
  const Value is_positive = less_equal(graph, constant(graph, 0.0, DType::fp32), x);
  const Value dividend = where(graph, is_positive, one, e);
  graph.add_output("divided", div(graph, dividend, add(graph, one, e)));
  graph.add_output("sigmoid", sigmoid(graph, x));
  HostTensor numbers({DType::fp32, {kNumbers}});
  for (std::int64_t i = 0; i < kNumbers; ++i)  // from -128 to 128, and closer around 0
    numbers.as<float>()[static_cast<std::size_t>(i)] =
        std::ldexp(static_cast<float>(2 * i - kNumbers), -13 - static_cast<int>(i % 24));
  const testing::Tensors found = testing::run_graph(graph, device_, {{"x", numbers}});
  EXPECT_EQ(found.at("sigmoid").data, found.at("divided").data);
}

TEST_F(OnCardGenerated, variants_agree_with_the_reference) {
  for (const testing::OpCase& op_case : testing::generator_cases()) {
    for (const testing::Disagreement& found : testing::disagreements(op_case, device_, 11, kOnCardTolerance)) {
      ADD_FAILURE() << op_case.name << ": " << found.output << " differs by " << found.relative_error;
    }
  }
}

TEST_F(OnCardGenerated, rows_of_every_length_agree_in_every_dtype) {
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    for (const std::int64_t columns : {1, 3, 8, 31, 64, 256, 1000, 1024, 1028, 4096, 10000, 33000, 70000}) {
      const std::int64_t rows = columns < 300 ? 20000 / columns : 5;
      const Operand x = random(dtype, {rows, columns});
      expect_agrees(Op::softmax, {x});
      expect_agrees(Op::rms_norm, {x, random(dtype, {columns})}, {{"epsilon", 1e-5}});
      expect_agrees(Op::rms_norm_backward,
                    {x, random(dtype, {rows, columns}), random(dtype, {columns}), random(dtype, {rows, 1})});
    }
  }
}

TEST_F(OnCardGenerated, sums_over_every_axis_agree_at_size) {
  const std::vector<Shape> shapes = {{4096, 768}, {8192, 10},   {3, 5000, 40}, {64, 64, 64},
                                     {1 << 20},   {2, 1 << 19}, {100000, 3}};
  for (const Shape& shape : shapes) {
    for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
      for (const DType dtype : {DType::fp32, DType::bf16}) {
        expect_agrees(Op::reduce_max, {random(dtype, shape)}, over({axis}));
        if (dtype == DType::fp32) expect_agrees(Op::reduce_sum, {random(dtype, shape)}, over({axis}));
      }
    }
  }
}

TEST_F(OnCardGenerated, operands_lie_anywhere) {
  const std::vector<LayoutChoice> layouts = {{},
                                             {.storage_order = {2, 1, 0}},
                                             {.storage_order = {0, 2, 1}},
                                             {.storage_order = {1, 0, 2}, .padding = 3},
                                             {.broadcast = {0}},
                                             {.broadcast = {2}},
                                             {.flipped = {0, 2}}};
  for (const LayoutChoice& layout : layouts) {
    for (const Shape& shape : {Shape{6, 140, 64}, Shape{3, 5, 7}, Shape{2, 3, 6000}}) {
      for (const DType dtype : {DType::fp32, DType::bf16, DType::fp64}) {
        const Operand x = random(dtype, shape, layout);
        for (const Operand& laid : {x, shifted(x)}) {
          expect_agrees(Op::copy, {laid});
          expect_agrees(Op::add, {laid, random(dtype, shape)});
          expect_agrees(Op::softmax, {laid});
          expect_agrees(Op::reduce_max, {laid}, over({1}));
        }
      }
    }
  }
}

TEST_F(OnCardGenerated, conversions_round_to_nearest_even) {
  for (const DType from : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType to : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      const Operand x = random(from, {100, 333});
      const HostTensor found = NodeRun(*device_, Op::cast, {x}, {{"dtype", std::string(name(to))}}).launch()[0];
      for (std::int64_t i = 0; i < found.type.elements(); ++i) {
        std::vector<std::byte> expected(size_bytes(to));
        store_element(to, expected.data(), x.at(testing::unravel(found.type.shape, i)));
        const std::byte* element = found.data.data() + static_cast<std::size_t>(i) * size_bytes(to);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), element))
            << name(from) << " to " << name(to) << " of " << x.at(testing::unravel(found.type.shape, i));
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
