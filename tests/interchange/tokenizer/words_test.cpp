// Normalizers and pre-tokenizers.

#include <algorithm>
#include <array>
#include <random>

#include "interchange/tokenizer/encode.h"
#include "interchange/tokenizer/text/regex.h"
#include "interchange/tokenizer/text/splitter.h"
#include "interchange/tokenizer/text/utf8.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::tokenizer {
namespace {

std::string normalized(std::string_view json, std::string_view text) { return read_normalizer(parse_json(json))(text); }

TEST(Normalizer, forms_cases_and_accents) {
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e\u0301ﬁ"), "éﬁ");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "é"), "e\u0301");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "e\u0301ﬁ①"), "éfi1");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "éﬁ"), "e\u0301fi");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "ÀİΣ"), "ài\u0307σ");
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "e\u0301x"), "ex");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":false})", " \u3000a "), "a ");
  EXPECT_EQ(normalized(R"({"type":"Strip"})", "\t \n"), "");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"▁"})", "a"), "▁a");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})", "a   b c"), "a b c");
  EXPECT_EQ(normalized(R"({"type":"BertNormalizer"})", std::string_view("É\t中\0\u200bx", 11)), "e  中 x");
  EXPECT_EQ(normalized(R"({"type":"BertNormalizer","lowercase":false,"handle_chinese_chars":false})", "É中"), "É中");
}

TEST(Normalizer, that_grows_a_text_without_end_is_refused) {
  std::string steps;
  for (int i = 0; i < 8; ++i) {
    steps += std::string(i == 0 ? "" : ",") +
             R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})";
  }
  const Normalizer normalizer = read_normalizer(parse_json(R"({"type":"Sequence","normalizers":[)" + steps + "]}"));
  EXPECT_THAT(error_of([&] { return normalizer("a"); }), HasSubstr("its normalizer makes"));
}

TEST(PreTokenizer, divides_as_each_kind_says) {
  EXPECT_EQ(words(R"({"type":"ByteLevel","add_prefix_space":false})", "it's  12 a!"), "it|'s| | 12| a|!");
  EXPECT_EQ(words(R"({"type":"ByteLevel"})", "a b"), " a| b");
  EXPECT_EQ(words(R"({"type":"Whitespace"})", "a_1, b\u0301…"), "a_1|,|b\u0301|…");
  EXPECT_EQ(words(R"({"type":"WhitespaceSplit"})", " a,\u3000b "), "a,|b");
  EXPECT_EQ(words(R"({"type":"BertPreTokenizer"})", "a,b «c»"), "a|,|b|«|c|»");
  EXPECT_EQ(words(R"({"type":"Digits","individual_digits":true})", "a12b"), "a|1|2|b");
  EXPECT_EQ(words(R"({"type":"Digits"})", "a12b"), "a|12|b");
  EXPECT_EQ(words(R"({"type":"Metaspace"})", "a b"), "▁a|▁b");
  EXPECT_EQ(words(R"({"type":"Metaspace","prepend_scheme":"never"})", "a b"), "a|▁b");
  EXPECT_EQ(words(R"({"type":"Metaspace","split":false})", "a b"), "▁a▁b");
  EXPECT_EQ(words(R"({"type":"CharDelimiterSplit","delimiter":"-"})", "a-b"), "a|b");
}

TEST(PreTokenizer, split_has_five_behaviors) {
  const auto split = [](const char* behavior, bool inverts) {
    return words(std::string(R"({"type":"Split","pattern":{"String":"-"},"behavior":")") + behavior + R"(","invert":)" +
                     (inverts ? "true}" : "false}"),
                 "a--b-");
  };
  EXPECT_EQ(split("Removed", false), "a|b");
  EXPECT_EQ(split("Removed", true), "-|-|-");
  EXPECT_EQ(split("Isolated", false), "a|-|-|b|-");
  EXPECT_EQ(split("MergedWithPrevious", false), "a-|-|b-");
  EXPECT_EQ(split("MergedWithNext", false), "a|-|-b|-");
  EXPECT_EQ(split("Contiguous", false), "a|--|b|-");
}

TEST(PreTokenizer, steps_behind_byte_level_see_the_letters_of_bytes) {
  // The superscript two is a byte whose letter is a digit.
  EXPECT_EQ(words(R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},
                      {"type":"Digits"}]})",
                  "x²"),
            "x|\xC2|\xB2");
}

TEST(Regex, white_space_and_word_characters_are_unicodes) {
  const auto matches = [](const char* pattern, std::string_view text) {
    std::string found;
    Regex(pattern).for_each_match(
        text, [&](std::size_t begin, std::size_t end) { found.append(text.substr(begin, end - begin)).append("|"); });
    return found;
  };
  EXPECT_EQ(matches(R"(\s+)", "a\u180eb\u3000\u0085"), "\u3000\u0085|");  // U+180E is none
  EXPECT_EQ(matches(R"([^\s]+)", "a\u180eb c"), "a\u180eb|c|");
  EXPECT_EQ(matches(R"(\w+)", "क्षि-Ⓐ"), "क्षि|Ⓐ|");
  EXPECT_EQ(matches(R"(\S+(?!\S))", "ab cd"), "ab|cd|");
  EXPECT_EQ(matches("x*", "axx"), "|xx|");
}

TEST(Regex, that_takes_too_long_ends_with_a_sentence) {
  const Regex regex(R"((a+)+$)");
  const auto run = [&] { regex.for_each_match(std::string(40, 'a') + "b", [](std::size_t, std::size_t) {}); };
  EXPECT_THAT(run, ThrowsMessage<Error>(HasSubstr("finds no end at byte 0 of the text")));
}

class WrittenOutPattern : public ::testing::TestWithParam<std::string_view> {};

TEST_P(WrittenOutPattern, divides_as_the_regular_expression) {
  constexpr std::array<std::string_view, 44> kParts = {
      " ",   " ",    "  ",      "\n",  "\r\n", "\t",     "\u00a0", "\u3000", "\u0085", "\u180e", "a",
      "Z",   "é",    "e\u0301", "ß",   "'s",   "'S",     "'ſ",     "'",      "'ll",    "'L",     "'Re",
      "'ve", "'d",   "'m",      "1",   "23",   "456789", "٣",      "½",      "²",      "Ⅷ",      "中",
      "ﬁ",   "🙂", "!",       "...", "—",    "_",      "$",      "//",     "ा",      "\u200d", "the"};
  std::mt19937 random(7);
  const NextWord next = splitter_of(GetParam());
  ASSERT_NE(next, nullptr);
  const Regex regex{std::string(GetParam())};
  for (int run = 0; run < 3000; ++run) {
    std::string text;
    for (unsigned part = 0; part < 1 + random() % 16; ++part) text += kParts[random() % kParts.size()];
    std::vector<std::size_t> expected;
    regex.for_each_match(text, [&](std::size_t, std::size_t end) { expected.push_back(end); });
    std::vector<std::size_t> ends;
    for (std::size_t at = 0; at < text.size(); at = ends.back()) ends.push_back(next(text, at));
    ASSERT_EQ(ends, expected) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, WrittenOutPattern,
    ::testing::Values(
        kGpt2Pattern,
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"));

}  // namespace
}  // namespace ridgepoint::tokenizer
