// SentencePiece's .model, written here byte by byte.

#include <cstring>

#include "interchange/tokenizer/encode.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::tokenizer {
namespace {

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(std::uint64_t field, std::uint64_t value) { return varint(field << 3) + varint(value); }
std::string bytes(std::uint64_t field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

enum Type : std::uint64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

std::string piece(const std::string& text, float score, Type type = Type::normal) {
  std::string of_float(sizeof score, '\0');
  std::memcpy(of_float.data(), &score, sizeof score);
  return bytes(1, bytes(1, text) + varint(2 << 3 | 5) + of_float + number(3, type));
}

constexpr std::uint64_t kUnigram = 1;
constexpr std::uint64_t kBpe = 2;

std::string model(std::uint64_t kind, const std::string& more_pieces, const std::string& normalizer = "") {
  return piece("<unk>", 0, Type::unknown) + piece("<s>", 0, Type::control) + piece("</s>", 0, Type::control) +
         piece("▁", -1) + piece("a", -2) + piece("b", -3) + more_pieces + bytes(2, number(3, kind) + number(35, 1)) +
         bytes(3, normalizer);
}

TEST(SentencePiece, bpe_merges_by_score_and_writes_other_characters_in_bytes) {
  const Tokenizer tokenizer = tokenizer_of_sentence_piece(model(
      kBpe, piece("ab", -1) + piece("▁a", -0.5F) + piece("<0xC3>", 0, Type::byte) + piece("<0xA9>", 0, Type::byte)));
  EXPECT_EQ(tokenizer.kind(), "SentencePiece BPE");
  EXPECT_THAT(encode(tokenizer, "ab aab"), ElementsAre(7, 5, 7, 6));
  EXPECT_THAT(encode(tokenizer, "é"), ElementsAre(3, 8, 9));
  EXPECT_THAT(encode(tokenizer, "xy"), ElementsAre(3, 0));
  EXPECT_THAT(encode(tokenizer, "a", true), ElementsAre(1, 7));
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "ab é", true)), "ab é");
}

TEST(SentencePiece, unigram_takes_the_greatest_sum) {
  const Tokenizer tokenizer = tokenizer_of_sentence_piece(model(kUnigram, piece("ab", -4) + piece("ba", -6)));
  EXPECT_THAT(encode(tokenizer, "ab"), ElementsAre(3, 6));
  EXPECT_THAT(encode(tokenizer, "ba"), ElementsAre(3, 5, 4));
}

TEST(SentencePiece, long_texts_are_divided_where_words_begin) {
  const Tokenizer tokenizer = tokenizer_of_sentence_piece(model(kUnigram, piece("ab", -4)));
  std::string text;
  std::vector<Id> expected;
  for (std::size_t i = 0; i < 2 * kMostSummedBytes / 3; ++i) {
    text += i == 0 ? "ab" : " ab";
    expected.insert(expected.end(), {3, 6});
  }
  EXPECT_EQ(encode(tokenizer, text), expected);
}

TEST(SentencePiece, spaces_are_added_and_removed_as_the_normalizer_says) {
  const std::string pieces = piece("▁▁", -0.5F);
  const auto encoded = [&](const std::string& normalizer, std::string_view text) {
    return encode(tokenizer_of_sentence_piece(model(kBpe, pieces, normalizer)), text);
  };
  EXPECT_THAT(encoded("", "  a   b "), ElementsAre(3, 4, 3, 5));
  EXPECT_THAT(encoded(number(4, 0), " a"), ElementsAre(6, 4));
  EXPECT_THAT(encoded(number(3, 0), "a b"), ElementsAre(4, 3, 5));
}

// A double array with one replacement: "B" by "b".
std::string charsmap() {
  std::vector<std::uint32_t> units(512);
  const auto offset = [](std::uint32_t value) { return value << 10; };
  units[0] = offset(256);
  const std::uint32_t at = 256 ^ 'B';
  units[at] = 'B' | 1U << 8 | offset(at ^ 1);
  units[1] = 0x80000000;  // the replacement begins at 0
  std::string table(4 + units.size() * 4, '\0');
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::memcpy(table.data(), &size, 4);
  std::memcpy(table.data() + 4, units.data(), size);
  return table + std::string("b\0", 2);
}

TEST(SentencePiece, characters_are_replaced_by_its_table) {
  const Tokenizer tokenizer = tokenizer_of_sentence_piece(model(kBpe, "", bytes(2, charsmap())));
  EXPECT_THAT(encode(tokenizer, "aB"), ElementsAre(3, 4, 5));
}

TEST(SentencePiece, user_defined_tokens_are_found_whole) {
  const Tokenizer tokenizer =
      tokenizer_of_sentence_piece(model(kBpe, piece("ab", -1) + piece("bb", 0, Type::user_defined)));
  EXPECT_THAT(encode(tokenizer, "abb"), ElementsAre(3, 4, 7));
}

TEST(SentencePiece, every_cut_file_is_refused_or_read) {
  const std::string whole = model(kBpe, piece("ab", -1), bytes(2, charsmap()));
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      encode(tokenizer_of_sentence_piece(std::string_view(whole).substr(0, size)), "ab B");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, whole.size() / 2);
}

TEST(SentencePiece, what_it_does_not_read_is_named) {
  const auto message = [](const std::string& file, const char* text) {
    EXPECT_THAT(error_of([&] { tokenizer_of_sentence_piece(file); }), HasSubstr(text));
  };
  message("", "it is not a SentencePiece model, or it is damaged");
  message(model(3, ""), "its model is of type 3 (words), which this program does not read");
  message(model(kBpe, piece("x", 0, Type::unused)), "its token 'x' is of type 5, which this program does not read");
  message(model(kBpe, piece("a", -9)), "its vocabulary has the token 'a' twice");
  message(model(kBpe, piece("\xFF", -9)), "a token of its vocabulary is not UTF-8 text");
  message(model(kBpe, piece(std::string(2000, 'a'), -9)),
          "its vocabulary has a token of 2000 bytes; they have 1 to 1024");
  message(model(kBpe, "", bytes(2, "xx")), "its precompiled_charsmap is damaged");
}

}  // namespace
}  // namespace ridgepoint::tokenizer
