// Compares hand-written kernels on the GPU with the reference back end in double, at odd shapes; outputs are filled
// with a pattern, which shows elements that are not written.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "backends/cuda/card.h"
#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/kernels/adamw/parameters.h"
#include "backends/cuda/kernels/rope/parameters.h"
#include "backends/cuda/kernels/sum_of_squares/parameters.h"
#include "backends/cuda/node_run.h"
#include "ir/stored_tensors.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::index_operand;
using testing::LayoutChoice;
using testing::NodeRun;
using testing::Operand;
using testing::random_indices;
using testing::shifted;

// Relative to the L2 norm: many roundings of a result, but far less than one wrong element.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 4e-3;
    case DType::fp16: return 5e-4;
    case DType::fp64: return 1e-14;
    default: return 1e-6;
  }
}

TEST(CudaHandWritten, chooses_the_derivative_of_cross_entropy_by_its_logits) {
  cuda::CardFacts card;
  card.capability = {8, 0};
  for (const DType logits : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    Graph graph;
    const Value rows = input(graph, "rows", {accumulator(logits), {6}}, Role::data);
    const Value targets = input(graph, "targets", {DType::int64, {6}}, Role::data);
    const Value table = input(graph, "logits", {logits, {6, 37}}, Role::data);
    const NodeId node = make_node(graph, Op::cross_entropy_backward, {rows, table, targets, rows});
    EXPECT_EQ(cuda::has_hand_written(card, graph, graph.node(node)), logits != DType::fp64) << name(logits);
  }
}

// A body of constants alone has no operand whose type a kernel could be for.
TEST(CudaHandWritten, has_no_kernel_for_a_fused_node_without_operands) {
  cuda::CardFacts card;
  card.capability = {9, 0};
  Graph body;
  body.add_output("0", exp(body, constant(body, 0.5, DType::fp32)));
  Graph graph;
  const NodeId node = add_fused(graph, {}, std::make_shared<const FusedBody>(std::move(body)));
  verify(graph);
  EXPECT_FALSE(cuda::has_hand_written(card, graph, graph.node(node)));
}

TEST(KernelLaunch, refuses_what_the_second_dimension_of_a_grid_cannot_hold) {
  EXPECT_EQ(cuda::checked_grid_y(65535 * 64, 64, "the width"), 65535U);
  EXPECT_EQ(error_of([&] { cuda::checked_grid_y(65535 * 64 + 1, 64, "the width"); }),
            "the width is 4194241, but CUDA kernels support at most 4194240");
}

class OnCardHandWritten : public testing::OnCard {
 protected:
  Operand random(DType dtype, const Shape& shape, const LayoutChoice& choice = {}) {
    return testing::random_operand(dtype, shape, random_, choice);
  }
  Operand indices(const Shape& shape, std::int64_t bound) {
    return index_operand(shape, random_indices(shape.elements(), bound, random_));
  }

  void expect_agrees(Op op, const std::vector<Operand>& operands, const Attributes& attributes = {},
                     bool in_place = false, const std::vector<LayoutChoice>& places = {}) {
    NodeRun run(*device_, op, operands, attributes, in_place, places);
    testing::expect_near_and_repeated(run, testing::reference_outputs(op, operands, attributes), run.kernel().name(),
                                      [](std::size_t, DType dtype) { return tolerance_of(dtype); });
  }

  std::mt19937 random_{23};
};

using OnCardEmbedding = OnCardHandWritten;

TEST_F(OnCardEmbedding, gathers_the_bits_of_each_row) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {1, 4, 7, 8, 300, 2560}) {
      const Operand table = random(dtype, {13, width});
      const Operand rows = indices({3, 11}, 13);
      const std::size_t row_bytes = static_cast<std::size_t>(width) * size_bytes(dtype);
      for (const Operand& laid : {table, shifted(table)}) {
        const HostTensor found = NodeRun(*device_, Op::embedding, {laid, rows}, {}).launch()[0];
        for (std::size_t i = 0; i < 33; ++i) {
          const auto row = static_cast<std::size_t>(rows.at(testing::unravel({3, 11}, static_cast<std::int64_t>(i))));
          EXPECT_EQ(std::memcmp(found.data.data() + i * row_bytes, table.storage.data() + row * row_bytes, row_bytes),
                    0)
              << name(dtype) << " width " << width << " row " << i;
        }
      }
    }
  }
}

