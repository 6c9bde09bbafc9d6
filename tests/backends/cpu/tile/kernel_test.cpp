// Compares the tile interpreter with the reference back end: layouts, reductions over any axes, aliasing, threads.
#include "backends/cpu/tile/interpreter.h"

#include <cmath>
#include <limits>

#include "backends/cpu/tile/tile_harness.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint::testing {
namespace {

using Axes = std::vector<std::int64_t>;

Attributes over(Axes axes) { return {{"axes", std::move(axes)}, {"keep_dims", false}}; }

// Of operands of one type.
std::vector<Op> elementwise_ops(int operands) {
  std::vector<Op> ops;
  for (const Op op : kAllOps) {
    const bool plain =
        op != Op::cast && op != Op::where && op != Op::iota && op != Op::round_away && op != Op::join_halves;
    if (op_class(op) == OpClass::elementwise && input_count(op) == operands && plain) ops.push_back(op);
  }
  return ops;
}

bool takes_positive(Op op) { return op == Op::log || op == Op::sqrt || op == Op::rsqrt; }

Operand positive(Operand operand) {
  for (std::size_t i = 0; i < operand.storage.size(); i += sizeof(float)) {
    store_element(DType::fp32, operand.storage.data() + i,
                  std::fabs(load_element(DType::fp32, operand.storage.data() + i)) + 0.01);
  }
  return operand;
}

// Layouts of a rank-4 operand that its dense result does not share.
std::vector<LayoutChoice> layouts() {
  return {{},
          {.storage_order = {0, 2, 1, 3}},
          {.storage_order = {3, 2, 1, 0}},
          {.storage_order = {0, 1, 3, 2}, .flipped = {3}},
          {.flipped = {0, 3}},
          {.broadcast = {1}},
          {.broadcast = {3}},
          {.broadcast = {0, 1, 2, 3}},
          {.padding = 3}};
}

std::vector<Shape> shapes() {
  return {{2, 3, 5, 7}, {1, 4, 1, 67}, {3, 1, 2, 1}, {1, 1, 1, 1}, {2, 2, 3, 1100}, {5, 40, 30, 9}};
}

TEST(TileKernel, every_unary_op_reads_every_layout) {
  std::mt19937 random(1);
  for (const Op op : elementwise_ops(1)) {
    for (const Shape& shape : shapes()) {
      for (const LayoutChoice& choice : layouts()) {
        Operand x = random_operand(DType::fp32, shape, random, choice);
        if (takes_positive(op)) x = positive(std::move(x));
        expect_agreement({op, {x}});
      }
    }
  }
}

TEST(TileKernel, every_binary_op_reads_every_pair_of_layouts) {
  std::mt19937 random(2);
  const std::vector<LayoutChoice> choices = layouts();
  for (const Op op : elementwise_ops(2)) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Shape shape = shapes()[i % shapes().size()];
      const LayoutChoice& other = choices[(i * 4 + 1) % choices.size()];
      const Operand a = random_operand(DType::fp32, shape, random, choices[i]);
      Operand b = random_operand(DType::fp32, shape, random, other);
      if (op == Op::div) b = positive(std::move(b));
      expect_agreement({op, {a, b}});
    }
  }
}

TEST(TileKernel, operands_broadcast_by_shape_and_by_immediate) {
  std::mt19937 random(3);
  for (const Op op : {Op::add, Op::sub, Op::mul, Op::maximum, Op::less_equal}) {
    const Operand full = random_operand(DType::fp32, {3, 5, 130}, random);
    for (const Shape& shape : {Shape{130}, Shape{5, 1}, Shape{3, 1, 1}, Shape{}, Shape{1, 5, 130}}) {
      const Operand small = random_operand(DType::fp32, shape, random);
      expect_agreement({op, {full, small}});
      expect_agreement({op, {small, full}});
    }
    expect_agreement({op, {full, immediate_operand(DType::fp32, {}, 0.25)}});
    expect_agreement({op, {immediate_operand(DType::fp32, {}, 0.25), full}});
  }
}

