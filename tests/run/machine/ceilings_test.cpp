// Measured ceilings: that they are measured, by the real kernels, and where they cannot be.
#include "run/machine/ceilings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::shared_ptr<Device> cpu_with_memory(std::size_t bytes) {
  DeviceOptions options;
  options.memory_limit_bytes = bytes;
  return open_device("cpu", options);
}

TEST(Ceilings, copy_bandwidth_lies_between_a_memory_card_and_a_wish) {
  const std::optional<CopyCeiling> copy = measure_copy(*open_device("cpu"));
  ASSERT_TRUE(copy.has_value());
  EXPECT_GT(copy->bytes_per_second, 1e7);
  EXPECT_LT(copy->bytes_per_second, 1e13);
}

TEST(Ceilings, a_matmul_rate_comes_with_its_precision_and_size) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const std::optional<MatmulCeiling> matmul = measure_matmul(*open_device("cpu"), precision);
    ASSERT_TRUE(matmul.has_value());
    EXPECT_EQ(matmul->precision, precision);
    EXPECT_GE(matmul->size, 256);
    EXPECT_GT(matmul->flops_per_second, 1e7);
    EXPECT_LT(matmul->flops_per_second, 1e15);
  }
}

TEST(Ceilings, a_device_that_computes_nothing_has_none) {
  const Ceilings ceilings = measure_ceilings(*open_device("null"));
  EXPECT_FALSE(ceilings.copy.has_value());
  EXPECT_TRUE(ceilings.matmul.empty());
}

TEST(Ceilings, a_small_device_is_measured_at_small_sizes) {
  const std::shared_ptr<Device> small = cpu_with_memory(24 * kMiB);
  const std::optional<CopyCeiling> copy = measure_copy(*small);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->buffer_bytes, static_cast<std::int64_t>(8 * kMiB));
  const std::optional<MatmulCeiling> matmul = measure_matmul(*small, Precision::fp32);
  ASSERT_TRUE(matmul.has_value());
  EXPECT_LE(matmul->size, 1024);
}

TEST(Ceilings, a_device_too_small_for_any_has_none_and_keeps_its_memory) {
  const std::shared_ptr<Device> tiny = cpu_with_memory(kMiB / 2);
  EXPECT_FALSE(measure_copy(*tiny).has_value());
  EXPECT_FALSE(measure_matmul(*tiny, Precision::fp32).has_value());
  void* all = tiny->allocate_memory(kMiB / 2);
  EXPECT_NE(all, nullptr);
  tiny->release_memory(all, kMiB / 2);
}

}  // namespace
}  // namespace ridgepoint