TEST_F(OnCardEmbedding, gathers_one_row_and_none) {
  expect_agrees(Op::embedding, {random(DType::fp32, {5, 768}), index_operand({1}, std::vector<std::int64_t>{4})});
  expect_agrees(Op::embedding, {random(DType::fp32, {5, 768}), index_operand({0}, {})});
}

TEST_F(OnCardEmbedding, makes_rows_of_nan_of_indices_outside_the_table) {
  const std::vector<std::int64_t> rows = {2, -1, 0, 3, INT64_MIN, 1, INT64_MAX};
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {3, 8}) {
      const Operand table = random(dtype, {3, width});
      const HostTensor found = NodeRun(*device_, Op::embedding, {table, index_operand({7}, rows)}, {}).launch()[0];
      for (std::size_t i = 0; i < found.data.size() / size_bytes(dtype); ++i) {
        const std::int64_t row = rows[i / static_cast<std::size_t>(width)];
        const double value = load_element(dtype, found.data.data() + i * size_bytes(dtype));
        EXPECT_EQ(std::isnan(value), row < 0 || row > 2) << name(dtype) << " element " << i;
      }
    }
  }
}

using OnCardEmbeddingBackward = OnCardHandWritten;

TEST_F(OnCardEmbeddingBackward, sums_rows_by_index) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {1, 5, 8, 264, 1600}) {
      expect_agrees(Op::embedding_backward, {random(dtype, {4, 50, width}), indices({4, 50}, 17)},
                    {{"rows", std::int64_t{19}}});  // rows 17 and 18 have none
    }
  }
}

TEST_F(OnCardEmbeddingBackward, adds_rows_to_an_addend_in_its_place_or_another) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {1, 5, 264, 1600}) {
      for (const bool in_place : {false, true}) {
        expect_agrees(Op::embedding_backward_add,
                      {random(dtype, {4, 50, width}), indices({4, 50}, 17), random(dtype, {300, width})}, {}, in_place);
        const std::vector<std::int64_t> same(100, 6);  // a long list
        expect_agrees(Op::embedding_backward_add,
                      {random(dtype, {100, width}), index_operand({100}, same), random(dtype, {40, width})}, {},
                      in_place);
      }
    }
  }
}

TEST_F(OnCardEmbeddingBackward, writes_every_row_whatever_is_listed) {
  for (const std::int64_t rows : {1, 255, 256, 257, 1000}) {
    for (const std::int64_t count : {0, 1, 31, 1025, 5000}) {
      expect_agrees(Op::embedding_backward, {random(DType::fp32, {count, 12}), indices({count}, rows)},
                    {{"rows", rows}});
    }
  }
}

TEST_F(OnCardEmbeddingBackward, sums_long_lists_of_one_index) {
  for (const std::int64_t count : {32, 33, 500, 4096}) {
    const std::vector<std::int64_t> same(static_cast<std::size_t>(count), 6);
    expect_agrees(Op::embedding_backward, {random(DType::fp32, {count, 300}), index_operand({count}, same)},
                  {{"rows", std::int64_t{40}}});
  }
  std::vector<std::int64_t> skewed = random_indices(3000, 600, random_);
  for (std::size_t i = 0; i < skewed.size(); i += 3) skewed[i] = 256;
  expect_agrees(Op::embedding_backward, {random(DType::fp32, {3000, 68}), index_operand({3000}, skewed)},
                {{"rows", std::int64_t{600}}});
}

