#include "interchange/tokens/token_file.h"

#include <vector>

#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Ids = std::vector<std::uint32_t>;

class TokenFileTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    write_file(folder_ / "t.bin", bytes);
    return folder_ / "t.bin";
  }
  // llm.c's header.
  static std::string header(std::uint32_t version, std::uint32_t count) {
    Ids integers(256);
    integers[0] = 20240520;
    integers[1] = version;
    integers[2] = count;
    return token_bytes_of(integers, 4);
  }
  void expect_refused(const std::string& bytes, const char* message) const {
    const auto open = [&] { TokenFile(write(bytes), TokenBits::usual, 50257); };
    EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr(message)));
  }

  TemporaryFolder folder_;
};

Ids all_of(const TokenFile& file) {
  Ids ids(file.size());
  file.read(0, ids);
  return ids;
}

TEST_F(TokenFileTest, bits_follow_the_vocabulary_unless_told) {
  EXPECT_EQ(token_bytes(TokenBits::usual, 65536), 2U);
  EXPECT_EQ(token_bytes(TokenBits::usual, 65537), 4U);
  EXPECT_EQ(token_bytes(TokenBits::b32, 256), 4U);
  EXPECT_THAT(error_of([] { token_bytes(TokenBits::b16, 65537); }),
              "--bits: 16 bits hold 65536 ids, and the vocabulary has 65537; choose 32");
}

TEST_F(TokenFileTest, ids_come_back_in_16_and_32_bits) {
  const Ids ids = {0, 1, 50256, 258};
  EXPECT_EQ(token_bytes_of(Ids{258}, 2), std::string("\x02\x01"));
  EXPECT_EQ(all_of(TokenFile(write(token_bytes_of(ids, 2)), TokenBits::usual, 50257)), ids);
  const Ids large = {100000, 3};
  const TokenFile file(write(token_bytes_of(large, 4)), TokenBits::usual, 100277);
  EXPECT_EQ(all_of(file), large);
  Ids one(1);
  file.read(1, one);
  EXPECT_THAT(one, ElementsAre(3));
  EXPECT_THAT(error_of([&] { file.read(2, one); }), HasSubstr("has 2 tokens; 1 from position 2 on are not"));
}

TEST_F(TokenFileTest, a_header_of_llm_c_says_the_bits_and_the_count) {
  const Ids ids = {7, 8, 9};
  EXPECT_EQ(all_of(TokenFile(write(header(1, 3) + token_bytes_of(ids, 2)), TokenBits::b32, 50257)), ids);
  EXPECT_EQ(all_of(TokenFile(write(header(7, 3) + token_bytes_of(ids, 4)), TokenBits::usual, 50257)), ids);
  expect_refused(header(1, 4) + token_bytes_of(ids, 2), "its header says 4 tokens, and 6 bytes follow");
  expect_refused(header(9, 1) + token_bytes_of(ids, 2), "its header has version 9, which this program does not read");
}

TEST_F(TokenFileTest, tokens_beyond_the_vocabulary_are_named_with_their_position) {
  const TokenFile file(write(token_bytes_of(Ids{1, 2, 300}, 2)), TokenBits::usual, 256);
  EXPECT_THAT(error_of([&] { all_of(file); }),
              HasSubstr("has token 300 at position 2; the vocabulary has 256, so the file is "
                        "read as integers of 16 bits"));
}

TEST_F(TokenFileTest, of_16_bits_beside_a_larger_vocabulary_is_said_to_be_read_as_32) {
  const TokenFile file(write(token_bytes_of(Ids{1, 2, 3, 4}, 2)), TokenBits::usual, 128256);
  EXPECT_THAT(error_of([&] { all_of(file); }), HasSubstr("read as integers of 32 bits"));
}

TEST_F(TokenFileTest, files_without_whole_tokens_are_refused) {
  expect_refused("", "it has no token");
  expect_refused("abc", "its 3 bytes are not whole tokens of 2");
}

}  // namespace
}  // namespace ridgepoint
