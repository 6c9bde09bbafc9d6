// Products whose epilogue is rotary embedding: which bodies are recognised, what is planned, and on a GPU every way to
// compute them against double.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "backends/cuda/card.h"
#include "backends/cuda/card_harness.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/fused_product.h"
#include "backends/cuda/products/epilogues/fused_product_runs.h"
#include "backends/cuda/products/epilogues/rope/parameters.h"
#include "backends/cuda/products/epilogues/rope_case.h"
#include "backends/cuda/products/epilogues/two_steps.h"
#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using cuda::RopeEpilogue;
using cuda::RopePlan;
using testing::DeviceCopy;
using testing::entry_of;
using testing::hopper_card;
using testing::Operand;
using testing::RopeCase;

// 2 sequences of 3 tokens, 2 rotated heads of 4 and 4 more columns.
const std::string kRopeBody = R"(
%0:bf16[6,5] = input() {name="0", role="data"}
%1:bf16[5,12] = input() {name="1", role="data"}
%2:fp32[3,2] = input() {name="2", role="data"}
%3:fp32[3,2] = input() {name="3", role="data"}
%4:bf16[6,12] = matmul(%0, %1)
%5:bf16[6,8], %6:bf16[6,4] = split(%4) {axis=1, sizes=[8,4]}
%7:bf16[2,3,2,4] = reshape(%5) {shape=[2,3,2,4]}
%8:bf16[2,3,2,4] = rope(%7, %2, %3) {axis=1, inverse=false}
%9:bf16[6,8] = reshape(%8) {shape=[6,8]}
%10:bf16[6,12] = concat(%9, %6) {axis=1}
output "0" %10
)";

std::optional<RopeEpilogue> rope_in(const std::string& lines) {
  return cuda::rope_of(FusedBody(testing::graph_of(lines)));
}

TEST(RopeEpilogue, is_a_product_whose_first_columns_are_rotated_heads) {
  const std::optional<RopeEpilogue> found = rope_in(kRopeBody);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->product.m, 6);
  EXPECT_EQ(found->product.k, 5);
  EXPECT_EQ(found->product.n, 12);
  EXPECT_EQ(found->columns, 8);
  EXPECT_EQ(found->sequence, 3);
  EXPECT_EQ(found->head, 4);
}

TEST(RopeEpilogue, may_add_a_bias_before) {
  std::string biased = testing::replaced(kRopeBody, "%4:", "%11:bf16[12] = input() {name=\"4\", role=\"data\"}\n%4:");
  biased = testing::replaced(biased, "%5:", "%12:bf16[6,12] = add(%4, %11)\n%5:");
  biased = testing::replaced(biased, "split(%4)", "split(%12)");
  const std::optional<RopeEpilogue> found = rope_in(biased);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->adds_bias);
  EXPECT_EQ(found->columns, 8);
  EXPECT_FALSE(rope_in(kRopeBody)->adds_bias);
  EXPECT_FALSE(rope_in(testing::replaced(biased, "%11:bf16[12]", "%11:bf16[6,12]")).has_value());
}

TEST(RopeEpilogue, is_nothing_else) {
  EXPECT_FALSE(rope_in(testing::replaced(kRopeBody, "inverse=false", "inverse=true")).has_value());
  EXPECT_FALSE(rope_in(testing::replaced(kRopeBody, "rope(%7, %2, %3)", "rope(%7, %3, %2)")).has_value());
  EXPECT_FALSE(rope_in(testing::replaced(kRopeBody, "output \"0\" %10", "output \"0\" %4")).has_value());
  EXPECT_FALSE(rope_in(kRopeBody + "output \"1\" %4\n").has_value()) << "the product too";
  std::string changed = testing::replaced(kRopeBody, "concat(%9, %6)", "concat(%9, %11)");
  changed = testing::replaced(changed, "%10:", "%11:bf16[6,4] = exp(%6)\n%10:");
  EXPECT_FALSE(rope_in(changed).has_value()) << "other columns are changed";
  std::string moved = testing::replaced(kRopeBody, "concat(%9, %6)", "concat(%6, %9)");
  EXPECT_FALSE(rope_in(moved).has_value()) << "columns are exchanged";
  // Positions run along the sequences, not along the tokens of one.
  std::string along = testing::replaced(kRopeBody, "{axis=1, inverse", "{axis=0, inverse");
  along = testing::replaced(along, ":fp32[3,2]", ":fp32[2,2]");
  EXPECT_FALSE(rope_in(along).has_value());
}

