// The mapping of a matmul to cuBLASLt, checked by computing the product as cuBLASLt would: column-major, transposed if
// the mapping says so.
#include "backends/cuda/products/operands/mapping.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "backends/cpu/exact_product.h"
#include "backends/cuda/products/choice/search.h"
#include "backends/cuda/products/product_problems.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

using cuda::LtMatrix;
using cuda::LtProblem;
using testing::LayoutChoice;
using testing::Operand;
using testing::problem_of;

// Element (row, column) of the matrix as the product uses it.
std::int64_t offset_of(const LtMatrix& matrix, std::int64_t row, std::int64_t column) {
  return matrix.transposed ? row * matrix.leading + column : column * matrix.leading + row;
}

// cuBLASLt's contract in plain loops.
void multiply(const LtProblem& problem, const float* a, const float* b, float* c) {
  for (const LtProblem::Launch& at : problem.launches) {
    for (std::int64_t i = 0; i < problem.batch; ++i) {
      const float* a_i = a + at.a + i * problem.a.batch_stride;
      const float* b_i = b + at.b + i * problem.b.batch_stride;
      float* c_i = c + at.c + i * problem.c.batch_stride;
      for (std::int64_t m = 0; m < problem.m; ++m) {
        for (std::int64_t n = 0; n < problem.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < problem.k; ++k) {
            sum += static_cast<double>(a_i[offset_of(problem.a, m, k)]) * b_i[offset_of(problem.b, k, n)];
          }
          c_i[offset_of(problem.c, m, n)] = static_cast<float>(sum);
        }
      }
    }
  }
}

void expect_product(Operand a, Operand b) {
  const MatmulProblem problem = problem_of(a.layout, b.layout);
  const LtProblem mapped = cuda::map_matmul(problem);
  std::vector<Dim> dims(a.layout.shape.dims().begin(), a.layout.shape.dims().end());
  dims.back() = b.layout.shape.dim(-1);
  const Shape shape(dims);
  std::vector<float> c(static_cast<std::size_t>(shape.elements()), NAN);
  multiply(mapped, static_cast<const float*>(b.address()), static_cast<const float*>(a.address()), c.data());
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const double expected = testing::product_at(a, b, testing::unravel(shape, i)).value;
    ASSERT_NEAR(c[static_cast<std::size_t>(i)], expected, 1e-5) << mapped.key() << ", element " << i;
  }
  for (const auto& [matrix, name] : {std::pair{mapped.a, "a"}, std::pair{mapped.b, "b"}, std::pair{mapped.c, "c"}}) {
    ASSERT_GE(matrix.leading, std::max<std::int64_t>(matrix.rows, 1)) << name << " of " << mapped.key();
  }
}

class CudaMatmulMapping : public ::testing::Test {
 protected:
  Operand random(const Shape& shape, const LayoutChoice& choice = {}) {
    return testing::random_operand(DType::fp32, shape, random_, choice);
  }

  std::mt19937 random_{11};
};

