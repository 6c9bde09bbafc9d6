#include "core/types/enum_names.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

enum class Fruit : std::uint8_t { apple, pear };
constexpr auto kFruitNames = enum_names<Fruit>("apple", "pear");
std::string_view name(Fruit fruit) { return kFruitNames[fruit]; }

TEST(EnumNames, are_found_both_ways) {
  static_assert(kFruitNames[Fruit::pear] == "pear");
  static_assert(kFruitNames.find("pear") == Fruit::pear);
  static_assert(!kFruitNames.find("plum"));
  EXPECT_EQ(kFruitNames.parse("apple", "no fruit is called '{}'"), Fruit::apple);
}

TEST(EnumNames, refuse_others_with_the_nearest_or_all) {
  const auto parse = [](std::string_view text) {
    return [text] { kFruitNames.parse(text, "no fruit is called '{}'"); };
  };
  EXPECT_THAT(parse("paer"), ThrowsMessage<Error>("no fruit is called 'paer'; did you mean 'pear'?"));
  EXPECT_THAT(parse("x"), ThrowsMessage<Error>("no fruit is called 'x'; available: apple, pear"));
}

TEST(EnumNames, are_listed_for_help_texts) {
  EXPECT_THAT(names_of(std::vector{Fruit::pear, Fruit::apple}), ElementsAre("pear", "apple"));
}

}  // namespace
}  // namespace ridgepoint
