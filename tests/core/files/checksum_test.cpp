#include "core/files/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace ridgepoint {
namespace {

std::uint64_t checksum(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

// Values of the reference implementation.
TEST(Checksum, is_xxh64) {
  EXPECT_EQ(checksum(""), 0xef46db3751d8e999u);
  EXPECT_EQ(checksum("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(checksum("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(checksum("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1u);
}

TEST(Checksum, does_not_depend_on_the_pieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  for (const std::size_t piece : {1, 3, 31, 32, 33, 999}) {
    Checksum sum;
    for (std::size_t i = 0; i < text.size(); i += piece) sum.add(std::string_view(text).substr(i, piece));
    EXPECT_EQ(sum.value(), checksum(text)) << piece;
    EXPECT_EQ(sum.size_bytes(), text.size());
  }
}

}  // namespace
}  // namespace ridgepoint
