// The GPU's kernels for mixtures of experts, and its products that are added, against the reference back end in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/node_run.h"

namespace ridgepoint {
namespace {

using testing::index_operand;
using testing::NodeRun;
using testing::Operand;

double experts_tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 4e-3;
    case DType::fp16: return 5e-4;
    case DType::fp64: return 1e-14;
    default: return 5e-6;  // sums of tensor cores
  }
}

class OnCardExperts : public testing::OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape) { return testing::random_operand(dtype, shape, random_); }

  void expect_agrees(Op op, const std::vector<Operand>& operands, const Attributes& attributes = {},
                     bool in_place = false) {
    NodeRun run(*device_, op, operands, attributes, in_place);
    testing::expect_near_and_repeated(run, testing::reference_outputs(op, operands, attributes), run.kernel().name(),
                                      [](std::size_t, DType dtype) { return experts_tolerance(dtype); });
  }

  std::mt19937 random_{31};
};

constexpr DType kDTypes[] = {DType::fp64, DType::fp32, DType::bf16, DType::fp16};

TEST_F(OnCardExperts, multiply_groups_of_any_size) {
  // The second expert has no rows, the third fewer than a tile, and the last rows are of no expert.
  const std::vector<std::int64_t> offsets = {0, 130, 130, 141, 300};
  const Operand laid = index_operand({5}, offsets);
  for (const DType dtype : kDTypes) {
    for (const auto& [inner, columns] : {std::pair<std::int64_t, std::int64_t>{45, 70}, {128, 192}, {1, 1}}) {
      const Operand x = random(dtype, {371, inner});
      expect_agrees(Op::grouped_matmul, {x, random(dtype, {4, inner, columns}), laid}, {{"transposed", false}});
      expect_agrees(Op::grouped_matmul, {x, random(dtype, {4, columns, inner}), laid}, {{"transposed", true}});
      expect_agrees(Op::grouped_matmul_weights, {x, random(dtype, {371, columns}), laid});
    }
  }
}

// Rows of whole vectors run the kernels of Hopper there. Experts with no rows, one, a tile and more; inner sizes and
// widths that tiles of 64 and 256 do not divide.
TEST_F(OnCardExperts, multiply_groups_in_whole_vectors) {
  const std::vector<std::int64_t> offsets = {0, 1, 129, 129, 385, 448, 700, 700};
  const Operand laid = index_operand({8}, offsets);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const auto& [inner, columns] :
         {std::pair<std::int64_t, std::int64_t>{8, 8}, {64, 256}, {72, 264}, {200, 520}, {512, 128}, {136, 1032}}) {
      const Operand x = random(dtype, {730, inner});
      expect_agrees(Op::grouped_matmul, {x, random(dtype, {7, inner, columns}), laid}, {{"transposed", false}});
      expect_agrees(Op::grouped_matmul, {x, random(dtype, {7, columns, inner}), laid}, {{"transposed", true}});
      expect_agrees(Op::grouped_matmul_weights, {x, random(dtype, {730, columns}), laid});
    }
  }
}

TEST_F(OnCardExperts, multiply_groups_of_more_experts_than_a_warp_has_lanes) {
  std::vector<std::int64_t> offsets = {0};
  for (int expert = 0; expert < 75; ++expert) offsets.push_back(offsets.back() + expert * 7 % 40);
  const std::int64_t rows = offsets.back() + 300;
  const Operand laid = index_operand({76}, offsets);
  const Operand x = random(DType::bf16, {rows, 128});
  expect_agrees(Op::grouped_matmul, {x, random(DType::bf16, {75, 128, 64}), laid}, {{"transposed", false}});
  expect_agrees(Op::grouped_matmul, {x, random(DType::bf16, {75, 64, 128}), laid}, {{"transposed", true}});
  expect_agrees(Op::grouped_matmul_weights, {x, random(DType::bf16, {rows, 64}), laid});
}

