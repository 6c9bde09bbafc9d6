#include "cli/options/choices.h"

#include <CLI/CLI.hpp>

#include "support/matchers.h"

namespace ridgepoint::cli {
namespace {

TEST(Choices, are_kept_with_the_option) {
  CLI::App app;
  std::string value;
  CLI::Option* one = app.add_option("--one", value);
  CLI::Option* list = app.add_option("--list", value);
  CLI::Option* none = app.add_option("--none", value);
  offer(*one, {"a100 80gb", "h100"}, Takes::one);
  offer(*list, {"fp32", "bf16"}, Takes::list);
  EXPECT_THAT(choices_of(*one).names, ElementsAre("a100 80gb", "h100"));
  EXPECT_FALSE(choices_of(*one).takes_list);
  EXPECT_THAT(choices_of(*list).names, ElementsAre("fp32", "bf16"));
  EXPECT_TRUE(choices_of(*list).takes_list);
  EXPECT_THAT(choices_of(*none).names, IsEmpty());
}

TEST(Choices, change_neither_what_is_parsed_nor_the_help) {
  CLI::App app;
  std::string value;
  CLI::Option* option = app.add_option("--dtype", value)->type_name("NAME");
  offer(*option, {"fp32", "bf16"}, Takes::one);
  EXPECT_EQ(option->get_type_name(), "NAME");
  app.parse("--dtype unknown");
  EXPECT_EQ(value, "unknown");
}

}  // namespace
}  // namespace ridgepoint::cli
