#include "ir/scope.h"

#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(ScopeLevels, joins_a_number_to_the_name_before_it) {
  EXPECT_THAT(scope_levels("layers.11.attn.q_proj"), ElementsAre("layers.11", "attn", "q_proj"));
  EXPECT_THAT(scope_levels("ln_final"), ElementsAre("ln_final"));
  EXPECT_THAT(scope_levels(""), IsEmpty());
}

TEST(ScopeLevels, gives_every_layer_one_name_where_layers_are_added_up) {
  EXPECT_THAT(scope_levels("layers.3.ffn.w1", Layers::added_up), ElementsAre("layers.*", "ffn", "w1"));
  EXPECT_THAT(scope_levels("layers.3", Layers::added_up), scope_levels("layers.10", Layers::added_up));
}

TEST(ScopeLevels, does_not_join_a_name_that_only_contains_digits_or_is_the_first) {
  EXPECT_THAT(scope_levels("block.w1", Layers::added_up), ElementsAre("block", "w1"));
  EXPECT_THAT(scope_levels("7.w", Layers::added_up), ElementsAre("7", "w"));
}

}  // namespace
}  // namespace ridgepoint