TEST(TileKernel, where_takes_scalars_in_every_position) {
  std::mt19937 random(4);
  for (const Shape& a : {Shape{4, 70}, Shape{4, 1}}) {
    for (const Shape& b : {Shape{4, 70}, Shape{1}}) {
      for (const Shape& c : {Shape{70}, Shape{4, 1}}) {
        const Operand x = random_operand(DType::fp32, a, random);
        Operand condition = make_operand(DType::boolean, a);
        for (std::size_t i = 0; i < condition.storage.size(); ++i) condition.storage[i] = std::byte(i % 3 == 0);
        expect_agreement(
            {Op::where, {condition, random_operand(DType::fp32, b, random), random_operand(DType::fp32, c, random)}});
      }
    }
  }
}

TEST(TileKernel, iota_counts_along_any_axis) {
  for (const std::int64_t axis : {0, 1, 2}) {
    for (const char* dtype : {"fp32", "int64", "int32", "bf16"}) {
      const TileCase test{Op::iota, {}, {{"shape", Axes{3, 40, 50}}, {"axis", axis}, {"dtype", std::string(dtype)}}};
      const HostTensor found = run_tile(test, 2)[0];
      for (std::int64_t e = 0; e < found.type.elements(); ++e) {
        const std::size_t at = static_cast<std::size_t>(e) * size_bytes(found.type.dtype);
        ASSERT_EQ(load_element(found.type.dtype, found.data.data() + at),
                  static_cast<double>(unravel(found.type.shape, e)[static_cast<std::size_t>(axis)]));
      }
    }
  }
}

// A reshape splits the axis that an iota counts along, so that rows and columns of the kernel both add to its value.
TEST(TileKernel, an_iota_counts_over_rows_and_columns) {
  for (const DType dtype : {DType::fp32, DType::int64}) {
    Graph graph;
    const Shape all{12, 12};
    const Value x = input(graph, "x", {DType::fp32, all}, Role::data);
    const Value is_seen = less_equal(graph, iota(graph, all, 1, dtype), iota(graph, all, 0, dtype));
    const Value seen = where(graph, is_seen, x, constant(graph, -1, DType::fp32));
    graph.add_output("best", neg(graph, reduce_max(graph, reshape(graph, seen, {12, 6, 2}), {-1})));
    HostTensor values({DType::fp32, all});
    for (std::size_t i = 0; i < 144; ++i)
      store_element(DType::fp32, values.data.data() + i * 4, static_cast<double>(i));
    Program program(std::move(graph), open_device("cpu"), {.compile = {.level = Compile::fuse}});
    program.write_input("x", values);
    program.run();
    const HostTensor best = program.read_output("best");
    for (int row = 0; row < 12; ++row) {
      for (int block = 0; block < 6; ++block) {
        const int key = std::min(block * 2 + 1, row);
        EXPECT_EQ(load_element(DType::fp32, best.data.data() + static_cast<std::size_t>(row * 6 + block) * 4),
                  key < block * 2 ? 1 : -(row * 12 + key))
            << row << " " << block;
      }
    }
  }
}

TEST(TileKernel, reductions_take_every_set_of_axes) {
  std::mt19937 random(5);
  for (const Op op : {Op::reduce_sum, Op::reduce_max}) {
    for (const Shape& shape : {Shape{3, 4, 5, 67}, Shape{2, 1, 33, 6}, Shape{4, 130, 3, 40}}) {
      for (unsigned set = 0; set < 16; ++set) {
        Axes axes;
        for (int axis = 0; axis < 4; ++axis) {
          if ((set >> axis & 1) != 0) axes.push_back(axis);
        }
        for (const LayoutChoice& choice : {LayoutChoice{}, LayoutChoice{.storage_order = {2, 3, 0, 1}},
                                           LayoutChoice{.broadcast = {2}, .flipped = {3}}}) {
          expect_agreement({op, {positive(random_operand(DType::fp32, shape, random, choice))}, over(axes)});
        }
      }
    }
  }
}

