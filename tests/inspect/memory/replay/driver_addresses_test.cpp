// The order of addresses that NVIDIA's driver was seen to give.
#include "inspect/memory/replay/driver_addresses.h"

#include <gtest/gtest.h>

namespace ridgepoint {
namespace {

struct DriverAddressesTest : ::testing::Test {
  static constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  static std::uint64_t take(DriverAddresses& driver, std::uint64_t mib) {
    return reinterpret_cast<std::uintptr_t>(driver.allocate_memory(mib * kMiB));
  }
  static void give(DriverAddresses& driver, std::uint64_t address, std::uint64_t mib) {
    driver.release_memory(reinterpret_cast<void*>(address), mib * kMiB);
  }
};

TEST_F(DriverAddressesTest, fill_chunks_of_32_mib_and_put_new_ones_below) {
  const std::vector<RecordedSegment> nothing;
  DriverAddresses driver(nothing, {});
  const std::uint64_t first = take(driver, 34);
  EXPECT_EQ(take(driver, 2), first + 34 * kMiB);
  EXPECT_EQ(take(driver, 24), first + 36 * kMiB);
  const std::uint64_t second = take(driver, 24);
  EXPECT_EQ(second, first - 32 * kMiB);
  EXPECT_EQ(take(driver, 4), second + 24 * kMiB) << "the lowest place, not the first chunk's";
}

TEST_F(DriverAddressesTest, that_are_given_back_are_taken_again_from_the_highest_on) {
  const std::vector<RecordedSegment> nothing;
  DriverAddresses driver(nothing, {});
  const std::uint64_t first = take(driver, 64), second = take(driver, 64), third = take(driver, 20);
  EXPECT_EQ(third, second - 32 * kMiB);
  give(driver, second, 64);
  EXPECT_EQ(take(driver, 20), first - 32 * kMiB) << "in the place of the second chunk, from above";
  EXPECT_EQ(take(driver, 96), third - 96 * kMiB) << "which has no room for this";
  EXPECT_EQ(take(driver, 12), third + 20 * kMiB);
}

TEST_F(DriverAddressesTest, are_the_recorded_ones_until_another_size_is_asked_for) {
  const std::vector<RecordedSegment> recorded = {
      {0x7000'0000'0000, 20 * kMiB}, {0x7000'0200'0000, 2 * kMiB}, {0x6fff'0000'0000, 20 * kMiB}};
  DriverAddresses same(recorded, {});
  const std::uint64_t first = take(same, 20);
  EXPECT_EQ(take(same, 2), first + 32 * kMiB);
  EXPECT_EQ(take(same, 20), first - 4096 * kMiB);
  DriverAddresses other(recorded, {});
  ASSERT_EQ(take(other, 20), first);
  EXPECT_EQ(take(other, 4), first + 20 * kMiB);
  EXPECT_EQ(take(other, 20), first + 24 * kMiB);
  EXPECT_EQ(take(other, 20), first + 44 * kMiB) << "the recorded run shows that there was room";
  EXPECT_EQ(take(other, 20), first - 32 * kMiB);
}

}  // namespace
}  // namespace ridgepoint