TEST_F(OnCardEmbeddingBackward, reads_gradients_at_any_address) {
  expect_agrees(Op::embedding_backward, {shifted(random(DType::fp32, {90, 64})), indices({90}, 11)},
                {{"rows", std::int64_t{11}}});
}

TEST_F(OnCardEmbeddingBackward, leaves_out_indices_outside_the_table) {
  std::vector<std::int64_t> rows = random_indices(60, 9, random_);
  std::vector<std::int64_t> tame = rows;
  Operand gradient = random(DType::fp32, {60, 4});
  Operand without = gradient;
  for (const auto& [at, bad] :
       {std::pair{3, std::int64_t{-1}}, {7, 9}, {20, INT64_MIN}, {41, INT64_MAX}, {59, 1LL << 40}}) {
    rows[static_cast<std::size_t>(at)] = bad;
    tame[static_cast<std::size_t>(at)] = 0;
    std::memset(without.storage.data() + static_cast<std::size_t>(at) * 16, 0, 16);
  }
  const Attributes attributes = {{"rows", std::int64_t{9}}};
  const std::vector<HostTensor> found =
      NodeRun(*device_, Op::embedding_backward, {gradient, index_operand({60}, rows)}, attributes).launch();
  const std::vector<HostTensor> expected =
      testing::reference_outputs(Op::embedding_backward, {without, index_operand({60}, tame)}, attributes);
  EXPECT_LE(testing::relative_error(found[0], expected[0]), 1e-6);
}

using OnCardRope = OnCardHandWritten;

TEST_F(OnCardRope, rotates_operands_that_lie_in_any_way) {
  const LayoutChoice by_head{.storage_order = {0, 2, 1, 3}};
  const LayoutChoice columns{.storage_order = {0, 2, 3, 1}};  // contiguous along positions: no vectors along D
  const LayoutChoice repeated{.broadcast = {1}};
  const LayoutChoice backwards{.flipped = {2, 3}};
  const LayoutChoice padded{.padding = 3};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {2, 6, 8, 64}) {
      for (const LayoutChoice& choice : {LayoutChoice{}, by_head, columns, repeated, backwards, padded}) {
        for (const bool inverse : {false, true}) {
          expect_agrees(Op::rope,
                        {random(dtype, {2, 5, 3, width}, choice), random(DType::fp32, {5, width / 2}),
                         random(DType::fp32, {5, width / 2})},
                        {{"axis", std::int64_t{1}}, {"inverse", inverse}});
        }
      }
    }
  }
}

TEST_F(OnCardRope, takes_positions_along_any_axis) {
  for (const std::int64_t axis : {0, 1, 2, 3}) {
    const Shape shape{3, 2, 1, 4, 8};
    const Shape table{Dim(shape[static_cast<int>(axis)]), Dim(4)};
    expect_agrees(Op::rope, {random(DType::fp32, shape), random(DType::fp32, table), random(DType::fp32, table)},
                  {{"axis", axis}, {"inverse", false}});
  }
  expect_agrees(Op::rope, {random(DType::fp32, {1, 4}), random(DType::fp32, {1, 2}), random(DType::fp32, {1, 2})},
                {{"axis", std::int64_t{0}}, {"inverse", false}});
}

TEST_F(OnCardRope, reads_operands_at_any_address) {
  expect_agrees(Op::rope,
                {shifted(random(DType::fp32, {4, 7, 16})), random(DType::fp32, {7, 8}), random(DType::fp32, {7, 8})},
                {{"axis", std::int64_t{1}}, {"inverse", false}});
}

using OnCardCrossEntropy = OnCardHandWritten;

