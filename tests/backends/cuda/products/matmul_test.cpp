// The GPU's matmul against loops in double.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "backends/cpu/exact_product.h"
#include "backends/cuda/card.h"
#include "backends/cuda/card_harness.h"
#include "backends/cuda/node_run.h"

namespace ridgepoint {
namespace {

using testing::CardRun;
using testing::expect_product;
using testing::LayoutChoice;
using testing::Operand;
using testing::rounding_of;

class OnCardMatmul : public testing::OnCard {
 protected:
  CardRun multiply(Operand a, Operand b) { return {*device_, Op::matmul, {std::move(a), std::move(b)}}; }
  Operand random(const Shape& shape, const LayoutChoice& choice = {}, DType dtype = DType::fp32) {
    return testing::random_operand(dtype, shape, random_, choice);
  }

  std::mt19937 random_{7};
};

TEST_F(OnCardMatmul, agrees_with_double_loops_on_awkward_sizes) {
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {1, 17, 33}, {33, 17, 1}, {7, 3, 5}, {1, 768, 1}, {65, 129, 257}, {128, 64, 96}, {31, 1000, 2}}) {
    expect_product(multiply(random({m, k}), random({k, n})));
    expect_product(multiply(random({m, k}, {.storage_order = {1, 0}}), random({k, n})));
    expect_product(multiply(random({m, k}), random({k, n}, {.storage_order = {1, 0}})));
    expect_product(multiply(random({m, k}, {.padding = 3}), random({k, n}, {.storage_order = {1, 0}, .padding = 5})));
    if (HasFatalFailure()) return;
  }
}

TEST_F(OnCardMatmul, multiplies_batches_dense_broadcast_and_as_heads_of_a_projection) {
  expect_product(multiply(random({2, 3, 10, 16}), random({2, 3, 16, 9})));
  expect_product(multiply(random({2, 3, 10, 16}, {.storage_order = {0, 2, 1, 3}}),
                          random({2, 3, 16, 10}, {.storage_order = {0, 3, 1, 2}})));
  expect_product(multiply(random({4, 6, 8}), random({4, 8, 5}, {.broadcast = {0}})));
  expect_product(multiply(random({3, 4, 5}, {.broadcast = {0}}), random({3, 5, 2})));
  expect_product(multiply(random({2, 2, 3, 5, 7}, {.broadcast = {1}}), random({2, 2, 3, 7, 3})));
}

TEST_F(OnCardMatmul, multiplies_every_floating_dtype) {
  for (const DType dtype : {DType::fp64, DType::bf16, DType::fp16}) {
    expect_product(multiply(random({19, 33}, {}, dtype), random({33, 21}, {.storage_order = {1, 0}}, dtype)));
    expect_product(multiply(random({2, 8, 16}, {}, dtype), random({2, 16, 24}, {}, dtype)));
    expect_product(multiply(random({128, 512}, {}, dtype), random({512, 64}, {}, dtype)));
    if (HasFatalFailure()) FAIL() << name(dtype);
  }
}

// As the logits of an odd vocabulary lie, by the library and by our kernels.
TEST_F(OnCardMatmul, writes_rows_that_are_padded) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t inner : {0, 64, 520}) {
      const std::vector<Operand> operands = {random({136, inner}, {}, dtype),
                                             random({inner, 1027}, {.storage_order = {1, 0}}, dtype)};
      testing::NodeRun run(*device_, Op::matmul, operands, {}, false, {{.padding = 61}});
      run.let_padding_be_written();
      const HostTensor found = run.launch()[0];
      const HostTensor expected = testing::reference_outputs(Op::matmul, operands, {})[0];
      EXPECT_LE(testing::relative_error(found, expected), inner == 0 ? 0 : 32 * rounding_of(dtype))
          << run.kernel().name() << ' ' << inner;
    }
  }
}

TEST_F(OnCardMatmul, a_sum_over_nothing_is_zero) {
  const CardRun run = multiply(random({3, 0}), random({0, 4}));
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(run.at(i), 0.0);
  EXPECT_EQ(multiply(random({0, 3}), random({3, 4})).output.data.size(), 0U);
}

TEST_F(OnCardMatmul, repeats_bit_for_bit) {
  const Operand a = random({300, 1257});
  const Operand b = random({1257, 290}, {.storage_order = {1, 0}});
  const std::vector<std::byte> first = multiply(a, b).output.data;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(multiply(a, b).output.data, first);
}

TEST_F(OnCardMatmul, carries_nan_and_infinity) {
  Operand a = random({4, 6});
  store_element(DType::fp32, a.storage.data() + 2 * 6 * sizeof(float), NAN);
  store_element(DType::fp32, a.storage.data() + 3 * 6 * sizeof(float), INFINITY);
  Operand ones = random({6, 2});
  for (std::size_t i = 0; i < 12; ++i) store_element(DType::fp32, ones.storage.data() + i * sizeof(float), 1.0);
  const CardRun run = multiply(a, ones);
  EXPECT_TRUE(std::isfinite(run.at(0)));
  EXPECT_TRUE(std::isnan(run.at(4)));
  EXPECT_TRUE(std::isinf(run.at(6)));
}

TEST_F(OnCardMatmul, refuses_an_operand_that_begins_between_boundaries) {
  const Operand a = random({4, 4});
  CardRun run = multiply(a, a);
  const testing::DeviceCopy memory(*device_, std::vector<std::byte>(1024));
  std::array<void*, 2> inputs = {memory.address() + 4, memory.address()};
  void* output = memory.address() + 512;
  EXPECT_THROW(run.kernel().launch({inputs.data(), &output, nullptr}), Error);
}

}  // namespace
}  // namespace ridgepoint
