// The CPU's matmul against loops in double: every layout that the planner may pass, and those that it would copy first.
#include <gmock/gmock.h>

#include <omp.h>

#include <cmath>
#include <random>

#include "backends/cpu/device.h"
#include "backends/cpu/exact_product.h"
#include "backends/cpu/matmul/matmul.h"
#include "backends/null/null_device.h"
#include "core/threads/parallel.h"

namespace ridgepoint {
namespace {

using testing::expect_product;
using testing::KernelRun;
using testing::LayoutChoice;
using testing::Operand;
using testing::product_at;
using testing::rounding_of;

class CpuMatmul : public ::testing::Test {
 protected:
  ~CpuMatmul() override { make_cpu_device(); }  // back to every core

  KernelRun multiply(Operand a, Operand b) {
    KernelRun run(*device_, Op::matmul, {std::move(a), std::move(b)});
    run.launch();
    return run;
  }
  Operand random(const Shape& shape, const LayoutChoice& choice = {}, DType dtype = DType::fp32) {
    return testing::random_operand(dtype, shape, random_, choice);
  }

  std::shared_ptr<Device> device_ = testing::cpu_with_threads(2);
  std::mt19937 random_{7};
};

TEST_F(CpuMatmul, agrees_with_double_loops_on_random_shapes_and_strides) {
  for (int i = 0; i < 120; ++i) {
    const auto [a, b] = testing::random_factors(random_, 24, 24, 50);
    const LayoutChoice a_layout = testing::random_layout(a, random_);
    const LayoutChoice b_layout = testing::random_layout(b, random_);
    for (const DType dtype : {DType::fp32, DType::bf16})
      expect_product(multiply(random(a, a_layout, dtype), random(b, b_layout, dtype)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(CpuMatmul, agrees_where_a_product_is_cut_into_tiles) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    device_ = testing::cpu_with_threads(threads);
    expect_product(multiply(random({201, 130}), random({130, 331}, {.storage_order = {1, 0}})));
    expect_product(multiply(random({520, 65}, {.storage_order = {1, 0}}), random({65, 33})));
    expect_product(multiply(random({3, 101, 77}), random({3, 77, 150})));
    if (HasFatalFailure()) return;
  }
}

TEST_F(CpuMatmul, takes_sizes_of_one_with_strides_that_mean_nothing) {
  const auto layout = [](bool swap) {
    return LayoutChoice{.storage_order = swap ? std::vector{1, 0} : std::vector{0, 1}, .padding = 2};
  };
  const auto operand = [&](const Shape& shape, bool swap, DType dtype) {
    Operand made = random(shape, layout(swap), dtype);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      if (made.layout.shape[static_cast<int>(axis)] == 1) made.layout.strides[axis] = 0;
    }
    return made;
  };
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Shape& a : {Shape{1, 9}, Shape{9, 1}, Shape{1, 1}}) {
      for (const std::int64_t n : {1, 17}) {
        for (const int swap : {0, 1, 2, 3}) {
          expect_product(multiply(operand(a, swap % 2 == 1, dtype), operand({a[1], n}, swap >= 2, dtype)));
        }
      }
    }
  }
}

TEST_F(CpuMatmul, reads_heads_in_place) {  // [B,S,H,D] storage as [B,H,S,D] and [B,H,D,S]
  const Operand q = random({2, 3, 10, 16}, {.storage_order = {0, 2, 1, 3}});
  const Operand k = random({2, 3, 16, 10}, {.storage_order = {0, 3, 1, 2}});
  KernelRun run = multiply(q, k);
  expect_product(run);
  EXPECT_EQ(run.kernel().workspace_bytes(), 0U);
}

TEST_F(CpuMatmul, a_broadcast_weight_makes_one_product_of_a_batch) {
  const Operand x = random({4, 6, 8});
  const Operand w = random({4, 8, 5}, {.storage_order = {0, 2, 1}, .broadcast = {0}});
  expect_product(multiply(x, w));
  const std::array inputs = {x.layout, w.layout};
  const std::array outputs = {dense_layout({DType::fp32, Shape{4, 6, 5}})};
  Graph graph;
  const Node node;
  const MatmulProblem problem = read_matmul_problem({graph, node, inputs, outputs});
  EXPECT_TRUE(problem.batch.empty());
  EXPECT_EQ(problem.c.rows, 24);
}

TEST_F(CpuMatmul, packs_what_no_blas_takes) {
  expect_product(multiply(random({7, 9}, {.broadcast = {0}}), random({9, 5}, {.flipped = {0}})));
  expect_product(multiply(random({2, 7, 9}, {.flipped = {0, 2}}), random({2, 9, 5}, {.broadcast = {0, 2}})));
  expect_product(multiply(testing::immediate_operand(DType::fp32, {3, 4}, 0.5), random({4, 6})));
  KernelRun run = multiply(random({7, 9}, {.flipped = {1}}), random({9, 5}));
  EXPECT_EQ(run.kernel().workspace_bytes(), 7 * 9 * sizeof(float));
}

TEST_F(CpuMatmul, multiplies_every_floating_dtype) {
  for (const DType dtype : {DType::fp64, DType::bf16, DType::fp16}) {
    expect_product(multiply(random({19, 33}, {}, dtype), random({33, 21}, {.storage_order = {1, 0}}, dtype)));
    expect_product(multiply(random({2, 1, 8, 16}, {.storage_order = {2, 0, 1, 3}}, dtype),
                            random({2, 1, 16, 24}, {.broadcast = {0}}, dtype)));
    expect_product(multiply(random({5, 4}, {.flipped = {0}}, dtype), testing::immediate_operand(dtype, {4, 3}, 2.0)));
    if (HasFatalFailure()) FAIL() << name(dtype);
  }
}

// A kernel's plan stays valid if the thread count changes between plan and run, in this thread or in another.
TEST_F(CpuMatmul, is_whole_whatever_number_of_threads_it_was_made_for) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const std::vector<Operand> operands = {random({2, 160, 100}, {}, dtype),
                                           random({2, 100, 150}, {.storage_order = {0, 2, 1}}, dtype)};
    KernelRun alone(*testing::cpu_with_threads(1), Op::matmul, operands);
    alone.launch();
    expect_product(alone);
    for (const int made_for : {4, 2, 1}) {
      for (const int runs_on : {1, 3, 4}) {
        KernelRun run(*testing::cpu_with_threads(made_for), Op::matmul, operands);
        testing::cpu_with_threads(runs_on);
        run.launch();
        for (std::int64_t i = 0; i < run.output.type.elements(); ++i) {
          // Both are within expect_product()'s bound of the exact result, for terms below 16.
          ASSERT_NEAR(run.at(i), alone.at(i), 4 * rounding_of(dtype) * std::fabs(alone.at(i)) + 4e-3)
              << name(dtype) << " made for " << made_for << ", run on " << runs_on;
        }
      }
    }
  }
}