TEST_F(OnCardCrossEntropy, agrees_for_any_vocabulary) {
  for (const std::int64_t vocabulary : {1, 2, 3, 37, 256, 1001, 10000, 50257}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const std::int64_t rows : {1, 6}) {
        const Operand logits = random(dtype, {rows, vocabulary});
        const Operand targets = indices({rows}, vocabulary);
        const Operand gradient = random(DType::fp32, {rows}), log_sum_exps = random(DType::fp32, {rows});
        expect_agrees(Op::cross_entropy, {logits, targets});
        expect_agrees(Op::cross_entropy, {shifted(logits), targets});
        expect_agrees(Op::cross_entropy, {logits, targets}, {{"z_loss", 0.01}});
        expect_agrees(Op::cross_entropy_backward, {gradient, logits, targets, log_sum_exps});
        expect_agrees(Op::cross_entropy_backward, {gradient, shifted(logits), targets, log_sum_exps});
        expect_agrees(Op::cross_entropy_backward, {gradient, logits, targets, log_sum_exps}, {{"z_loss", 0.01}});
      }
    }
  }
  expect_agrees(Op::cross_entropy, {random(DType::fp32, {0, 5}), index_operand({0}, {})});
}

TEST_F(OnCardCrossEntropy, takes_rows_that_are_padded) {
  for (const std::int64_t padding : {3, 7, 47}) {  // the second gives aligned rows
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      const Operand logits = random(dtype, {6, 1001}, {.padding = padding});
      const Operand targets = indices({6}, 1001);
      const std::vector<Operand> operands = {random(DType::fp32, {6}), logits, targets, random(DType::fp32, {6})};
      expect_agrees(Op::cross_entropy, {logits, targets});
      expect_agrees(Op::cross_entropy_backward, operands);
      expect_agrees(Op::cross_entropy_backward, operands, {}, false, {LayoutChoice{.padding = padding}});
    }
  }
}

TEST_F(OnCardCrossEntropy, is_safe_from_overflow_and_masked_logits) {
  Operand logits = random(DType::fp32, {4, 300});
  for (std::int64_t i = 0; i < 4 * 300; ++i) {
    const bool masked = i < 300 ? i % 3 == 1 : i < 600 && i != 417;
    const double value = masked ? -INFINITY : load_element(DType::fp32, logits.storage.data() + i * 4) * 1e4;
    store_element(DType::fp32, logits.storage.data() + i * 4, value);
  }
  expect_agrees(Op::cross_entropy, {logits, index_operand({4}, std::vector<std::int64_t>{0, 117, 5, 299})});
}

TEST_F(OnCardCrossEntropy, makes_a_nan_of_a_target_outside_the_vocabulary) {
  const Operand logits = random(DType::fp32, {3, 40});
  const HostTensor losses =
      NodeRun(*device_, Op::cross_entropy, {logits, index_operand({3}, std::vector<std::int64_t>{-1, 7, 40})}, {})
          .launch()[0];
  EXPECT_TRUE(std::isnan(losses.as<float>()[0]));
  EXPECT_FALSE(std::isnan(losses.as<float>()[1]));
  EXPECT_TRUE(std::isnan(losses.as<float>()[2]));
}

TEST_F(OnCardCrossEntropy, takes_gradients_that_are_spread_strided_or_known) {
  const Operand logits = random(DType::fp32, {5, 130});
  const Operand targets = indices({5}, 130);
  const Operand log_sum_exps = random(DType::fp32, {5});
  for (const Operand& gradient :
       {random(DType::fp32, {5}, {.broadcast = {0}}), random(DType::fp32, {5}, {.flipped = {0}}),
        testing::immediate_operand(DType::fp32, {5}, 0.25)}) {
    expect_agrees(Op::cross_entropy_backward, {gradient, logits, targets, log_sum_exps});
  }
}

class OnCardAdamW : public OnCardHandWritten {
 protected:
  static Operand scalar(double value) {
    Operand made = testing::make_operand(DType::fp32, {});
    store_element(DType::fp32, made.storage.data(), value);
    return made;
  }