TEST(RopePlan, covers_every_token_and_column) {
  const RopeCase some(4, 250, 30, 64, 640, 768);
  const std::optional<RopePlan> plan = some.plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_GE(plan->candidates().size(), 2U);
  for (const cuda::EpilogueTiling& tiling : plan->candidates()) {
    const std::vector<cuda::EpilogueLaunch> launches = plan->launches(tiling, 132);
    ASSERT_EQ(launches.size(), 1U);
    cuda::RopeMatmul parameters;
    std::memcpy(&parameters, launches[0].parameters.bytes.data(), sizeof parameters);
    testing::expect_covered(launches[0], tiling, 1000, 2560, tiling.columns);
    EXPECT_EQ(parameters.columns, 1920);
    EXPECT_EQ(parameters.head.value, 64U);
    EXPECT_EQ(parameters.sequence.value, 250U);
    EXPECT_EQ(launches[0].fields.size(), 5U);
  }
}

TEST(RopePlan, of_a_bias_has_its_address_and_no_two_steps) {
  const RopeCase some(4, 250, 30, 64, 640, 768, DType::bf16, true);
  const std::optional<RopePlan> plan = some.plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(plan->may_take_two_steps());
  EXPECT_TRUE(RopeCase(4, 250, 30, 64, 640, 768).plan()->may_take_two_steps());
  EXPECT_NE(plan->key(), RopeCase(4, 250, 30, 64, 640, 768).plan()->key());
  const cuda::EpilogueLaunch launch = plan->launches(plan->candidates()[0], 132)[0];
  ASSERT_EQ(launch.fields.size(), 6U);
  EXPECT_EQ(launch.fields[5].place, offsetof(cuda::RopeMatmul, bias));
  EXPECT_EQ(launch.fields[5].index, 4U);
  EXPECT_TRUE(launch.fields[5].in_vectors);
}

TEST(RopePlan, has_no_second_tile_in_a_cluster_without_rows_for_it) {
  const RopeCase few(1, 100, 2, 64, 64, 64);
  const std::optional<RopePlan> plan = few.plan();
  ASSERT_TRUE(plan.has_value());
  for (const cuda::EpilogueTiling& tiling : plan->candidates())
    EXPECT_EQ(tiling.cluster_blocks(), 1) << tiling.to_text();
}

TEST(RopePlan, leaves_to_the_library_what_the_copy_engine_does_not_take) {
  RopeCase some(2, 32, 2, 64, 64, 64);
  EXPECT_TRUE(some.plan().has_value());
  some.layouts[1].strides = {192, 1};
  EXPECT_FALSE(some.plan().has_value()) << "weights by rows";
  some.layouts[1].strides = {1, 68};
  EXPECT_FALSE(some.plan().has_value()) << "columns at multiples of 136 bytes";
}

TEST(RopeProductVariants, are_for_hopper_and_whole_vectors) {
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 64, 64, 64)), "fused_rope_forward_128x128_1x1_bf16");
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 64, 64, 64), hopper_card({8, 0})), "");
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 12, 64, 64)), "") << "heads of 12";
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 64, 60, 64)), "") << "rows of 188";
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 64, 64, 64, DType::fp32)), "");
  EXPECT_EQ(entry_of(RopeCase(2, 32, 2, 64, 64, 64, DType::bf16, true)), "")
      << "a bias, and a weight that may lie by rows";
}

// The rotation reads and writes the columns where the product has left them.
TEST(RopeSteps, rotate_the_product_where_it_lies) {
  const RopeCase some(2, 32, 2, 64, 64, 64);
  const cuda::ProductSteps steps(some.spec());
  EXPECT_EQ(steps.buffers_bytes(), 0U);
  EXPECT_EQ(steps.product_place().of, cuda::ProductSteps::Place::Of::results);
  EXPECT_EQ(steps.product_place().offset, 0U);
  ASSERT_EQ(steps.results().size(), 1U);
  EXPECT_EQ(steps.results()[0].of, cuda::ProductSteps::Place::Of::results);
  EXPECT_EQ(steps.epilogue().node.op, Op::rope);
  for (const TensorLayout& layout : {steps.epilogue().inputs[0], steps.epilogue().outputs[0]}) {
    EXPECT_EQ(std::vector(layout.strides.begin(), layout.strides.begin() + 4),
              (std::vector<std::int64_t>{32 * 192, 192, 64, 1}));
  }
}

class RopeProductOnFakeCard : public testing::OnFakeCard {};

TEST_F(RopeProductOnFakeCard, needs_the_workspace_that_is_planned_whichever_way_is_chosen) {
  on_fake_card([] {
    for (const RopeCase& some : {RopeCase(2, 128, 4, 64, 128, 512), RopeCase(2, 128, 4, 64, 0, 512)}) {
      testing::expect_planned_workspace(some.spec(), *some.plan());
    }
  });
}

