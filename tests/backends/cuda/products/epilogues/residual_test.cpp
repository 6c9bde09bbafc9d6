// Products whose epilogue is a residual sum and its norm, or the derivative of both: which bodies are recognised, what
// is planned, where a model has them, and on a GPU every way to compute them against double.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product_runs.h"
#include "backends/cuda/products/epilogues/residual/parameters.h"
#include "backends/cuda/products/epilogues/residual_case.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/runtime/program.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using cuda::ResidualEpilogue;
using cuda::ResidualPlan;
using testing::entry_of;
using testing::hopper_card;
using testing::Operand;
using testing::ResidualCase;

// [4,6] x [6,8] + x, and the norm of the sum.
const std::string kResidualForward = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:fp32[4,8] = cast(%2) {dtype="fp32"}
%4:fp32[4,8] = input() {name="2", role="data"}
%5:fp32[4,8] = add(%4, %3)
%6:fp32[8] = input() {name="3", role="data"}
%7:fp32[4,8] = mul(%5, %5)
%8:fp32[4,1] = reduce_sum(%7) {axes=[-1], keep_dims=true}
%9:fp32[] = constant() {dtype="fp32", value=0.125}
%10:fp32[4,1] = mul(%8, %9)
%11:fp32[] = constant() {dtype="fp32", value=1e-05}
%12:fp32[4,1] = add(%10, %11)
%13:fp32[4,1] = rsqrt(%12)
%14:fp32[4,8] = mul(%5, %13)
%15:fp32[4,8] = mul(%14, %6)
%16:bf16[4,8] = cast(%15) {dtype="bf16"}
)";
const std::string kResidualForwardResults = "output \"0\" %5\noutput \"1\" %13\noutput \"2\" %16\n";
const std::string kResidualBackward = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:fp32[4,8] = cast(%2) {dtype="fp32"}
%4:fp32[4,8] = input() {name="2", role="data"}
%5:fp32[8] = input() {name="3", role="data"}
%6:fp32[4,1] = input() {name="4", role="data"}
%7:fp32[4,8] = mul(%3, %5)
%8:fp32[4,8] = mul(%7, %4)
%9:fp32[4,1] = reduce_sum(%8) {axes=[-1], keep_dims=true}
%10:fp32[] = constant() {dtype="fp32", value=0.125}
%11:fp32[4,1] = mul(%9, %10)
%12:fp32[4,1] = mul(%6, %6)
%13:fp32[4,1] = mul(%12, %6)
%14:fp32[4,1] = mul(%13, %11)
%15:fp32[4,8] = mul(%4, %14)
%16:fp32[4,8] = mul(%7, %6)
%17:fp32[4,8] = sub(%16, %15)
%18:fp32[4,8] = mul(%4, %6)
%19:fp32[4,8] = mul(%3, %18)
%20:fp32[1,8] = reduce_sum(%19) {axes=[0], keep_dims=true}
%21:fp32[8] = reshape(%20) {shape=[8]}
%22:fp32[4,8] = input() {name="5", role="data"}
%23:fp32[4,8] = add(%22, %17)
%24:bf16[4,8] = cast(%23) {dtype="bf16"}
)";
const std::string kResidualBackwardResults = "output \"0\" %21\noutput \"1\" %23\noutput \"2\" %24\n";

std::optional<ResidualEpilogue> residual_in(const std::string& lines) {
  return cuda::residual_of(FusedBody(testing::graph_of(lines)));
}

TEST(ResidualEpilogue, is_the_sum_with_a_product_and_its_norm) {
  const std::optional<ResidualEpilogue> found = residual_in(kResidualForward + kResidualForwardResults);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->is_backward);
  EXPECT_EQ(found->product.m, 4);
  EXPECT_EQ(found->product.k, 6);
  EXPECT_EQ(found->product.n, 8);
  EXPECT_EQ(found->x, 2U);
  EXPECT_EQ(found->g, 3U);
  EXPECT_EQ(found->sum, 0U);
  EXPECT_EQ(found->r, std::optional<std::size_t>(1));
  EXPECT_EQ(found->normed, 2U);
  EXPECT_EQ(found->epsilon, 1e-5);
  const std::optional<ResidualEpilogue> alone = residual_in(kResidualForward + "output \"0\" %16\noutput \"1\" %5\n");
  ASSERT_TRUE(alone.has_value());
  EXPECT_FALSE(alone->r.has_value());
  EXPECT_TRUE(
      residual_in(replaced(kResidualForward, "add(%4, %3)", "add(%3, %4)") + kResidualForwardResults).has_value());
}