// A tile reaches past the rows of its expert.
TEST_F(OnCardExperts, rows_of_another_expert_that_are_not_numbers_do_not_matter) {
  const Operand laid = index_operand({3}, std::vector<std::int64_t>{0, 70, 200});
  Operand x = random(DType::bf16, {200, 64});
  Operand y = random(DType::bf16, {200, 256});
  for (std::size_t i = 70 * 64; i < 200 * 64; ++i) store_element(DType::bf16, x.storage.data() + i * 2, NAN);
  for (std::size_t i = 70 * 256; i < 200 * 256; ++i) store_element(DType::bf16, y.storage.data() + i * 2, NAN);
  const HostTensor product =
      NodeRun(*device_, Op::grouped_matmul, {x, random(DType::bf16, {2, 64, 256}), laid}, {{"transposed", false}})
          .launch()[0];
  const HostTensor weights = NodeRun(*device_, Op::grouped_matmul_weights, {x, y, laid}, {}).launch()[0];
  for (const HostTensor* result : {&product, &weights}) {
    const std::size_t own = result == &product ? 70 * 256 : 64 * 256;
    for (std::size_t i = 0; i < own; ++i) {
      ASSERT_TRUE(std::isfinite(load_element(DType::bf16, result->data.data() + i * 2))) << i;
    }
    EXPECT_TRUE(std::isnan(load_element(DType::bf16, result->data.data() + own * 2)));
  }
}

std::string kernel_of(Op op, int major, std::int64_t inner, std::int64_t columns, bool transposed = false) {
  cuda::CardFacts card;
  card.capability = {major, 0};
  card.shared_bytes_per_block = std::size_t{227} * 1024;
  Graph graph;
  const Value x = input(graph, "x", {DType::bf16, {300, inner}}, Role::data);
  const bool sums_rows = op == Op::grouped_matmul_weights;
  const Shape other = sums_rows    ? Shape{300, columns}
                      : transposed ? Shape{4, columns, inner}
                                   : Shape{4, inner, columns};
  const Value y = input(graph, "y", {DType::bf16, other}, Role::data);
  const Value offsets = input(graph, "offsets", {DType::int64, {5}}, Role::data);
  const Attributes attributes = sums_rows ? Attributes{} : Attributes{{"transposed", transposed}};
  return cuda::find_variant(card, graph, graph.node(make_node(graph, op, {x, y, offsets}, attributes)))->entry;
}

TEST(CudaExperts, run_the_kernels_of_hopper_where_rows_are_whole_vectors) {
  EXPECT_EQ(kernel_of(Op::grouped_matmul, 9, 64, 256), "grouped_matmul_forward_hopper_plain_bf16");
  EXPECT_EQ(kernel_of(Op::grouped_matmul, 9, 64, 256, true), "grouped_matmul_forward_hopper_transposed_bf16");
  EXPECT_EQ(kernel_of(Op::grouped_matmul_weights, 9, 64, 256), "grouped_matmul_weights_forward_hopper_bf16");
  for (const auto& [major, inner, columns] : {std::tuple{8, 64, 256}, {10, 64, 256}, {9, 60, 256}, {9, 64, 252}}) {
    EXPECT_EQ(kernel_of(Op::grouped_matmul, major, inner, columns), "grouped_matmul_forward_plain_bf16");
    EXPECT_EQ(kernel_of(Op::grouped_matmul_weights, major, inner, columns),
              "grouped_matmul_weights_forward_tiles_bf16");
  }
}

TEST_F(OnCardExperts, sort_choices_by_expert) {
  for (const std::int64_t experts : {1, 8, 255, 257}) {
    for (const std::int64_t tokens : {0, 1, 33, 5000}) {
      const std::vector<std::int64_t> choices = testing::random_indices(tokens * 2, experts, random_);
      expect_agrees(Op::expert_order, {index_operand({tokens, 2}, choices)}, {{"experts", experts}});
    }
  }
}

TEST_F(OnCardExperts, find_the_largest_of_a_row) {
  for (const DType dtype : kDTypes) {
    for (const auto& [width, k] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {8, 2}, {60, 4}, {128, 8}, {70, 70}})
      expect_agrees(Op::top_k, {random(dtype, {37, width})}, {{"k", k}});
  }
}

using OnCardMatmulAdd = OnCardExperts;

TEST_F(OnCardMatmulAdd, adds_to_sums_that_are_not_rounded) {
  for (const DType dtype : kDTypes) {
    for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
             {24, 40, 16}, {128, 512, 192}, {65, 129, 257}, {7, 1, 3}, {5, 0, 4}}) {
      for (const DType result : {accumulator(dtype), dtype}) {
        const std::vector<Operand> operands = {random(dtype, {m, k}), random(dtype, {k, n}), random(result, {m, n})};
        expect_agrees(Op::matmul_add, operands, {}, true);
        expect_agrees(Op::matmul_add, operands, {}, false);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
