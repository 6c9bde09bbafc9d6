// Products whose epilogue is SwiGLU or its derivative: which bodies are recognised, what is planned, and on a GPU every
// way to compute them against double.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product_case.h"
#include "backends/cuda/products/epilogues/fused_product_runs.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "backends/cuda/products/epilogues/swiglu/parameters.h"
#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using cuda::SwigluEpilogue;
using cuda::SwigluPlan;
using testing::entry_of;
using testing::hopper_card;
using testing::Operand;

// [4,6] x [6,16]: gate and up have 8 columns.
const std::string kForwardBody = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,16] = input() {name="1", role="data"}
%2:bf16[4,16] = matmul(%0, %1)
%3:bf16[4,8], %4:bf16[4,8] = split(%2) {axis=1, sizes=[8,8]}
%5:bf16[4,8] = sigmoid(%3)
%6:bf16[4,8] = mul(%3, %5)
%7:bf16[4,8] = mul(%6, %4)
)";
const std::string kBackwardBody = R"(
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:bf16[4,8] = input() {name="2", role="data"}
%4:bf16[4,8] = sigmoid(%3)
%5:bf16[4,8] = mul(%3, %4)
%6:bf16[4,8] = mul(%2, %5)
%7:bf16[4,8] = input() {name="3", role="data"}
%8:bf16[4,8] = mul(%2, %7)
%9:bf16[] = constant() {dtype="bf16", value=1.0}
%10:bf16[4,8] = sub(%9, %4)
%11:bf16[4,8] = mul(%5, %10)
%12:bf16[4,8] = add(%4, %11)
%13:bf16[4,8] = mul(%8, %12)
)";

std::optional<SwigluEpilogue> found_in(const std::string& lines) {
  return cuda::swiglu_of(FusedBody(testing::graph_of(lines)));
}

TEST(SwigluEpilogue, is_the_product_of_two_halves_with_or_without_them_as_a_result) {
  const std::optional<SwigluEpilogue> alone = found_in(kForwardBody + "output \"0\" %7\n");
  ASSERT_TRUE(alone.has_value());
  EXPECT_FALSE(alone->is_backward);
  EXPECT_FALSE(alone->halves.has_value());
  EXPECT_EQ(alone->product.m, 4);
  EXPECT_EQ(alone->product.k, 6);
  EXPECT_EQ(alone->features, 8);
  const std::optional<SwigluEpilogue> kept = found_in(kForwardBody + "output \"0\" %2\noutput \"1\" %7\n");
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->halves, std::optional<std::size_t>(0));
  EXPECT_EQ(kept->hidden, 1U);
  EXPECT_TRUE(found_in(replaced(kForwardBody, "mul(%6, %4)", "mul(%4, %6)") + "output \"0\" %7\n").has_value());
}

TEST(SwigluEpilogue, is_its_derivative_in_any_order_of_operands_and_results) {
  const std::optional<SwigluEpilogue> found = found_in(kBackwardBody + "output \"0\" %6\noutput \"1\" %13\n");
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->is_backward);
  EXPECT_EQ(found->gate, 2U);
  EXPECT_EQ(found->up, 3U);
  EXPECT_EQ(found->up_gradient, 0U);
  EXPECT_EQ(found->gate_gradient, 1U);
  EXPECT_EQ(found->features, 8);
  std::string exchanged = replaced(replaced(kBackwardBody, "name=\"2\"", "name=\"x\""), "name=\"3\"", "name=\"2\"");
  exchanged = replaced(exchanged, "name=\"x\"", "name=\"3\"") + "output \"0\" %13\noutput \"1\" %6\n";
  const std::optional<SwigluEpilogue> other = found_in(exchanged);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->gate, 3U);
  EXPECT_EQ(other->up, 2U);
  EXPECT_EQ(other->gate_gradient, 0U);
}

TEST(SwigluEpilogue, is_nothing_else) {
  EXPECT_FALSE(found_in(replaced(kForwardBody, "mul(%6, %4)", "mul(%6, %3)") + "output \"0\" %7\n").has_value());
  EXPECT_FALSE(found_in(replaced(kForwardBody, "mul(%6, %4)", "add(%6, %4)") + "output \"0\" %7\n").has_value());
  EXPECT_FALSE(found_in(replaced(kForwardBody, "sigmoid", "tanh") + "output \"0\" %7\n").has_value());
  EXPECT_FALSE(found_in(replaced(kForwardBody, "matmul(%0, %1)", "matmul(%0, %1)") + "output \"0\" %6\n").has_value());
  EXPECT_FALSE(found_in(kForwardBody + "output \"0\" %7\noutput \"1\" %6\n").has_value()) << "another result";
  EXPECT_FALSE(found_in(kBackwardBody + "output \"0\" %6\n").has_value()) << "one gradient only";
  EXPECT_FALSE(
      found_in(replaced(kBackwardBody, "value=1.0", "value=2.0") + "output \"0\" %6\noutput \"1\" %13\n").has_value());
  std::string one_row = kBackwardBody;
  for (const char* of_gate : {"%3", "%4", "%5", "%10", "%11", "%12"})
    one_row = replaced(one_row, std::string(of_gate) + ":bf16[4,8]", std::string(of_gate) + ":bf16[1,8]");
  EXPECT_FALSE(found_in(one_row + "output \"0\" %6\noutput \"1\" %13\n").has_value()) << "gate is broadcast";
}

