// Patterns that name modules and parameters.
#include "passes/training/training.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Patterns, name_whole_parts) {
  const char* name = "layers.1.attn.q_proj.weight";
  for (const char* pattern :
       {"q_proj", "layers.1", "attn.q_proj", "layers.*.attn", "*_proj", "layers.1.attn.q_proj.weight"})
    EXPECT_TRUE(matches(pattern, name)) << pattern;
  for (const char* pattern : {"proj", "layers.10", "layer", "attn.weight", "layers.*.q_proj", "q_proj.bias", ""})
    EXPECT_FALSE(matches(pattern, name)) << pattern;
  EXPECT_FALSE(matches("layers.1", "layers.10.ln1.weight"));
  EXPECT_TRUE(matches("l*s.*", name));
}

TEST(Patterns, mark_every_name_that_one_of_them_matches) {
  EXPECT_THAT(matches_of({"a", "c"}, {"a.weight", "b.weight", "c.weight"}, "parameter"),
              ElementsAre(true, false, true));
}

TEST(Patterns, without_a_match_are_refused_with_the_nearest) {
  const std::vector<std::string> names = {"token_embeddings.weight", "layers.0.ln1.weight"};
  EXPECT_THAT(error_of([&] { matches_of({"token_embedings"}, names, "parameter"); }),
              HasSubstr("no parameter matches 'token_embedings'; did you mean 'token_embeddings'?"));
  EXPECT_THAT(error_of([&] { matches_of({"layers.0.ln2.weight"}, names, "parameter"); }),
              HasSubstr("did you mean 'layers.0.ln1.weight'?"));
}

}  // namespace
}  // namespace ridgepoint