// If oneDNN took its threads from OpenMP, it would have only this one here.
TEST_F(CpuMatmul, is_whole_within_a_loop) {
  device_ = testing::cpu_with_threads(4);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    KernelRun run(*device_, Op::matmul, {random({201, 130}, {}, dtype), random({130, 331}, {}, dtype)});
    parallel_for_workers(2, 2, [&](int worker, std::int64_t, std::int64_t) {
      if (worker == 1) run.launch();
    });
    expect_product(run);
    if (HasFatalFailure()) FAIL() << name(dtype);
  }
}

TEST_F(CpuMatmul, leaves_the_calling_programs_openmp_setting_alone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  device_ = testing::cpu_with_threads(2);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    expect_product(multiply(random({64, 96}, {}, dtype), random({96, 80}, {}, dtype)));
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(before);
}

TEST_F(CpuMatmul, a_sum_over_nothing_is_zero) {
  const KernelRun run = multiply(random({3, 0}), random({0, 4}));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(run.at(i), 0.0);
  EXPECT_EQ(multiply(random({0, 3}), random({3, 4})).output.data.size(), 0U);
  EXPECT_EQ(multiply(random({2, 3, 5}), random({2, 5, 0})).output.data.size(), 0U);
}

TEST_F(CpuMatmul, a_sum_over_nothing_and_an_addend_is_the_addend) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    const Operand addend = random({3, 4}, {}, accumulator(dtype));
    KernelRun run(*device_, Op::matmul_add, {random({3, 0}, {}, dtype), random({0, 4}, {}, dtype), addend});
    run.launch();
    for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(run.at(i), addend.at(std::array{i / 4, i % 4})) << name(dtype);
  }
}

TEST_F(CpuMatmul, adds_in_the_dtype_of_the_operands) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{24, 40, 16}, {65, 129, 257}, {7, 1, 3}}) {
      KernelRun run(*device_, Op::matmul_add,
                    {random({m, k}, {}, dtype), random({k, n}, {}, dtype), random({m, n}, {}, dtype)});
      run.launch();
      for (std::int64_t i = 0; i < m * n; ++i) {
        const std::vector<std::int64_t> index = {i / n, i % n};
        const testing::ExactProduct product = product_at(run.operand(0), run.operand(1), index);
        const double sum = product.value + run.operand(2).at(index);
        const double of_sums = static_cast<double>(k + 1) * 0x1p-24 * (product.magnitude + std::fabs(sum));
        ASSERT_NEAR(run.at(i), sum, of_sums + rounding_of(dtype) * std::fabs(sum)) << name(dtype) << ' ' << i;
      }
    }
  }
}

TEST_F(CpuMatmul, repeats_bit_for_bit) {
  const Operand a = random({300, 257});
  const Operand b = random({257, 290}, {.storage_order = {1, 0}});
  for (const int threads : {1, 2, 3}) {
    device_ = testing::cpu_with_threads(threads);
    const std::vector<std::byte> first = multiply(a, b).output.data;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(multiply(a, b).output.data, first) << threads << " threads";
  }
}

TEST_F(CpuMatmul, carries_nan_and_infinity) {
  Operand a = random({4, 6});
  store_element(DType::fp32, a.storage.data() + 2 * 6 * sizeof(float), NAN);
  store_element(DType::fp32, a.storage.data() + 3 * 6 * sizeof(float), INFINITY);
  const KernelRun run = multiply(a, testing::immediate_operand(DType::fp32, {6, 2}, 1.0));
  EXPECT_TRUE(std::isfinite(run.at(0)));
  EXPECT_TRUE(std::isnan(run.at(4)));
  EXPECT_TRUE(std::isinf(run.at(6)));
}

TEST_F(CpuMatmul, the_null_device_asks_for_the_same_workspace) {
  const std::shared_ptr<Device> null = make_null_device(device_);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const std::vector<Operand> operands = {random({64, 96}, {.flipped = {0}}, dtype), random({96, 80}, {}, dtype)};
    KernelRun real(*device_, Op::matmul, operands);
    KernelRun imagined(*null, Op::matmul, operands);
    EXPECT_EQ(real.kernel().workspace_bytes(), imagined.kernel().workspace_bytes());
    EXPECT_EQ(real.kernel().name(), imagined.kernel().name());
  }
}

}  // namespace
}  // namespace ridgepoint
