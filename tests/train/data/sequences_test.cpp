// Which tokens a run reads: every sequence once an epoch, whatever the order.
#include "train/data/sequences.h"

#include <numeric>
#include <set>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::train {
namespace {

class SequencesTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    write_file(folder_ / name, content);
    return (folder_ / name).string();
  }
  static std::shared_ptr<const TokenStream> stream_of(const std::vector<std::string>& paths,
                                                      StreamOptions options = {}) {
    static const Tokenizer bytes = tokenizer::byte_tokenizer();
    if (options.vocabulary_size == 0) options.vocabulary_size = 256;
    return std::make_shared<const TokenStream>(paths, &bytes, options);
  }
  // The bytes of sequence n, and of its targets.
  struct Texts {
    std::string inputs;
    std::vector<std::int64_t> targets;
  };
  static Texts read(const Sequences& sequences, std::int64_t n, std::size_t context) {
    std::vector<std::int64_t> inputs(context), targets(context);
    sequences.read(n, inputs, targets);
    return {std::string(inputs.begin(), inputs.end()), targets};
  }

  TemporaryFolder folder_;
};

TEST(Shuffled, is_a_permutation_for_every_size_and_key) {
  for (const std::uint64_t count : {1U, 2U, 3U, 7U, 64U, 65U, 1000U}) {
    for (const std::uint64_t key : {0U, 1U, 12345U}) {
      std::set<std::uint64_t> places;
      for (std::uint64_t i = 0; i < count; ++i) places.insert(shuffled(i, count, key));
      EXPECT_EQ(places.size(), count);
      EXPECT_LT(*places.rbegin(), count);
    }
  }
}

TEST(Shuffled, keeps_few_neighbours_together) {
  int neighbours = 0;
  for (std::uint64_t i = 0; i + 1 < 1000; ++i)
    neighbours += shuffled(i + 1, 1000, 7) == shuffled(i, 1000, 7) + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 10);
}

TEST_F(SequencesTest, follow_one_another_in_a_packed_stream) {
  const Sequences all(stream_of({file("a.txt", "abcde"), file("b.txt", "fghij")}),
                      {.context = 3, .is_shuffled = false});
  ASSERT_EQ(all.count(), 3);
  EXPECT_EQ(read(all, 0, 3).inputs, "abc");
  EXPECT_THAT(read(all, 0, 3).targets, ElementsAre('b', 'c', 'd'));
  EXPECT_EQ(read(all, 1, 3).inputs, "def");  // across the files
  EXPECT_THAT(read(all, 2, 3).targets, ElementsAre('h', 'i', 'j'));
  EXPECT_EQ(read(all, 3, 3).inputs, "abc");  // the next epoch
}

TEST_F(SequencesTest, of_an_epoch_come_once_each_in_an_order_of_their_own) {
  std::string text(401, ' ');
  std::iota(text.begin(), text.end(), '\0');
  const Sequences all(stream_of({file("a.txt", text)}), {.context = 4, .seed = 3});
  ASSERT_EQ(all.count(), 100);
  std::vector<std::string> epochs[2];
  for (std::int64_t n = 0; n < 200; ++n) epochs[n / 100].push_back(read(all, n, 4).inputs);
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) std::ranges::sort(epoch);
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_NE(read(all, 0, 4).inputs,
            read(Sequences(stream_of({file("a.txt", text)}), {.context = 4, .seed = 4}), 0, 4).inputs);
}

TEST_F(SequencesTest, that_stand_apart_end_with_their_document) {
  StreamOptions options;
  options.finds_documents = true;
  const std::string lines = file("a.jsonl", "{\"text\": \"abcdef\"}\n{\"text\": \"x\"}\n{\"text\": \"gh\"}\n");
  const Sequences all(stream_of({lines}, options),
                      {.context = 4, .documents = DocumentLayout::apart, .is_shuffled = false});
  ASSERT_EQ(all.count(), 3);  // a document of one token has no target
  EXPECT_EQ(read(all, 0, 4).inputs, "abcd");
  EXPECT_THAT(read(all, 0, 4).targets, ElementsAre('b', 'c', 'd', 'e'));
  EXPECT_EQ(read(all, 1, 4).inputs, std::string("ef\0\0", 4));
  EXPECT_THAT(read(all, 1, 4).targets, ElementsAre('f', kIgnoredTarget, kIgnoredTarget, kIgnoredTarget));
  EXPECT_EQ(read(all, 2, 4).inputs, std::string("gh\0\0", 4));
}

TEST_F(SequencesTest, of_a_file_of_tokens_stand_apart_by_its_end_token) {
  StreamOptions options{.end_token = 0, .finds_documents = true};
  const std::vector<std::uint32_t> ids = {5, 6, 0, 7, 8, 9, 0};
  const Sequences all(stream_of({file("a.bin", token_bytes_of(ids, 2))}, options),
                      {.context = 8, .documents = DocumentLayout::apart, .is_shuffled = false});
  ASSERT_EQ(all.count(), 2);
  EXPECT_EQ(read(all, 1, 8).targets[2], 0);
  EXPECT_EQ(read(all, 1, 8).targets[3], kIgnoredTarget);
}

TEST_F(SequencesTest, for_validation_are_the_last_and_none_of_the_others) {
  std::string text(101, ' ');
  std::iota(text.begin(), text.end(), '\0');
  const auto [first, second] = Sequences(stream_of({file("a.txt", text)}), {.context = 10}).split(0.2);
  EXPECT_EQ(first.count(), 8);
  EXPECT_EQ(second.count(), 2);
  for (std::int64_t n = 0; n < 16; ++n) EXPECT_LT(read(first, n, 10).inputs[0], 80);
  for (std::int64_t n = 0; n < 4; ++n) EXPECT_GE(read(second, n, 10).inputs[0], 80);
}

TEST_F(SequencesTest, refuse_data_that_are_too_short) {
  EXPECT_THAT(error_of([&] { Sequences(stream_of({file("a.txt", "abc")}), {.context = 3}); }),
              HasSubstr("the data have 3 tokens, but a sequence takes 3 and one more"));
  EXPECT_THAT(error_of([&] { (void)Sequences(stream_of({file("a.txt", "abcd")}), {.context = 3}).split(0.1); }),
              HasSubstr("a part for validation needs another one"));
}

TEST_F(SequencesTest, refuse_tokens_beyond_the_vocabulary) {
  StreamOptions options;
  options.vocabulary_size = 100;
  EXPECT_THAT(error_of([&] { (void)stream_of({file("a.txt", "abz")}, options); }),
              HasSubstr("has token 122; the model has a vocabulary of 100"));
  const std::vector<std::uint32_t> ids = {1, 2, 100, 3};
  const auto stream = stream_of({file("a.bin", token_bytes_of(ids, 2))}, options);
  std::vector<Id> read(4);
  EXPECT_THAT(error_of([&] { stream->read(0, read); }), HasSubstr("token 100 at position 2"));
}

}  // namespace
}  // namespace ridgepoint::train
