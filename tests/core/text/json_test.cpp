#include "core/text/json.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "core/files/file.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

std::string lists(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

struct Problem {
  std::string message;
  bool is_cut_off = false;
};

Problem problem_of(const std::string& text) {
  try {
    parse_json(text, "line 3");
  } catch (const JsonError& error) {
    return {error.what(), error.is_cut_off()};
  }
  return {};
}

TEST(ParseJson, reads_as_many_levels_as_its_limit) {
  EXPECT_NO_THROW(parse_json(lists(kMostJsonLevels)));
  EXPECT_EQ(problem_of(lists(kMostJsonLevels + 1)).message, "line 3 is nested deeper than 64 levels");
}

TEST(ParseJson, refuses_deep_texts_of_any_size_and_kind) {
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
  for (const std::string& text : {lists(1'000'000), std::string(1'000'000, '['), objects, "{\"a\":" + lists(200'000)})
    EXPECT_EQ(problem_of(text).message, "line 3 is nested deeper than 64 levels");
}

TEST(ParseJson, counts_no_brackets_in_texts) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(parse_json("[\"" + brackets + "\"]")[0], brackets);
  EXPECT_EQ(parse_json(R"(["\"[[\\", "[\\\""])").size(), 2U);
  EXPECT_EQ(problem_of("[\"\\\\\"," + lists(100) + "]").message, "line 3 is nested deeper than 64 levels");
}

TEST(ParseJson, counts_levels_and_not_lists) {
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) wide += "[{}],";
  EXPECT_EQ(parse_json(wide + "0]").size(), 1001U);
}

TEST(ParseJson, says_what_is_wrong_and_whether_the_text_is_cut_off) {
  EXPECT_EQ(problem_of("{\"a\" 1}").message, "line 3 is not JSON at byte 6");
  EXPECT_FALSE(problem_of("{\"a\" 1}").is_cut_off);
  for (const char* text : {"", "{", "{\"a", "{\"a\":tru", "[1,2"}) EXPECT_TRUE(problem_of(text).is_cut_off) << text;
  EXPECT_EQ(problem_of("[1e999]").message, "line 3 has a number that no type holds");
}

TEST(ParseJson, takes_the_last_value_of_a_key_and_keeps_the_order) {
  EXPECT_EQ(dump_json(parse_json(R"({"b":1,"a":[{"c":null},-2,0.5],"b":{"d":true}})")),
            R"({"b":{"d":true},"a":[{"c":null},-2,0.5]})");
}

TEST(ParseJson, of_an_object_with_many_keys_takes_no_longer_a_key) {
  constexpr int kKeys = 300'000;  // some 50 seconds, where each key is looked for among all before it
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) text += fmt::format("\"k{}\":1,", i);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "\"last\":1}").size(), kKeys + 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// Another parser would have no limit of levels.
TEST(ParseJson, is_the_only_way_from_a_text_to_a_value) {
  std::vector<std::string> parsers;
  for (const auto& file : std::filesystem::recursive_directory_iterator(source_folder() / "src")) {
    if (!file.is_regular_file()) continue;
    const std::string text = read_file(file.path(), 1 << 24);
    for (const char* call : {"Json::parse(", "json::parse(", "Json::accept(", "json::accept(", "Json::sax_parse("})
      if (text.find(call) != std::string::npos) parsers.push_back(file.path().filename().string() + ": " + call);
  }
  EXPECT_THAT(parsers, ElementsAre("json.cpp: Json::sax_parse("));
}

}  // namespace
}  // namespace ridgepoint