TEST(ResidualEpilogue, is_its_derivative_with_or_without_a_low_gradient) {
  const std::optional<ResidualEpilogue> found = residual_in(kResidualBackward + kResidualBackwardResults);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->is_backward);
  EXPECT_EQ(found->sum_input, 2U);
  EXPECT_EQ(found->g, 3U);
  EXPECT_EQ(found->r_input, 4U);
  EXPECT_EQ(found->residual, 5U);
  EXPECT_EQ(found->of_g, 0U);
  EXPECT_EQ(found->gradient, 1U);
  EXPECT_EQ(found->low_gradient, std::optional<std::size_t>(2));
  const std::optional<ResidualEpilogue> alone = residual_in(kResidualBackward + "output \"0\" %21\noutput \"1\" %23\n");
  ASSERT_TRUE(alone.has_value());
  EXPECT_FALSE(alone->low_gradient.has_value());
}

TEST(ResidualEpilogue, is_nothing_else) {
  EXPECT_FALSE(residual_in(kResidualForward + "output \"0\" %16\n").has_value()) << "the sum is no result";
  EXPECT_FALSE(residual_in(replaced(kResidualForward, "0.125", "0.25") + kResidualForwardResults).has_value())
      << "another mean";
  EXPECT_FALSE(
      residual_in(replaced(kResidualForward, "add(%4, %3)", "sub(%4, %3)") + kResidualForwardResults).has_value());
  EXPECT_FALSE(
      residual_in(replaced(kResidualForward, "mul(%14, %6)", "add(%14, %6)") + kResidualForwardResults).has_value());
  EXPECT_FALSE(residual_in(kResidualForward + kResidualForwardResults + "output \"3\" %2\n").has_value())
      << "another result";
  EXPECT_FALSE(residual_in(replaced(kResidualBackward, "sub(%16, %15)", "add(%16, %15)") + kResidualBackwardResults)
                   .has_value());
  EXPECT_FALSE(
      residual_in(replaced(kResidualBackward, "mul(%12, %6)", "mul(%12, %12)") + kResidualBackwardResults).has_value());
  EXPECT_FALSE(
      residual_in(replaced(kResidualBackward, "mul(%3, %18)", "mul(%3, %16)") + kResidualBackwardResults).has_value());
}

TEST(ResidualPlan, covers_every_token_and_column) {
  for (const bool backward : {false, true}) {
    const ResidualCase some(backward, 1000, 768, 1600);
    const std::optional<ResidualPlan> plan = some.plan();
    ASSERT_TRUE(plan.has_value());
    for (const cuda::EpilogueTiling& tiling : plan->candidates()) {
      const std::vector<cuda::EpilogueLaunch> launches = plan->launches(tiling, 132);
      ASSERT_EQ(launches.size(), backward ? 2U : 1U);
      EXPECT_TRUE(launches[0].is_cooperative) << "blocks wait for others";
      testing::expect_covered(launches[0], tiling, 1000, 1600, tiling.columns);
    }
  }
}

TEST(ResidualPlan, leaves_to_the_library_what_the_copy_engine_does_not_take) {
  ResidualCase some(false, 64, 64, 64);
  EXPECT_TRUE(some.plan().has_value());
  some.layouts[2].strides = {66, 1};
  EXPECT_FALSE(some.plan().has_value()) << "rows at multiples of 264 bytes";
  some.layouts[2].strides = {64, 1};
  some.layouts[1].strides = {64, 1};
  EXPECT_FALSE(some.plan().has_value()) << "weights by rows";
}