TEST(TileKernel, reductions_over_few_and_many_rows_use_all_threads) {
  std::mt19937 random(6);
  const Operand tall = positive(random_operand(DType::fp32, {3000, 70}, random));
  const Operand wide = positive(random_operand(DType::fp32, {2, 90000}, random));
  const Operand narrow = positive(random_operand(DType::fp32, {40000, 3}, random));
  for (const Operand& x : {tall, wide, narrow}) {
    for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 1}}) {
      expect_agreement({Op::reduce_sum, {x}, over(axes)});
      expect_agreement({Op::reduce_max, {x}, over(axes)});
    }
  }
}

TEST(TileKernel, a_long_sum_keeps_its_digits) {
  constexpr std::int64_t kCount = 4'000'000;
  Operand x = make_operand(DType::fp32, {kCount});
  for (std::size_t i = 0; i < kCount; ++i)
    store_element(DType::fp32, x.storage.data() + i * 4, 0.1 + 1e-4 * static_cast<double>(i % 7));
  expect_agreement({Op::reduce_sum, {x}, over({0})}, 5e-7);
  x.layout = dense_layout({DType::fp32, {kCount / 16, 16}});
  expect_agreement({Op::reduce_sum, {x}, over({0})}, 5e-7);
}

TEST(TileKernel, empty_reductions_give_zero) {
  const Operand none = make_operand(DType::fp32, {0, 5});
  EXPECT_EQ(run_tile({Op::reduce_sum, {none}, over({0})}, 2)[0].as<float>()[4], 0.0f);
  EXPECT_EQ(run_tile({Op::reduce_sum, {none}, over({0, 1})}, 2)[0].as<float>()[0], 0.0f);
  EXPECT_EQ(run_tile({Op::exp, {none}}, 2)[0].data.size(), 0u);
}

TEST(TileKernel, nan_and_infinity_pass_through_reductions) {
  Operand x = make_operand(DType::fp32, {3, 100});
  auto* values = reinterpret_cast<float*>(x.storage.data());
  std::fill_n(values, 300, -INFINITY);
  values[150] = NAN;
  values[299] = 2.0f;
  for (const Op op : {Op::reduce_max, Op::reduce_sum}) {
    const HostTensor found = run_tile({op, {x}, over({1})}, 1)[0];
    EXPECT_EQ(found.as<float>()[0], -INFINITY);
    EXPECT_TRUE(std::isnan(found.as<float>()[1]));
    EXPECT_EQ(found.as<float>()[2], op == Op::reduce_max ? 2.0f : -INFINITY);
    const HostTensor columns = run_tile({op, {x}, over({0})}, 1)[0];
    EXPECT_TRUE(std::isnan(columns.as<float>()[50]));
    EXPECT_EQ(columns.as<float>()[0], -INFINITY);
  }
}

TEST(TileKernel, softmax_gives_masked_scores_exactly_zero) {
  std::mt19937 random(7);
  Operand x = random_operand(DType::fp32, {5, 300}, random);
  auto* values = reinterpret_cast<float*>(x.storage.data());
  for (int i = 0; i < 1500; i += 2) values[i] = -INFINITY;
  const HostTensor found = run_tile({Op::softmax, {x}}, 1)[0];
  for (std::size_t i = 0; i < 1500; i += 2) ASSERT_EQ(found.as<float>()[i], 0.0f);
  expect_agreement({Op::softmax, {x}});
}