class OnCardRopeProduct : public testing::OnHopper {
 protected:
  // The result of each way.
  std::vector<std::vector<std::byte>> run(const RopeCase& some, const std::vector<Operand>& operands) {
    std::vector<std::unique_ptr<DeviceCopy>> inputs;
    std::vector<void*> addresses;
    for (const Operand& operand : operands) {
      inputs.push_back(std::make_unique<DeviceCopy>(*device_, operand.storage));
      addresses.push_back(inputs.back()->address());
    }
    std::vector<std::vector<std::byte>> all;
    const std::optional<RopePlan> plan = some.plan();
    EXPECT_TRUE(plan.has_value());
    for (const auto& way : cuda::fused_product_ways(*context_, some.spec(), &*plan)) {
      way->prepare();
      const std::size_t bytes = static_cast<std::size_t>(some.results[0].shape.elements()) * 2;
      const DeviceCopy result(*device_, std::vector(bytes, std::byte{0x7f}));
      const DeviceCopy workspace(*device_, std::vector(way->workspace_bytes() + 1, std::byte{0x7f}));
      void* outputs[] = {result.address()};
      way->launch({addresses.data(), outputs, workspace.address()});
      device_->synchronize();
      all.push_back(result.read());
    }
    return all;
  }

  std::vector<Operand> operands_of(const RopeCase& some) {
    std::vector<Operand> operands;
    for (const TensorLayout& layout : some.layouts) {
      operands.push_back(testing::random_operand(
          layout.dtype, layout.shape, random_,
          {.storage_order = layout.strides[static_cast<std::size_t>(layout.shape.rank() - 1)] == 1
                                ? std::vector<int>{}
                                : std::vector<int>{1, 0}}));
    }
    return operands;
  }

  // Every element of every way, at most a few roundings from the exact one; all tilings have equal bits.
  void expect_exact(const RopeCase& some) {
    const RopeEpilogue node = some.found();
    const std::vector<Operand> operands = operands_of(some);
    const DType dtype = some.results[0].dtype;
    const std::vector<std::vector<std::byte>> ways = run(some, operands);
    for (std::size_t way = 2; way < ways.size(); ++way) EXPECT_EQ(ways[way], ways[1]) << "way " << way;
    const auto bias = [&](std::int64_t column) { return node.adds_bias ? operands[4].at(std::array{column}) : 0; };
    const auto product = [&](std::int64_t row, std::int64_t column) {
      double sum = bias(column);
      for (std::int64_t k = 0; k < node.product.k; ++k) {
        sum += operands[0].at(std::array{row, k}) * operands[1].at(std::array{k, column});
      }
      return sum;
    };
    const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (std::int64_t row = 0; row < node.product.m; ++row) {
      for (std::int64_t column = 0; column < node.product.n; column += 2) {
        double pair[] = {product(row, column), product(row, column + 1)};
        // The product is rounded before the bias, which may be nearly opposite, is added.
        double scale = std::hypot(pair[0], pair[1]) + std::fabs(bias(column)) + std::fabs(bias(column + 1)) + 0.1;
        if (column < node.columns) {
          const std::array at = {row % node.sequence, column % node.head / 2};
          const double c = operands[2].at(at), s = operands[3].at(at);
          scale *= 1 + std::hypot(c, s);
          const double a = pair[0];
          pair[0] = a * c - pair[1] * s;
          pair[1] = a * s + pair[1] * c;
        }
        for (std::size_t way = 0; way < ways.size(); ++way) {
          for (const int i : {0, 1}) {
            const auto place = static_cast<std::size_t>(row * node.product.n + column + i);
            ASSERT_NEAR(load_element(dtype, ways[way].data() + 2 * place), pair[i], 4 * rounding * scale)
                << "way " << way << " of " << ways.size() << ", row " << row << ", column " << column + i << " of "
                << operands[0].type().to_string() << " x " << operands[1].type().to_string();
          }
        }
      }
    }
  }

  std::mt19937 random_{17};
};

TEST_F(OnCardRopeProduct, agrees_with_double_in_every_way_to_compute_it) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const RopeCase& some :
         {RopeCase(1, 1, 1, 8, 8, 8, dtype), RopeCase(2, 77, 6, 64, 192, 136, dtype),
          RopeCase(3, 113, 4, 40, 80, 72, dtype), RopeCase(1, 300, 5, 128, 256, 64, dtype),
          RopeCase(2, 150, 5, 80, 0, 200, dtype), RopeCase(5, 64, 3, 96, 40, 64, dtype),
          RopeCase(3, 113, 4, 40, 80, 72, dtype, true), RopeCase(1, 1, 1, 8, 8, 8, dtype, true),
          RopeCase(1, 300, 5, 128, 256, 64, dtype, true), RopeCase(2, 150, 5, 80, 0, 200, dtype, true)}) {
      expect_exact(some);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ridgepoint