TEST(ResidualVariants, are_for_hopper_and_rows_that_fit) {
  EXPECT_EQ(entry_of(ResidualCase(false, 64, 64, 64)), "fused_residual_norm_128x128_2x1_32k_bf16");
  EXPECT_EQ(entry_of(ResidualCase(true, 64, 64, 64)), "fused_residual_backward_128x128_2x1_32k_bf16");
  EXPECT_EQ(entry_of(ResidualCase(false, 64, 64, 64), hopper_card({8, 0})), "");
  EXPECT_EQ(entry_of(ResidualCase(false, 64, 64, 60)), "") << "no whole vectors";
  EXPECT_EQ(entry_of(ResidualCase(false, 64, 64, 2056)), "") << "rows too long";
  EXPECT_EQ(entry_of(ResidualCase(false, 40000, 64, 64)), "") << "too many rows";
}

// Of each layer, both products that are added to the residual stream, and in backward both that begin at it.
TEST(ResidualVariants, are_what_a_model_compiles_to) {
  DeviceOptions options;
  options.card = describe_card(*find_datasheet("h200"));
  const Transformer workload({"custom", 64, 32, 128, 256, 3, 2}, 4);
  const ProgramPlan plan(workload.build(), open_device("null", options),
                         {.compile = {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::fuse}});
  int forward = 0;
  int backward = 0;
  for (const NodeId id : plan.graph().order()) {
    const Node& node = plan.graph().node(id);
    const auto found = node.op == Op::fused ? cuda::residual_of(*node.body) : std::nullopt;
    if (found) ++(found->is_backward ? backward : forward);
  }
  EXPECT_EQ(forward, 6);
  EXPECT_EQ(backward, 6);
}

class ResidualOnFakeCard : public testing::OnFakeCard {};

TEST_F(ResidualOnFakeCard, needs_the_workspace_that_is_planned_whichever_way_is_chosen) {
  use_fake_compiler();
  on_fake_card([] {
    for (const bool backward : {false, true}) {
      const ResidualCase some(backward, 256, 512, 64);
      testing::expect_planned_workspace(some.spec(), *some.plan());
    }
  });
}

class OnCardResidual : public testing::OnHopper {
 protected:
  Operand random(const TensorLayout& layout, double scale, double plus = 0) {
    Operand operand = testing::random_operand(
        layout.dtype, layout.shape, random_,
        {.storage_order = layout.shape.rank() == 2 && layout.strides[0] == 1 && layout.strides[1] > 1
                              ? std::vector<int>{1, 0}
                              : std::vector<int>{}});
    for (std::size_t at = 0; at < operand.storage.size(); at += size_bytes(layout.dtype)) {
      std::byte* const element = operand.storage.data() + at;
      store_element(layout.dtype, element, plus + scale * load_element(layout.dtype, element));
    }
    return operand;
  }

  // Operands of a case, and their product in double.
  struct Values {
    std::vector<Operand> operands;
    std::vector<double> product;
    double at(std::size_t operand, std::int64_t row, std::int64_t column) const {
      return operands[operand].at(std::array{row, column});
    }
    double g(std::int64_t column) const { return operands[3].at(std::array{column}); }
  };
  Values values_of(const ResidualCase& some) {
    Values values;
    for (std::size_t i = 0; i < some.layouts.size(); ++i) {
      const bool is_r = some.layouts[i].shape.rank() == 2 && some.layouts[i].shape[1] == 1;
      values.operands.push_back(random(some.layouts[i], i == 1 ? 0.2 : (is_r ? 0.1 : 1), is_r ? 0.7 : 0));
    }
    const ResidualEpilogue found = some.found();
    std::vector<double> b;
    for (std::int64_t i = 0; i < found.product.k * found.product.n; ++i)
      b.push_back(values.at(1, i / found.product.n, i % found.product.n));
    values.product.resize(static_cast<std::size_t>(found.product.m * found.product.n));
    for (std::int64_t row = 0; row < found.product.m; ++row) {
      double* const to = values.product.data() + row * found.product.n;
      for (std::int64_t k = 0; k < found.product.k; ++k) {
        const double a = values.at(0, row, k);
        for (std::int64_t column = 0; column < found.product.n; ++column)
          to[column] += a * b[static_cast<std::size_t>(k * found.product.n + column)];
      }
    }
    return values;
  }