// A fused node of such a body with its operands, in a graph.
struct SwigluCase : testing::FusedProductCase {
  SwigluCase(bool backward, bool keeps, std::int64_t tokens, std::int64_t inner, std::int64_t features,
             DType dtype = DType::bf16) {
    Graph body;
    body.name = "fused_matmul_swiglu";
    const Value x = input(body, "0", {dtype, {tokens, inner}}, Role::data);
    const Value w = input(body, "1", {dtype, {inner, backward ? features : 2 * features}}, Role::data);
    const Value product = matmul(body, x, w);
    if (backward) {
      const Value gate = input(body, "2", {dtype, {tokens, features}}, Role::data);
      const Value up = input(body, "3", {dtype, {tokens, features}}, Role::data);
      const Value s = make_value(body, Op::sigmoid, {{gate}});
      const Value silu = mul(body, gate, s);
      const Value slope = add(body, s, mul(body, silu, sub(body, constant(body, 1.0, dtype), s)));
      body.add_output("0", mul(body, mul(body, product, up), slope));
      body.add_output("1", mul(body, product, silu));
    } else {
      const std::vector<std::int64_t> sizes = {features, features};
      const std::vector<Value> halves = split(body, product, 1, sizes);
      const Value hidden = mul(body, mul(body, halves[0], make_value(body, Op::sigmoid, {{halves[0]}})), halves[1]);
      if (keeps) body.add_output("0", product);
      body.add_output(keeps ? "1" : "0", hidden);
    }
    set_body(std::move(body), backward ? 0 : inner);
  }

  SwigluEpilogue found() const { return *cuda::swiglu_of(*graph.node(node).body); }
};

TEST(SwigluPlan, covers_every_token_and_feature) {
  for (const bool backward : {false, true}) {
    const SwigluCase some(backward, true, 1000, 768, 3000);
    const std::optional<SwigluPlan> plan = SwigluPlan::of(some.found(), some.spec());
    ASSERT_TRUE(plan.has_value());
    for (const cuda::EpilogueTiling& tiling : plan->candidates()) {
      const std::vector<cuda::EpilogueLaunch> launches = plan->launches(tiling, 132);
      ASSERT_EQ(launches.size(), 1U);
      testing::expect_covered(launches[0], tiling, 1000, 3000, backward ? tiling.columns : tiling.columns / 2);
      EXPECT_EQ(launches[0].fields.size(), backward ? 6U : 5U);
    }
  }
}

TEST(SwigluPlan, leaves_to_the_library_what_the_copy_engine_does_not_take) {
  SwigluCase some(false, true, 64, 64, 64);
  EXPECT_TRUE(SwigluPlan::of(some.found(), some.spec()).has_value());
  some.layouts[1].strides = {128, 1};
  EXPECT_FALSE(SwigluPlan::of(some.found(), some.spec()).has_value()) << "weights by rows";
  some.layouts[1].strides = {1, 68};
  EXPECT_FALSE(SwigluPlan::of(some.found(), some.spec()).has_value()) << "columns at multiples of 136 bytes";
}

TEST(SwigluVariants, are_for_hopper_and_whole_vectors) {
  EXPECT_EQ(entry_of(SwigluCase(false, true, 64, 64, 64)), "fused_swiglu_forward_128x128_1x1_bf16");
  EXPECT_EQ(entry_of(SwigluCase(false, true, 64, 64, 64), hopper_card({8, 0})), "");
  EXPECT_EQ(entry_of(SwigluCase(false, true, 64, 64, 60)), "");
  EXPECT_EQ(entry_of(SwigluCase(true, false, 64, 64, 64, DType::fp32)), "");
}

class SwigluOnFakeCard : public testing::OnFakeCard {};

