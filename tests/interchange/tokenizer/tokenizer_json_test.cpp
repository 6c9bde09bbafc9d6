// Tokenizers of tokenizer.json, small ones written here.
#include <fmt/format.h>

#include "interchange/tokenizer/encode.h"
#include "interchange/tokenizer/text/utf8.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::tokenizer {
namespace {

constexpr std::string_view kByteLevel =
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"})";
constexpr std::string_view kMerging = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"Ġ":3,"ab":4,"abc":5,"Ġa":6},
  "merges":["a b",["ab","c"],"Ġ a"]})";

Tokenizer read(std::string_view text) { return tokenizer_of_json(text); }
Tokenizer byte_level(std::string_view more = "") {
  return read(fmt::format("{{{},{}{}}}", kByteLevel, kMerging, more));
}

TEST(TokenizerJson, byte_level_merges_by_rank_and_leaves_out_bytes_without_a_token) {
  const Tokenizer tokenizer = byte_level();
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer.vocabulary_size(), 7U);
  EXPECT_THAT(encode(tokenizer, "abc ab a"), ElementsAre(5, 3, 4, 6));
  EXPECT_THAT(encode(tokenizer, "axb"), ElementsAre(4));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{5, 6, 3}), "abc a ");
}

TEST(TokenizerJson, whole_words_come_before_merges_where_the_file_says_so) {
  const std::string model = R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[],"ignore_merges":%}})";
  const auto with = [&](const char* value) { return std::string(model).replace(model.find('%'), 1, value); };
  EXPECT_THAT(encode(read(with("true")), "ab"), ElementsAre(2));
  EXPECT_THAT(encode(read(with("false")), "ab"), ElementsAre(0, 1));
}

TEST(TokenizerJson, byte_fallback_writes_characters_that_the_vocabulary_lacks) {
  const Tokenizer tokenizer = read(R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
      {"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
      "vocab":{"<unk>":0,"▁":1,"a":2,"▁a":3,"<0xC3>":4,"<0xA9>":5},"merges":["▁ a"]}})");
  EXPECT_THAT(encode(tokenizer, "a a"), ElementsAre(3, 3));
  EXPECT_THAT(encode(tokenizer, "é"), ElementsAre(1, 4, 5));
  EXPECT_THAT(encode(tokenizer, "xyz a"), ElementsAre(1, 0, 3));  // no bytes of x: one unknown token for three
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "a é")), "a é");
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{4}), "\uFFFD");
}

TEST(TokenizerJson, unigram_takes_the_greatest_sum_of_scores) {
  const std::string_view file = R"({"pre_tokenizer":{"type":"Metaspace"},"decoder":{"type":"Metaspace"},
    "model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-3],["a",-2],["b",-2],["ab",-3],["▁ab",-7.5]]}})";
  const Tokenizer tokenizer = read(file);
  EXPECT_THAT(encode(tokenizer, "ab"), ElementsAre(1, 4));
  EXPECT_THAT(encode(tokenizer, "axyb"), ElementsAre(1, 2, 0, 3));
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "ab a")), "ab a");
}

TEST(TokenizerJson, word_piece_takes_the_longest_parts) {
  const Tokenizer tokenizer = read(R"({"normalizer":{"type":"BertNormalizer"},
    "pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
      "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1]},"[SEP]":{"id":"[SEP]","ids":[2]}}},
    "model":{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":6,
      "vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"cafe":3,"caf":4,"##s":5,"!":6,"##eine":7,"中":8}}})");
  EXPECT_THAT(encode(tokenizer, "Cafés!"), ElementsAre(3, 5, 6));
  EXPECT_THAT(encode(tokenizer, "caffè 中中"), ElementsAre(0, 8, 8));
  EXPECT_THAT(encode(tokenizer, "cafeine"), ElementsAre(0));  // too many characters
  EXPECT_THAT(encode(tokenizer, "cafe", true), ElementsAre(1, 3, 2));
  EXPECT_THAT(encode(tokenizer, "cafe\u200b !\U0003fffe"), ElementsAre(3, 6, 0));  // what is not assigned stays
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{3, 5, 6}), "cafes!");
}

TEST(TokenizerJson, words_of_a_word_level_model_are_whole) {
  const Tokenizer tokenizer = read(R"({"pre_tokenizer":{"type":"Whitespace"},
    "model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"one":1,"two":2}}})");
  EXPECT_THAT(encode(tokenizer, "one three two"), ElementsAre(1, 0, 2));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{1, 2}), "one two");
}

TEST(TokenizerJson, added_tokens_are_found_before_the_model_sees_text) {
  const Tokenizer tokenizer = byte_level(R"(,"added_tokens":[{"id":7,"content":"<s>","special":true},
    {"id":8,"content":"<s>b","special":true},{"id":9,"content":"<m>","special":true,"lstrip":true,"rstrip":true},
    {"id":10,"content":"ab","special":false,"single_word":true}])");
  EXPECT_THAT(encode(tokenizer, "a<s>b<s>a"), ElementsAre(0, 8, 7, 0));
  EXPECT_THAT(encode(tokenizer, "a <m> b"), ElementsAre(0, 9, 1));
  EXPECT_THAT(encode(tokenizer, "ab abc"), ElementsAre(10, 3, 5));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{0, 7}), "a<s>");
}

