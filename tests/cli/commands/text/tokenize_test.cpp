// tokenize from the outside.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/refusals.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using Words = std::vector<std::string>;

class TokenizeCommand : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string write(const char* name, const std::string& content) const {
    write_file(folder_ / name, content);
    return path(name);
  }
  static ProgramResult run(const Words& arguments) {
    ProgramResult result = run_program(with_options({"tokenize"}, arguments));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result;
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizeCommand, counts_the_tokens_of_files) {
  const std::string text = write("a.txt", "naïve");
  EXPECT_THAT(run({text}).output, AllOf(HasSubstr("bytes/token"), HasSubstr("tokenizer: byte, vocabulary 256")));
  const auto row = nlohmann::json::parse(run({text, "--format", "jsonl"}).output);
  EXPECT_EQ(row.at("tokens"), 6);
  EXPECT_EQ(row.at("ids"), (std::vector<int>{'n', 'a', 0xC3, 0xAF, 'v', 'e'}));
  EXPECT_GT(row.at("tokens_per_second"), 0);
}

TEST_F(TokenizeCommand, trains_a_tokenizer_that_text_goes_through_and_back) {
  const std::string content = "low lower lowest\r\nslow slower slowest <|endoftext|> ünïcödé\n";
  const std::string text = write("a.txt", content);
  const std::string tokenizer = path("t.json");
  EXPECT_THAT(run({text, "--train", "270", "--vocabulary", tokenizer}).output, HasSubstr("270"));
  const std::string tokens = path("t.bin");
  const auto row =
      nlohmann::json::parse(run({text, "--tokenizer", tokenizer, "--output", tokens, "--format", "json"}).output)[0];
  EXPECT_LT(row.at("tokens"), content.size());
  EXPECT_FALSE(row.contains("ids"));
  EXPECT_EQ(std::filesystem::file_size(tokens), 2 * row.at("tokens").get<std::size_t>());
  run({tokens, "--tokenizer", tokenizer, "--decode", "--output", path("b.txt")});
  EXPECT_EQ(read_file(path("b.txt"), 1000), content);
  EXPECT_EQ(run({tokens, "--tokenizer", tokenizer, "--decode"}).output, content);
}

TEST_F(TokenizeCommand, puts_tokens_behind_documents) {
  const std::string text = write("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n");
  const std::string tokens = path("t.bin");
  run({text, "--end-token", "!", "--bits", "32", "--output", tokens});
  EXPECT_EQ(read_file(tokens, 100), std::string("a\0\0\0b\0\0\0!\0\0\0c\0\0\0!\0\0\0", 20));
}

TEST_F(TokenizeCommand, refuses_what_it_cannot_do_and_leaves_no_file) {
  const std::string text = write("a.txt", "text");
  const std::string binary = write("b.txt", "\xFF\xFE");
  const std::string tokenizer = write("t.json", R"({"pre_tokenizer":{"type":"ByteLevel"},
    "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  expect_usage_error({"tokenize"}, "no file is given: ridgepoint tokenize FILE");
  expect_usage_error({"tokenize", text, "--bits", "8"}, "--bits: '8' is unknown");
  expect_usage_error({"tokenize", text, "--train", "300"}, "say with --vocabulary FILE");
  expect_usage_error({"tokenize", text, "--vocabulary", path("v.json")},
                     "--vocabulary is an option of --train; add it");
  expect_usage_error({"tokenize", text, "--train", "10", "--vocabulary", path("v.json")}, "the least is 257");
  expect_usage_error({"tokenize", text, "--end-token", "<none>"}, "the vocabulary has no token '<none>'");
  expect_refused({"tokenize", binary, "--tokenizer", tokenizer, "--output", path("out.bin")}, 1,
                 "it is not UTF-8 text: byte 0");
  expect_refused({"tokenize", write("empty.txt", ""), "--output", path("out.bin")}, 1, "is empty: it has no text");
  expect_refused({"tokenize", text, "--tokenizer", text}, 1, "a.txt' cannot be read: it is not a SentencePiece model");
  expect_refused({"tokenize", binary, "--tokenizer", tokenizer, "--decode"}, 1, "token 65279 at position 0");
  EXPECT_FALSE(std::filesystem::exists(path("out.bin")));
  EXPECT_FALSE(std::filesystem::exists(path("v.json")));
}

}  // namespace
}  // namespace ridgepoint
