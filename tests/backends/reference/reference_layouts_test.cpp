// Compares the reference kernels on transposed, reversed, broadcast and windowed operands with the same kernels on
// dense copies, with random data.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "ridgepoint/ops/ops.h"
#include "run_node.h"

namespace ridgepoint {
namespace {

// Calls visit(offset) for every element of a window, in row-major order.
template <typename Visit>
void for_each_element(const TensorLayout& layout, Visit&& visit) {
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t count = 0; count < layout.shape.elements(); ++count) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < layout.shape.rank(); ++axis) {
      offset += index[static_cast<std::size_t>(axis)] * layout.strides[static_cast<std::size_t>(axis)];
    }
    visit(offset);
    for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<std::size_t>(axis)] < layout.shape[axis]) break;
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

// A random window of `type`: dimensions are permuted in storage, some reversed, some broadcast, some with gaps.
TestOperand random_window(const TensorType& type, std::mt19937& random, double low, double high) {
  TestOperand operand;
  TensorLayout layout{type.dtype, type.shape, {}, std::nullopt};
  std::vector<int> axes(static_cast<std::size_t>(type.shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  std::int64_t stride = 1;
  std::int64_t offset = 0;
  for (const int axis : axes) {
    const std::int64_t size = std::max<std::int64_t>(type.shape[axis], 1);
    std::int64_t& own = layout.strides[static_cast<std::size_t>(axis)];
    switch (random() % 4) {
      case 0:  // broadcast
        break;
      case 1:  // reversed
        own = -stride;
        offset += (size - 1) * stride;
        stride *= size;
        break;
      case 2:  // with a gap after each element
        own = 2 * stride;
        stride *= 2 * size;
        break;
      default: own = stride; stride *= size;
    }
  }
  std::uniform_real_distribution<double> value(low, high);
  operand.storage.resize(static_cast<std::size_t>(stride));
  for (double& element : operand.storage)
    element = !is_floating(type.dtype) ? std::floor(value(random)) : value(random);
  operand.offset = offset;
  operand.layout = layout;
  return operand;
}

TestOperand dense_copy(const TestOperand& window) {
  TestOperand dense;
  for_each_element(*window.layout, [&](std::int64_t offset) {
    dense.storage.push_back(window.storage[static_cast<std::size_t>(window.offset + offset)]);
  });
  return dense;
}

class ReferenceLayouts : public testing::TestWithParam<unsigned> {
 protected:
  Value in(Shape shape, DType dtype = DType::fp64) {
    return input(graph_, "input" + std::to_string(inputs_++), {dtype, std::move(shape)}, Role::data);
  }
  std::int64_t size(std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random_() % static_cast<unsigned>(most));
  }
  void expect_same_as_dense(Value result) {
    std::vector<TestOperand> windows;
    std::vector<TestOperand> dense;
    for (const Value value : graph_.producer_node(result).inputs) {
      windows.push_back(random_window(graph_.type(value), random_, 0.0, 4.0));
      dense.push_back(dense_copy(windows.back()));
    }
    EXPECT_EQ(run_node(*device_, graph_, result, windows), run_node(*device_, graph_, result, dense));
  }

  std::shared_ptr<Device> device_ = make_reference_device();
  std::mt19937 random_{GetParam()};
  Graph graph_;
  int inputs_ = 0;
};

TEST_P(ReferenceLayouts, do_not_change_elementwise_results) {
  for (int round = 0; round < 20; ++round) {
    const Shape shape{size(4), size(5), size(3), size(7)};
    expect_same_as_dense(sub(graph_, in(shape), in(shape)));
    expect_same_as_dense(where(graph_, in(shape, DType::boolean), in(shape, DType::fp32), in(shape, DType::fp32)));
  }
  expect_same_as_dense(sub(graph_, in({2, 3000}), in({2, 3000})));  // rows longer than a run
}

TEST_P(ReferenceLayouts, do_not_change_reductions) {
  for (int round = 0; round < 20; ++round) {
    const Shape shape{size(4), size(5), size(3), size(7)};
    std::vector<std::int64_t> axes;
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      if (random_() % 2 == 0) axes.push_back(axis);
    }
    expect_same_as_dense(reduce_sum(graph_, in(shape), axes));
    expect_same_as_dense(reduce_max(graph_, in(shape), axes, true));
  }
}

TEST_P(ReferenceLayouts, do_not_change_products) {
  for (int round = 0; round < 20; ++round) {
    const std::int64_t b = size(3), h = size(3), m = size(9), n = size(9), k = size(9);
    expect_same_as_dense(matmul(graph_, in({b, h, m, k}), in({b, h, k, n})));
    expect_same_as_dense(matmul(graph_, in({m, k}), in({k, n})));
  }
}

TEST_P(ReferenceLayouts, do_not_change_gathers) {
  for (int round = 0; round < 20; ++round) {
    const Shape indices{size(4), size(6)};
    const std::int64_t width = size(9);
    expect_same_as_dense(embedding(graph_, in({4, width}), in(indices, DType::int64)));
    expect_same_as_dense(embedding_backward(graph_, in({indices[0], indices[1], width}), in(indices, DType::int64), 4));
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, ReferenceLayouts, testing::Values(1U, 2U, 3U, 4U));

TEST(loop_nest, merges_dense_dimensions_into_one_row) {
  const Shape shape{3, 1, 4, 5};
  const reference::LoopNest loops(shape, std::array{dense_strides(shape), dense_strides(shape)});
  int runs = 0;
  loops.for_each_run([&](const reference::Offsets& offsets, std::int64_t count) {
    ++runs;
    EXPECT_EQ(offsets[0], 0);
    EXPECT_EQ(count, 60);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(loops.run_stride(0), 1);
}

TEST(loop_nest, keeps_dimensions_that_one_operand_cannot_merge) {
  const Shape shape{3, 4};
  const reference::Strides column{1, 0};
  const reference::LoopNest loops(shape, std::array{dense_strides(shape), column});
  std::vector<std::int64_t> columns;
  loops.for_each_run([&](const reference::Offsets& offsets, std::int64_t count) {
    EXPECT_EQ(count, 4);
    columns.push_back(offsets[1]);
  });
  EXPECT_EQ(columns, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(loop_nest, makes_no_runs_of_an_empty_space) {
  const Shape shape{3, 0, 2};
  const reference::LoopNest loops(shape, std::array<reference::Strides, 1>{dense_strides(shape)});
  loops.for_each_run([](const reference::Offsets&, std::int64_t) { FAIL() << "a run of nothing"; });
}

TEST(loop_nest, visits_a_scalar_once) {
  const reference::LoopNest loops(Shape(), std::array<reference::Strides, 1>{});
  int elements = 0;
  loops.for_each_run([&](const reference::Offsets&, std::int64_t count) { elements += static_cast<int>(count); });
  EXPECT_EQ(elements, 1);
}

}  // namespace
}  // namespace ridgepoint