TEST_F(SwigluOnFakeCard, needs_the_workspace_that_is_planned_whichever_way_is_chosen) {
  on_fake_card([] {
    for (const SwigluCase& some : {SwigluCase(false, true, 256, 512, 64), SwigluCase(false, false, 256, 512, 64),
                                   SwigluCase(true, false, 256, 512, 64)}) {
      testing::expect_planned_workspace(some.spec(), *SwigluPlan::of(some.found(), some.spec()));
    }
  });
}

class OnCardSwiglu : public testing::OnHopper {
 protected:
  Operand random(const TensorLayout& layout, double scale) {
    Operand operand = testing::random_operand(
        layout.dtype, layout.shape, random_,
        {.storage_order = layout.strides[1] == 1 ? std::vector<int>{} : std::vector<int>{1, 0}});
    for (std::size_t at = 0; at < operand.storage.size(); at += size_bytes(layout.dtype)) {
      std::byte* const element = operand.storage.data() + at;
      store_element(layout.dtype, element, scale * load_element(layout.dtype, element));
    }
    return operand;
  }

  void expect_exact(bool backward, bool keeps, std::int64_t tokens, std::int64_t inner, std::int64_t features,
                    DType dtype) {
    const SwigluCase some(backward, keeps, tokens, inner, features, dtype);
    std::vector<Operand> operands;
    for (std::size_t i = 0; i < some.layouts.size(); ++i) operands.push_back(random(some.layouts[i], i == 1 ? 0.2 : 1));
    const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const auto element = [&](std::size_t operand, std::int64_t row, std::int64_t column) {
      return operands[operand].at(std::array{row, column});
    };
    std::vector<double> x, w;  // rows of x, and columns of w
    for (std::int64_t i = 0; i < tokens * inner; ++i) x.push_back(element(0, i / inner, i % inner));
    for (std::int64_t i = 0; i < some.layouts[1].shape.elements(); ++i) w.push_back(element(1, i % inner, i / inner));
    const auto dot = [&](std::int64_t row, std::int64_t column) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += x[static_cast<std::size_t>(row * inner + k)] * w[static_cast<std::size_t>(column * inner + k)];
      }
      return sum;
    };
    const auto logistic = [](double of) { return 1 / (1 + std::exp(-of)); };
    const auto plan = SwigluPlan::of(some.found(), some.spec());
    ASSERT_TRUE(plan.has_value());
    const std::vector<std::vector<std::vector<double>>> ways =
        testing::results_of_ways(*device_, *context_, some.spec(), *plan, operands);
    const SwigluEpilogue found = some.found();
    for (std::int64_t i = 0; i < tokens * features; ++i) {
      const std::int64_t row = i / features;
      const std::int64_t column = i % features;
      const double first = dot(row, column);  // the gradient of hidden, or gate
      const double second = backward ? 0 : dot(row, column + features);
      for (std::size_t way = 0; way < ways.size(); ++way) {
        const auto expect = [&](std::size_t result, std::size_t at, double expected, double scale) {
          ASSERT_NEAR(ways[way][result][at], expected, 4 * rounding * scale)
              << "way " << way << ", result " << result << ", row " << row << ", column " << column;
        };
        const auto at = static_cast<std::size_t>(i);
        if (backward) {
          const double d = first;
          const double gate = element(found.gate, row, column);
          const double up = element(found.up, row, column);
          const double s = logistic(gate);
          expect(found.gate_gradient, at, d * up * (s + gate * s * (1 - s)), std::fabs(d * up) + 0.01);
          expect(found.up_gradient, at, d * gate * s, std::fabs(d * gate) + 0.01);
        } else {
          const double gate = first;
          const double up = second;
          const double scale = (std::fabs(gate) + 0.1) * (std::fabs(up) + 0.1);
          expect(found.hidden, at, gate * logistic(gate) * up, scale);
          if (!keeps) continue;
          const auto half = static_cast<std::size_t>(row * 2 * features + column);
          expect(*found.halves, half, gate, std::fabs(gate) + 0.1);
          expect(*found.halves, half + static_cast<std::size_t>(features), up, std::fabs(up) + 0.1);
        }
        if (HasFatalFailure()) return;
      }
    }
  }

  std::mt19937 random_{13};
};

TEST_F(OnCardSwiglu, agrees_with_double_in_every_way_to_compute_it) {
  for (const auto& [tokens, inner, features] :
       std::vector<std::array<std::int64_t, 3>>{{8, 8, 8}, {128, 64, 128}, {200, 136, 72}, {600, 200, 328}}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      expect_exact(false, true, tokens, inner, features, dtype);
      expect_exact(false, false, tokens, inner, features, dtype);
      expect_exact(true, false, tokens, inner, features, dtype);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ridgepoint