// Shapes that need every split of the work between threads, and odd shapes.
TEST(TileKernel, composites_agree_at_sizes_that_use_all_threads) {
  std::mt19937 random(8);
  for (const Shape& shape : {Shape{257, 130}, Shape{1, 30000}, Shape{2, 15000}, Shape{9000, 3}, Shape{33, 1}}) {
    const Shape rows{shape.dim(0), Dim(1)};
    const Shape row_list{shape.dim(0)};
    const Operand x = random_operand(DType::fp32, shape, random);
    const Operand dy = random_operand(DType::fp32, shape, random);
    const Operand weight = random_operand(DType::fp32, {shape.dim(1)}, random);
    const Operand per_row = positive(random_operand(DType::fp32, row_list, random));
    Operand column = per_row;
    column.layout = dense_layout({DType::fp32, rows});
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < shape[0]; ++i) targets.push_back(i * 7919 % shape[1]);
    const Operand target = index_operand(row_list, targets);
    expect_agreement({Op::softmax, {x}});
    expect_agreement({Op::softmax_backward, {dy, x}}, 2e-6);
    expect_agreement({Op::rms_norm, {x, weight}, {{"epsilon", 1e-5}}});
    expect_agreement({Op::rms_norm_backward, {dy, x, weight, column}}, 2e-6);
    expect_agreement({Op::cross_entropy, {x, target}}, 2e-6);
    expect_agreement({Op::cross_entropy_backward, {per_row, x, target, per_row}}, 2e-6);
    expect_agreement({Op::silu, {x}});
    expect_agreement({Op::silu_backward, {dy, x}}, 2e-6);
    expect_agreement({Op::relu, {x}});
  }
}

TEST(TileKernel, causal_mask_fills_above_the_diagonal_of_every_matrix) {
  std::mt19937 random(9);
  for (const Shape& shape : {Shape{3, 40, 40}, Shape{2, 2, 5, 70}, Shape{2, 130, 300}}) {
    expect_agreement({Op::causal_mask, {random_operand(DType::fp32, shape, random)}, {{"fill", -INFINITY}}}, 0.0);
  }
}

TEST(TileKernel, adamw_updates_its_operands_in_place) {
  std::mt19937 random(10);
  Operand step = make_operand(DType::fp32, {});
  store_element(DType::fp32, step.storage.data(), 3.0);
  TileCase test{Op::adamw,
                {step},
                {{"learning_rate", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.01}}};
  for (const Shape& shape : {Shape{300, 130}, Shape{67}}) {  // two tensors of one node
    for (int i = 0; i < 3; ++i) test.operands.push_back(random_operand(DType::fp32, shape, random));
    test.operands.push_back(positive(random_operand(DType::fp32, shape, random)));
  }
  expect_agreement(test);
  expect_agreement(test, 1e-6, {{0, 1}, {1, 3}, {2, 4}, {3, 5}, {4, 7}, {5, 8}});
}

TEST(TileKernel, results_may_take_the_place_of_an_operand) {
  std::mt19937 random(11);
  for (const Shape& shape : {Shape{40, 700}, Shape{3, 5}, Shape{1, 30000}}) {
    const Operand a = random_operand(DType::fp32, shape, random);
    const Operand b = positive(random_operand(DType::fp32, shape, random));
    for (const Op op : {Op::add, Op::sub, Op::div, Op::softmax_backward, Op::silu_backward}) {
      expect_agreement({op, {a, b}}, 2e-6, {{0, 0}});
      expect_agreement({op, {a, b}}, 2e-6, {{0, 1}});
    }
    expect_agreement({Op::softmax, {a}}, 1e-6, {{0, 0}});
    expect_agreement({Op::copy, {a}}, 0.0, {{0, 0}});
    const Operand weight = random_operand(DType::fp32, {shape.dim(1)}, random);
    expect_agreement({Op::rms_norm, {a, weight}, {{"epsilon", 1e-5}}}, 1e-6, {{0, 0}});
  }
}