TEST(TokenizerJson, special_tokens_stand_around_a_text_only_where_asked_for) {
  const Tokenizer roberta = byte_level(R"(,"post_processor":{"type":"RobertaProcessing","cls":["a",0],"sep":["b",1]})");
  EXPECT_THAT(encode(roberta, "c"), ElementsAre(2));
  EXPECT_THAT(encode(roberta, "c", true), ElementsAre(0, 2, 1));
}

TEST(TokenizerJson, words_end_with_a_mark_as_in_clip) {
  const Tokenizer tokenizer = read(R"({"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Sequence",
    "pretokenizers":[{"type":"WhitespaceSplit"},{"type":"ByteLevel","add_prefix_space":false}]},
    "decoder":{"type":"BPEDecoder","suffix":"</w>"},"model":{"type":"BPE","end_of_word_suffix":"</w>",
    "vocab":{"a":0,"b":1,"b</w>":2,"ab</w>":3},"merges":["a b</w>"]}})");
  EXPECT_THAT(encode(tokenizer, "AB bab"), ElementsAre(3, 1, 3));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{3, 1, 3}), "ab bab");
}

TEST(TokenizerJson, text_that_is_not_utf8_is_refused_with_its_place) {
  const auto encode_bytes = [] { encode(byte_level(), "ab\xC3("); };
  EXPECT_THAT(encode_bytes, ThrowsMessage<Error>("it is not UTF-8 text: byte 2 belongs to no character"));
  EXPECT_THAT(encode(byte_tokenizer(), "\xC3("), ElementsAre(0xC3, 0x28));
  EXPECT_THAT(encode(byte_level(), ""), IsEmpty());
}

TEST(TokenizerJson, ids_beyond_the_vocabulary_are_named_with_their_position) {
  const auto decode = [] { return byte_level().decode(std::vector<Id>{0, 1, 7}); };
  EXPECT_THAT(decode, ThrowsMessage<Error>("token 7 at position 2 is beyond the vocabulary, which has 7"));
}

struct Refused {
  const char* text;
  const char* message;
};

class RefusedTokenizer : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedTokenizer, says_why) {
  const auto read_it = [] { read(GetParam().text); };
  EXPECT_THAT(read_it, ThrowsMessage<Error>(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Files, RefusedTokenizer,
    ::testing::Values(
        Refused{"{}", "it is not a tokenizer.json: it has no 'model'"}, Refused{"[", "it is not JSON at byte 2"},
        Refused{R"({"model":{"type":"Unheard","vocab":{}}})", "its model is of the kind 'Unheard', which this program"},
        Refused{R"({"normalizer":{"type":"Unheard"},"model":{}})", "its normalizer is of the kind 'Unheard'"},
        Refused{R"({"pre_tokenizer":{"type":"UnicodeScripts"},"model":{}})", "pre-tokenizer is of the kind 'UnicodeSc"},
        Refused{R"({"decoder":{"type":"CTC"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                "decoder is of the"},
        Refused{R"({"model":{"type":"BPE","vocab":{},"merges":[]}})", "its vocabulary is empty"},
        Refused{R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})", "its vocabulary has no token 'b'"},
        Refused{R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}})", "its vocabulary has no token 'aa'"},
        Refused{R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})", "its merge 'a' is not two tokens"},
        Refused{R"({"model":{"type":"BPE","vocab":{"a":99999999},"merges":[]}})", "has the id 99999999; ids are below"},
        Refused{R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", "its 'id' is of another type"},
        Refused{R"({"model":{"type":"Unigram","unk_id":4,"vocab":[["a",0]]}})", "its unk_id is beyond its vocabulary"},
        Refused{R"({"model":{"type":"Unigram","vocab":[["a"]]}})", "entry 0 of its vocabulary is not a token and a"},
        Refused{R"({"model":{"type":"WordPiece","vocab":{"a":0}}})", "its vocabulary has no token '[UNK]'"},
        Refused{R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"},"model":{}})",
                "the regular expression '(' is not one: missing closing parenthesis"},
        Refused{R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"////"},"model":{}})",
                "its precompiled_charsmap is damaged"},
        Refused{R"({"post_processor":{"type":"TemplateProcessing","single":[],"special_tokens":{}},
                    "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                "its template does not have the text once"},
        Refused{R"({"post_processor":{"type":"BertProcessing","cls":["x",9],"sep":["y",9]},
                    "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                "its special token 9 is beyond its vocabulary"}));

TEST(Gpt2Files, are_read_as_a_vocabulary_and_its_merges) {
  const Tokenizer tokenizer =
      tokenizer_of_vocabulary(R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})", "#version: 0.2\r\na b\r\n");
  EXPECT_THAT(encode(tokenizer, "aba<|endoftext|>b"), ElementsAre(2, 0, 3, 1));
}

TEST(ByteLetters, stand_for_each_byte_and_come_back) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(from_letters(to_letters(bytes)), bytes);
  EXPECT_EQ(to_letters(" \n!"), "ĠĊ!");
  EXPECT_EQ(from_letters("a▁"), std::nullopt);
}

}  // namespace
}  // namespace ridgepoint::tokenizer
