#include "interchange/tokens/documents.h"

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class DocumentsTest : public ::testing::Test {
 protected:
  Documents read(const char* name, const std::string& content) const {
    write_file(folder_ / name, content);
    return Documents((folder_ / name).string());
  }
  TemporaryFolder folder_;
};

TEST_F(DocumentsTest, a_text_is_one_and_json_lines_have_one_each) {
  EXPECT_EQ(read("a.txt", "one\ntwo").size(), 1U);
  const Documents lines = read("a.jsonl", "{\"text\":\"one\"}\n\n{\"id\":1,\"text\":\"two\"}");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1], "two");
  EXPECT_EQ(lines.bytes(), 6U);
}

TEST_F(DocumentsTest, files_without_text_are_refused) {
  EXPECT_THAT(error_of([&] { read("a.txt", ""); }), HasSubstr("a.txt' is empty: it has no text"));
  EXPECT_THAT(error_of([&] { read("a.jsonl", "{\"text\":\"a\"}\n{}"); }),
              HasSubstr("a.jsonl': line 2 has no member 'text' that is a text"));
}

TEST_F(DocumentsTest, are_encoded_in_order_with_an_end_token) {
  const tokenizer::Tokenizer tokenizer = tokenizer::byte_tokenizer();
  std::vector<tokenizer::Id> ids;
  encode_documents(read("a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}"), tokenizer, {false, 0},
                   [&](std::span<const tokenizer::Id> of) { ids.insert(ids.end(), of.begin(), of.end()); });
  EXPECT_THAT(ids, ElementsAre('a', 'b', 0, 'c', 0));
}

TEST_F(DocumentsTest, a_text_that_is_refused_is_named) {
  const tokenizer::Tokenizer tokenizer = tokenizer::tokenizer_of_vocabulary(R"({"a":0})", "");
  const Documents documents = read("a.txt", "a\xFF");
  EXPECT_THAT(error_of([&] { encode_documents(documents, tokenizer, {}, [](std::span<const tokenizer::Id>) {}); }),
              HasSubstr("a.txt': it is not UTF-8 text: byte 1 belongs to no character"));
}

}  // namespace
}  // namespace ridgepoint