  // The step, then parameter, gradient and both moments (the second positive) of each tensor.
  std::vector<Operand> operands(double step, const std::vector<std::int64_t>& sizes) {
    std::vector<Operand> made = {scalar(step)};
    for (const std::int64_t size : sizes) {
      for (int i = 0; i < 4; ++i) made.push_back(random(DType::fp32, {size}));
      for (std::int64_t i = 0; i < size; ++i) {
        std::byte* element = made.back().storage.data() + i * 4;
        store_element(DType::fp32, element, std::fabs(load_element(DType::fp32, element)));
      }
    }
    return made;
  }
  // The bf16 numbers or the low halves of an fp32 operand.
  static Operand half_of(const Operand& numbers, DType dtype) {
    HostTensor whole({DType::fp32, numbers.layout.shape});
    std::ranges::copy(numbers.storage, whole.data.begin());
    HostTensor half({dtype, numbers.layout.shape});
    convert_to_stored(whole, half);
    Operand made = testing::make_operand(dtype, numbers.layout.shape);
    std::ranges::copy(half.data, made.storage.begin());
    return made;
  }
  const Attributes attributes_ = {
      {"learning_rate", 1e-2}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.1}};
};

TEST_F(OnCardAdamW, updates_tensors_of_any_size_together) {
  for (const double step : {1.0, 2.0, 1000.0, 1e6}) {
    const std::vector<Operand> tensors = operands(step, {1, 4096, 5, 0, 4097, 100003, 8192, 3});
    expect_agrees(Op::adamw, tensors, attributes_, true);
    expect_agrees(Op::adamw, tensors, attributes_, false);
  }
}

TEST_F(OnCardAdamW, takes_gradients_without_their_factor_or_updates_nothing) {
  Attributes attributes = attributes_;
  attributes.set("guarded", true);
  for (const double skip : {0.0, 1.0}) {
    std::vector<Operand> tensors = operands(4, {4096, 5, 4097});
    tensors.insert(tensors.begin() + 1, {scalar(1.0 / 1024), scalar(skip)});
    expect_agrees(Op::adamw, tensors, attributes, true);
    expect_agrees(Op::adamw, tensors, attributes, false);
  }
}

TEST_F(OnCardAdamW, takes_low_gradients_and_writes_low_copies) {
  for (const DType low : {DType::bf16, DType::fp16}) {
    for (const double skip : {0.0, 1.0}) {
      Attributes attributes = attributes_;
      attributes.set("guarded", true);
      attributes.set("copy", std::string(name(low)));
      std::vector<Operand> tensors = operands(4, {8192, 5, 4097, 100003});
      tensors[2] = random(low, {8192});
      tensors[10] = random(low, {4097});
      tensors.insert(tensors.begin() + 1, {scalar(0.5), scalar(skip)});
      expect_agrees(Op::adamw, tensors, attributes, true);
      expect_agrees(Op::adamw, tensors, attributes, false);
    }
  }
}

// As fp32 parameters, which the reference back end updates in double; a skipped update keeps every bit.
TEST_F(OnCardAdamW, updates_parameters_in_two_halves) {
  const std::vector<std::int64_t> sizes = {8192, 5, 4097, 100003};
  Attributes guarded = attributes_;
  guarded.set("guarded", true);
  Attributes attributes = guarded;
  attributes.set("split", true);
  for (const double skip : {0.0, 1.0}) {
    std::vector<Operand> whole = operands(4, sizes);
    whole[2] = random(DType::bf16, {sizes[0]});
    whole.insert(whole.begin() + 1, {scalar(0.5), scalar(skip)});
    std::vector<Operand> split(whole.begin(), whole.begin() + 3);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Operand* const tensor = &whole[3 + 4 * i];
      split.insert(split.end(), {half_of(tensor[0], DType::bf16), tensor[1], tensor[2], tensor[3],
                                 half_of(tensor[0], DType::low_half)});
    }
    const std::vector<HostTensor> expected = testing::reference_outputs(Op::adamw, whole, guarded);
    for (const bool in_place : {true, false}) {
      NodeRun run(*device_, Op::adamw, split, attributes, in_place);
      const std::vector<HostTensor> found = run.launch();
      EXPECT_EQ(run.kernel().name(), "adamw_forward_halves");
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        HostTensor parameter({DType::fp32, {sizes[i]}});
        join_halves(found[4 * i].data, found[4 * i + 3].data, parameter.data);
        EXPECT_LE(testing::relative_error(parameter, expected[3 * i]), 1e-6) << sizes[i];
        EXPECT_LE(testing::relative_error(found[4 * i + 1], expected[3 * i + 1]), 1e-6) << sizes[i];
        EXPECT_LE(testing::relative_error(found[4 * i + 2], expected[3 * i + 2]), 1e-6) << sizes[i];
        if (skip == 0) continue;
        EXPECT_TRUE(std::ranges::equal(parameter.data, whole[3 + 4 * i].storage)) << sizes[i];
      }
    }
  }
}