  using Results = std::vector<std::vector<std::vector<double>>>;
  void expect_near(const Results& ways, std::size_t result, std::int64_t at, double expected, double bound) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      ASSERT_NEAR(ways[way][result][static_cast<std::size_t>(at)], expected, bound)
          << "way " << way << ", result " << result << ", element " << at;
    }
  }

  void expect_forward(const ResidualEpilogue& found, const Values& values, const Results& ways, double rounding) {
    for (std::int64_t row = 0; row < found.product.m; ++row) {
      double squares = 0;
      const auto sum = [&](std::int64_t column) {
        return values.at(found.x, row, column) +
               values.product[static_cast<std::size_t>(row * found.product.n + column)];
      };
      for (std::int64_t column = 0; column < found.product.n; ++column) squares += sum(column) * sum(column);
      const double r = 1 / std::sqrt(squares / static_cast<double>(found.product.n) + found.epsilon);
      expect_near(ways, *found.r, row, r, 4 * rounding * r);
      for (std::int64_t column = 0; column < found.product.n; ++column) {
        const std::int64_t at = row * found.product.n + column;
        const double product = std::fabs(values.product[static_cast<std::size_t>(at)]) + 0.1;
        const double normed = sum(column) * r * values.g(column);
        expect_near(ways, found.sum, at, sum(column), 2 * rounding * product);
        expect_near(ways, found.normed, at, normed,
                    4 * rounding * (std::fabs(normed) + product * r * std::fabs(values.g(column)) + 0.01));
        if (HasFatalFailure()) return;
      }
    }
  }

  void expect_backward(const ResidualEpilogue& found, const Values& values, const Results& ways, double rounding) {
    std::vector<double> of_g(static_cast<std::size_t>(found.product.n)), magnitude(of_g.size());
    for (std::int64_t row = 0; row < found.product.m; ++row) {
      const double* const d = values.product.data() + row * found.product.n;
      const double r = values.at(found.r_input, row, 0);
      double dot = 0;
      for (std::int64_t i = 0; i < found.product.n; ++i) dot += d[i] * values.g(i) * values.at(found.sum_input, row, i);
      const double q = r * r * r * dot / static_cast<double>(found.product.n);
      for (std::int64_t i = 0; i < found.product.n; ++i) {
        const double sum = values.at(found.sum_input, row, i);
        const double own = d[i] * values.g(i) * r - sum * q;
        const double gradient = values.at(found.residual, row, i) + own;
        const double bound = 4 * rounding * (std::fabs(d[i] * values.g(i) * r) + std::fabs(sum * q) + 0.1);
        expect_near(ways, found.gradient, row * found.product.n + i, gradient, bound);
        expect_near(ways, *found.low_gradient, row * found.product.n + i, gradient,
                    bound + rounding * std::fabs(gradient));
        if (HasFatalFailure()) return;
        of_g[static_cast<std::size_t>(i)] += d[i] * sum * r;
        magnitude[static_cast<std::size_t>(i)] += std::fabs(d[i] * sum * r);
      }
    }
    for (std::size_t i = 0; i < of_g.size(); ++i) {
      expect_near(ways, found.of_g, static_cast<std::int64_t>(i), of_g[i], rounding * (magnitude[i] + 0.1));
    }
  }

  std::mt19937 random_{17};
};

TEST_F(OnCardResidual, agrees_with_double_in_every_way_to_compute_it) {
  for (const auto& [tokens, inner, columns] : std::vector<std::array<std::int64_t, 3>>{
           {8, 8, 8}, {200, 136, 72}, {300, 40, 328}, {132, 24, 2048}, {4100, 64, 1288}}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const bool backward : {false, true}) {
        const ResidualCase some(backward, tokens, inner, columns, dtype);
        const auto plan = some.plan();
        ASSERT_TRUE(plan.has_value());
        const Values values = values_of(some);
        const Results ways = testing::results_of_ways(*device_, *context_, some.spec(), *plan, values.operands);
        const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
        if (backward) {
          expect_backward(some.found(), values, ways, rounding);
        } else {
          expect_forward(some.found(), values, ways, rounding);
        }
        if (HasFatalFailure()) return;
        EXPECT_EQ(testing::results_of_ways(*device_, *context_, some.spec(), *plan, values.operands), ways)
            << "another run differs";
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
