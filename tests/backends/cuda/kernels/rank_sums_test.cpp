// Sums over ranks of parts that lie one behind another, but the own part, against sums on the host.
#include "backends/cuda/kernels/rank_sums/rank_sums.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "backends/cuda/card.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {
namespace {

class OnCardRankSums : public testing::OnCard, public ::testing::WithParamInterface<DType> {};

double part_element(std::int64_t tensor, std::int64_t rank, std::int64_t element) {
  return static_cast<double>((7 * element + 3 * rank + tensor) % 17 - 8) / 4;
}

// Rank 1 of three, whose place among the parts has zeros; the tensors have 1, 513 and 100,001 vectors, so that some
// threads have none and some have many.
TEST_P(OnCardRankSums, are_the_sums_of_all_parts) {
  constexpr int kRanks = 3, kRank = 1;
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(GetParam()));
  cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  cuda::RankSums sums;
  sums.ranks = kRanks;
  sums.rank = kRank;
  std::vector<std::size_t> bytes;
  std::vector<void*> parts;
  for (const std::int64_t vectors : {1, 513, 100'001}) {
    const std::int64_t elements = vectors * 16 / element_bytes;
    std::vector<std::byte> all(static_cast<std::size_t>(vectors) * 16 * kRanks);
    for (std::int64_t i = 0; i < elements * kRanks; ++i)
      store_element(GetParam(), all.data() + i * element_bytes, part_element(sums.count, i / elements, i % elements));
    parts.push_back(device_->allocate_memory(all.size()));
    bytes.push_back(all.size() / kRanks);
    // The sum lies where the own part was.
    void* const own_part = device_->allocate_memory(bytes.back());
    std::byte* const place_of_own = all.data() + kRank * bytes.back();
    device_->copy_to_device(own_part, place_of_own, bytes.back());
    std::memset(place_of_own, 0, bytes.back());
    device_->copy_to_device(parts.back(), all.data(), all.size());
    sums.sums[sums.count++] = {parts.back(), own_part, own_part, vectors};
  }
  cuda::launch_rank_sums(context, context.stream(), GetParam(), sums);
  for (int tensor = 0; tensor < sums.count; ++tensor) {
    std::vector<std::byte> sum(bytes[static_cast<std::size_t>(tensor)]);
    device_->copy_to_host(sum.data(), sums.sums[tensor].sum, sum.size());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < std::ssize(sum) / element_bytes; ++i) {
      double expected = 0;
      for (std::int64_t rank = 0; rank < kRanks; ++rank) expected += part_element(tensor, rank, i);
      wrong += load_element(GetParam(), sum.data() + i * element_bytes) == expected ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << tensor;
    device_->release_memory(parts[static_cast<std::size_t>(tensor)], sum.size() * kRanks);
    device_->release_memory(sums.sums[tensor].sum, sum.size());
  }
}

using OnCardOwnParts = testing::OnCard;

TEST_F(OnCardOwnParts, are_copied_bit_by_bit) {
  cuda::CudaContext& context = cuda::CudaContext::of_card(0);
  cuda::RankSums copies;
  std::vector<std::vector<std::byte>> parts;
  for (const std::size_t vectors : {1, 513, 100'001}) {
    std::vector<std::byte>& part = parts.emplace_back(vectors * 16);
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<std::byte>(i * 31 + vectors);
    void* const from = device_->allocate_memory(part.size());
    device_->copy_to_device(from, part.data(), part.size());
    copies.sums[copies.count++] = {
        .own_part = from, .sum = device_->allocate_memory(part.size()), .vectors = static_cast<std::int64_t>(vectors)};
  }
  cuda::launch_copies_of_own_parts(context, context.stream(), copies);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::byte> copy(parts[i].size());
    device_->copy_to_host(copy.data(), copies.sums[i].sum, copy.size());
    EXPECT_EQ(copy, parts[i]);
    device_->release_memory(const_cast<void*>(copies.sums[i].own_part), copy.size());
    device_->release_memory(copies.sums[i].sum, copy.size());
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, OnCardRankSums, ::testing::Values(DType::fp32, DType::bf16, DType::fp16),
                         [](const auto& tested) { return std::string(name(tested.param)); });

}  // namespace
}  // namespace ridgepoint