TEST_F(OnCardAdamW, updates_tensors_at_any_address) {
  std::vector<Operand> tensors = operands(3, {9000, 9000});
  tensors[2] = shifted(tensors[2]);
  tensors[7] = shifted(tensors[7]);
  expect_agrees(Op::adamw, tensors, attributes_, true);
}

TEST_F(OnCardAdamW, updates_more_tensors_than_one_launch_takes) {
  const std::vector<std::int64_t> sizes(cuda::AdamWTable::kCapacity + 10, 3);
  expect_agrees(Op::adamw, operands(1, sizes), attributes_, true);
}

TEST_F(OnCardAdamW, gives_each_tensor_the_bits_it_gets_alone) {
  const std::vector<Operand> both = operands(5, {5000, 77});
  const std::vector<HostTensor> together = NodeRun(*device_, Op::adamw, both, attributes_, true).launch();
  const std::vector<Operand> alone = {both[0], both[5], both[6], both[7], both[8]};
  const std::vector<HostTensor> single = NodeRun(*device_, Op::adamw, alone, attributes_, true).launch();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(together[3 + i].data, single[i].data);
}

TEST_F(OnCardAdamW, reads_a_scheduled_learning_rate) {
  const Attributes scheduled = {
      {"scheduled", true}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.1}};
  std::vector<Operand> tensors = operands(3, {4096, 5, 4097});
  tensors.insert(tensors.begin() + 1, scalar(0.03));
  expect_agrees(Op::adamw, tensors, scheduled, true);
  Attributes guarded = scheduled;
  guarded.set("guarded", true);
  tensors.insert(tensors.begin() + 2, {scalar(0.25), scalar(0)});
  expect_agrees(Op::adamw, tensors, guarded, true);
  expect_agrees(Op::adamw, tensors, guarded, false);
}

class OnCardSumOfSquares : public OnCardHandWritten {};

TEST_F(OnCardSumOfSquares, adds_tensors_of_any_size_type_and_address) {
  std::vector<Operand> tensors;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t size : {1, 16384, 5, 0, 16385, 1000003}) tensors.push_back(random(dtype, {size}));
    tensors.push_back(shifted(random(dtype, {40000})));
    expect_agrees(Op::sum_of_squares, tensors, {});
    std::ranges::rotate(tensors, tensors.end() - 1);
  }
}

TEST_F(OnCardSumOfSquares, adds_more_tensors_than_one_launch_takes) {
  const std::vector<Operand> tensors(cuda::SquaresTable::kCapacity + 10, random(DType::fp32, {3}));
  expect_agrees(Op::sum_of_squares, tensors, {});
}

TEST_F(OnCardSumOfSquares, repeats_to_the_bit) {
  const std::vector<Operand> tensors = {random(DType::fp32, {5000000}), random(DType::bf16, {77})};
  const std::vector<HostTensor> once = NodeRun(*device_, Op::sum_of_squares, tensors, {}, false).launch();
  const std::vector<HostTensor> again = NodeRun(*device_, Op::sum_of_squares, tensors, {}, false).launch();
  EXPECT_EQ(once[0].data, again[0].data);
}

}  // namespace
}  // namespace ridgepoint