TEST(TileKernel, elementwise_results_do_not_depend_on_the_thread_count) {
  std::mt19937 random(12);
  const Operand a = random_operand(DType::fp32, {7, 9001}, random, {.storage_order = {1, 0}});
  const Operand b = random_operand(DType::fp32, {7, 9001}, random);
  for (const Op op : {Op::add, Op::silu_backward}) {
    EXPECT_EQ(run_tile({op, {a, b}}, 1)[0].data, run_tile({op, {a, b}}, 2)[0].data);
  }
}

TEST(TileKernel, narrow_dtypes_are_read_and_rounded_to_nearest_even) {
  std::mt19937 random(13);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const LayoutChoice& choice :
         {LayoutChoice{}, LayoutChoice{.storage_order = {1, 0}}, LayoutChoice{.flipped = {1}}}) {
      const TileCase test{Op::mul,
                          {random_operand(dtype, {9, 131}, random, choice), random_operand(dtype, {131}, random)}};
      const HostTensor found = run_tile(test, 2)[0];
      const HostTensor expected = convert(expected_of(test)[0], dtype);
      EXPECT_EQ(found.data, expected.data) << name(dtype);  // a product of two such numbers is exact in fp32
    }
  }
}

TEST(TileKernel, casts_convert_between_all_dtypes) {
  std::mt19937 random(14);
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      if (from == DType::fp64 || to == DType::fp64) continue;
      const Operand x = random_operand(from, {5, 67}, random);
      const TileCase test{Op::cast, {x}, {{"dtype", std::string(name(to))}}};
      const HostTensor found = run_tile(test, 1)[0];
      for (std::int64_t e = 0; e < found.type.elements(); ++e) {
        std::byte expected[8];
        store_element(to, expected, x.at(unravel(x.layout.shape, e)));
        ASSERT_EQ(
            std::memcmp(expected, found.data.data() + static_cast<std::size_t>(e) * size_bytes(to), size_bytes(to)), 0)
            << name(from) << " to " << name(to);
      }
    }
  }
}

TEST(TileKernel, copies_move_bits_that_fp32_cannot_hold) {
  const std::vector<std::int64_t> values{(std::int64_t{1} << 53) + 1, -7, std::numeric_limits<std::int64_t>::max(), 3};
  Operand x = index_operand({2, 2}, values);
  std::swap(x.layout.strides[0], x.layout.strides[1]);
  const HostTensor found = run_tile({Op::copy, {x}}, 1)[0];
  EXPECT_EQ(found.as<std::int64_t>()[0], values[0]);
  EXPECT_EQ(found.as<std::int64_t>()[1], values[2]);
  EXPECT_EQ(found.as<std::int64_t>()[2], values[1]);
  const Operand scalar = index_operand({}, std::span(values).first(1));
  EXPECT_EQ(run_tile({Op::copy, {scalar}}, 1)[0].as<std::int64_t>()[0], values[0]);
}

TEST(TileKernel, refuses_what_it_cannot_do_exactly) {
  Graph graph;
  const Value wide = input(graph, "wide", {DType::fp64, {4, 4}}, Role::data);
  const Value x = input(graph, "x", {DType::fp32, {4, 4}}, Role::data);
  EXPECT_FALSE(cpu::fits_tile(graph, graph.producer_node(exp(graph, wide))));
  EXPECT_FALSE(cpu::fits_tile(graph, graph.producer_node(matmul(graph, x, x))));
  EXPECT_FALSE(cpu::fits_tile(graph, graph.producer_node(iota(graph, {(1 << 24) + 2}, 0, DType::fp32))));
  EXPECT_TRUE(cpu::fits_tile(graph, graph.producer_node(softmax(graph, x))));
  const Node& product = graph.producer_node(matmul(graph, x, x));
  const std::vector<TensorLayout> layouts(2, dense_layout({DType::fp32, {4, 4}}));
  EXPECT_THAT(error_of(
                  [&] {
                    cpu::make_tile_kernel({graph, product, layouts, std::span(layouts).first(1)});
                  },
                  ErrorKind::unsupported),
              Not(IsEmpty()));
}

}  // namespace
}  // namespace ridgepoint::testing