TEST_F(CudaMatmulMapping, computes_the_node_for_random_shapes_and_strides) {
  for (int i = 0; i < 400; ++i) {
    const auto [a, b] = testing::random_factors(random_, 8, 9, 8);
    const Operand left = random(a, testing::random_layout(a, random_));
    expect_product(left, random(b, testing::random_layout(b, random_)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaMatmulMapping, a_linear_layer_is_one_launch_on_a_transposed_weight) {  // x [T,in], weight [out,in]
  const Operand x = random({6, 8});
  const Operand weight = random({8, 5}, {.storage_order = {1, 0}});
  const LtProblem mapped = cuda::map_matmul(problem_of(x.layout, weight.layout));
  EXPECT_EQ(mapped.launches.size(), 1U);
  EXPECT_TRUE(mapped.a.transposed);
  EXPECT_FALSE(mapped.b.transposed);
  EXPECT_EQ((std::array{mapped.m, mapped.n, mapped.k}), (std::array<std::int64_t, 3>{5, 6, 8}));
}

TEST_F(CudaMatmulMapping, dense_heads_are_one_launch_and_heads_of_a_projection_one_for_each_sequence) {
  const Operand dense = random({2, 3, 4, 8});
  const Operand view = random({2, 3, 8, 4}, {.storage_order = {0, 3, 1, 2}});
  EXPECT_EQ(cuda::map_matmul(problem_of(dense.layout, random({2, 3, 8, 4}).layout)).launches.size(), 1U);
  const LtProblem mapped = cuda::map_matmul(problem_of(dense.layout, view.layout));
  EXPECT_EQ(mapped.launches.size(), 2U);
  EXPECT_EQ(mapped.batch, 3);
}

TEST_F(CudaMatmulMapping, launches_that_begin_inside_an_operand_promise_less_alignment) {
  const Operand view = random({2, 3, 5, 7}, {.storage_order = {0, 2, 1, 3}});
  const LtProblem mapped = cuda::map_matmul(problem_of(view.layout, random({2, 3, 7, 5}).layout));
  EXPECT_EQ(mapped.launches.size(), 2U);
  EXPECT_EQ(mapped.alignment_bytes, 4);  // 105 floats between matrices
  EXPECT_EQ(cuda::map_matmul(problem_of(random({5, 7}).layout, random({7, 5}).layout)).alignment_bytes, 256);
}

TEST_F(CudaMatmulMapping, refuses_what_no_blas_takes) {
  const Operand flipped = random({4, 6}, {.flipped = {1}});
  EXPECT_THROW(cuda::map_matmul(problem_of(flipped.layout, random({6, 3}).layout)), Error);
}

TEST_F(CudaMatmulMapping, the_workspace_follows_from_the_shape_alone) {
  const auto bytes = [&](std::int64_t m, std::int64_t k, std::int64_t n) {
    TensorLayout a = dense_layout({DType::fp32, Shape{m, k}});
    TensorLayout b = dense_layout({DType::fp32, Shape{k, n}});
    return cuda::map_matmul(problem_of(a, b)).workspace_bytes();
  };
  EXPECT_EQ(bytes(4096, 64, 4096), 0U);  // k is too short to split
  EXPECT_EQ(bytes(32, 768, 768), 16U * 4 * 32 * 768);
  EXPECT_EQ(bytes(8192, 8192, 8192), cuda::kMaxWorkspaceBytes);
}

TEST(CudaMatmulAlgorithm, reads_back_what_it_wrote_and_nothing_else) {
  cuda::cublasLtMatmulAlgo_t algorithm{};
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) algorithm.data[i] = 0x0123456789abcdefULL * (i + 1);
  const std::string text = cuda::algorithm_to_text(algorithm);
  const std::optional<cuda::MatmulAlgorithm> back = cuda::algorithm_from_text(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_THAT(std::get<cuda::cublasLtMatmulAlgo_t>(*back).data, ::testing::ElementsAreArray(algorithm.data));
  const cuda::SplitTiling tiling{128, 64, 132};
  EXPECT_EQ(std::get<cuda::SplitTiling>(*cuda::algorithm_from_text(cuda::algorithm_to_text(tiling))), tiling);
  const cuda::LowTiling low{128, 256, 2, 1, false, 132, true};
  EXPECT_EQ(std::get<cuda::LowTiling>(*cuda::algorithm_from_text(cuda::algorithm_to_text(low))), low);
  std::string damaged = text;
  damaged[20] = 'x';
  for (const std::string& wrong : {std::string(), text.substr(1), text + "0", damaged}) {
    EXPECT_FALSE(cuda::algorithm_from_text(wrong).has_value()) << wrong;
  }
}

// Twelve launches of eight products each, with the last one at the same offset: in one problem the twelve are 4 x 3, in
// the other 2 x 2 x 3, which is one batch dimension too many for our own kernel.
TEST(MatmulMapping, products_of_different_batch_dimensions_have_different_keys) {
  const MatmulProblem three = testing::product_of_three_batch_dimensions().problem();
  const MatmulProblem four = testing::product_of_four_batch_dimensions().problem();
  EXPECT_TRUE(cuda::SplitMatmulPlan::of(three).has_value());
  EXPECT_FALSE(cuda::SplitMatmulPlan::of(four).has_value());
  const LtProblem one = cuda::map_matmul(three);
  const LtProblem other = cuda::map_matmul(four);
  EXPECT_EQ(one.launches.size(), other.launches.size());
  EXPECT_EQ(one.launches.back().a, other.launches.back().a);
  EXPECT_EQ(one.launches.back().b, other.launches.back().b);
  EXPECT_EQ(one.launches.back().c, other.launches.back().c);
  EXPECT_EQ(one.alignment_bytes, other.alignment_bytes);
  EXPECT_NE(one.key(), other.key());
}

TEST(MatmulMapping, a_tf32_product_has_a_key_of_its_own) {
  const TensorLayout layout = dense_layout({DType::fp32, {8, 8}});
  MatmulProblem problem = problem_of(layout, layout);
  const std::string full = cuda::map_matmul(problem).key();
  problem.tf32 = true;
  const std::string tf32 = cuda::map_matmul(problem).key();
  EXPECT_THAT(tf32, ::testing::StartsWith("tf32 "));
  EXPECT_EQ(tf32.substr(4), full.substr(4));
}

TEST(MatmulMapping, a_product_that_is_added_has_a_key_of_its_own) {
  const TensorLayout layout = dense_layout({DType::fp32, {8, 8}});
  MatmulProblem problem = problem_of(layout, layout);
  const std::string alone = cuda::map_matmul(problem).key();
  problem.adds = true;
  EXPECT_NE(cuda::map_matmul(problem).key(), alone);
}

}  // namespace
}  // namespace ridgepoint
