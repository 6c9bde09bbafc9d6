// Random values made on the GPU.
#include <gtest/gtest.h>

#include "backends/cuda/card.h"
#include "core/random/random_values.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {
namespace {

class OnCardRandom : public testing::OnCard {};

TEST_F(OnCardRandom, values_have_the_bits_of_the_host_s) {
  constexpr std::int64_t kCount = 20'000'001;  // more than one element for a thread
  const std::uint64_t stream = random_stream("w", 1);
  for (const TruncatedNormal& distribution :
       {TruncatedNormal{.deviation = 0.02}, TruncatedNormal{.mean = 1.5, .deviation = 3}, TruncatedNormal{.mean = 1}}) {
    HostTensor expected({DType::fp32, {kCount}});
    fill_random(expected.as<float>(), distribution, stream);
    for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::low_half}) {
      HostTensor values({dtype, {kCount}});
      HostTensor stored(values.type);
      convert_to_stored(expected, stored);
      const std::size_t bytes = values.data.size();
      void* address = device_->allocate_memory(bytes);
      device_->fill_random(address, dtype, kCount, distribution, stream, {});
      device_->copy_to_host(values.data.data(), address, bytes);
      device_->release_memory(address, bytes);
      EXPECT_TRUE(values.data == stored.data) << name(dtype) << ' ' << distribution.mean;
    }
  }
}

TEST_F(OnCardRandom, values_of_nothing_are_no_launch) {
  EXPECT_NO_THROW(device_->fill_random(nullptr, DType::fp32, 0, {.deviation = 1}, 1, {}));
}

}  // namespace
}  // namespace ridgepoint
