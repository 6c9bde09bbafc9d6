// Embedding and its gradient on the CPU.

#include <cstring>
#include <random>

#include "backends/cpu/device.h"
#include "backends/cpu/kernel_harness.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::KernelRun;
using testing::Operand;

class CpuEmbedding : public ::testing::Test {
 protected:
  ~CpuEmbedding() override { make_cpu_device(); }  // back to every core

  std::vector<std::int64_t> random_indices(std::int64_t count, std::int64_t rows) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    for (std::int64_t& index : indices) index = std::uniform_int_distribution<std::int64_t>(0, rows - 1)(random_);
    return indices;
  }

  KernelRun backward(const Operand& gradient, const Operand& indices, std::int64_t rows) {
    KernelRun run(*device_, Op::embedding_backward, {gradient, indices}, {{"rows", rows}});
    run.launch();
    return run;
  }

  std::shared_ptr<Device> device_ = testing::cpu_with_threads(2);
  std::mt19937 random_{11};
};

TEST_F(CpuEmbedding, gathers_the_bits_of_each_row) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {1, 7, 300}) {
      const Operand table = testing::random_operand(dtype, {13, width}, random_);
      const std::vector<std::int64_t> indices = random_indices(30, 13);
      KernelRun run(*device_, Op::embedding, {table, testing::index_operand({5, 6}, indices)});
      run.launch();
      const std::size_t row_bytes = static_cast<std::size_t>(width) * size_bytes(dtype);
      ASSERT_EQ(run.output.data.size(), 30 * row_bytes);
      for (std::size_t i = 0; i < indices.size(); ++i) {
        const std::byte* row = table.storage.data() + static_cast<std::size_t>(indices[i]) * row_bytes;
        EXPECT_EQ(std::memcmp(run.output.data.data() + i * row_bytes, row, row_bytes), 0) << "row " << i;
      }
    }
  }
}

TEST_F(CpuEmbedding, gathers_nothing_from_no_indices) {
  KernelRun run(*device_, Op::embedding,
                {testing::random_operand(DType::fp32, {3, 4}, random_), testing::index_operand({0}, {})});
  EXPECT_NO_THROW(run.launch());
}

TEST_F(CpuEmbedding, refuses_an_index_outside_the_table) {
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, INT64_MIN, INT64_MAX}) {
    const std::vector<std::int64_t> indices = {0, bad, 1};
    const Operand positions = testing::index_operand({3}, indices);
    const Operand rows = testing::random_operand(DType::fp32, {3, 4}, random_);
    KernelRun forward(*device_, Op::embedding, {rows, positions});
    KernelRun summing(*device_, Op::embedding_backward, {rows, positions}, {{"rows", std::int64_t{3}}});
    for (KernelRun* run : {&forward, &summing}) {
      EXPECT_THAT(error_of([&] { run->launch(); }), HasSubstr(std::to_string(bad) + " at position 1"));
    }
  }
}

TEST_F(CpuEmbedding, sums_gradient_rows_by_index) {
  constexpr std::int64_t kRows = 17;
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {1, 5, 260}) {
      const Operand gradient = testing::random_operand(dtype, {4, 25, width}, random_);
      const std::vector<std::int64_t> indices = random_indices(100, kRows - 2);  // no index for the last two rows
      const KernelRun run = backward(gradient, testing::index_operand({4, 25}, indices), kRows);
      std::vector<double> sums(static_cast<std::size_t>(kRows * width));
      for (std::int64_t i = 0; i < 100 * width; ++i) {
        const std::int64_t row = indices[static_cast<std::size_t>(i / width)];
        sums[static_cast<std::size_t>(row * width + i % width)] +=
            gradient.at(testing::unravel(gradient.layout.shape, i));
      }
      const double tolerance = is_low(dtype) ? 0.1 : 1e-5;
      for (std::int64_t i = 0; i < kRows * width; ++i) {
        ASSERT_NEAR(run.at(i), sums[static_cast<std::size_t>(i)], tolerance) << name(dtype) << " element " << i;
      }
    }
  }
}

TEST_F(CpuEmbedding, sums_in_order_of_position_whatever_the_thread_count) {
  const Operand gradient = testing::random_operand(DType::fp32, {500, 129}, random_);
  const Operand indices = testing::index_operand({500}, random_indices(500, 40));
  std::vector<float> in_order(40 * 129);
  for (std::int64_t i = 0; i < 500 * 129; ++i) {
    const auto row = static_cast<std::int64_t>(indices.at(std::array{i / 129}));
    in_order[static_cast<std::size_t>(row * 129 + i % 129)] +=
        static_cast<float>(gradient.at(std::array{i / 129, i % 129}));
  }
  for (const int threads : {1, 2, 3, 5}) {
    device_ = testing::cpu_with_threads(threads);
    const KernelRun run = backward(gradient, indices, 40);
    EXPECT_TRUE(std::ranges::equal(run.output.as<float>(), in_order)) << threads << " threads";
  }
}

}  // namespace
}  // namespace ridgepoint
