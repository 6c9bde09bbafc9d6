#include "interchange/huggingface/config/config_overrides.h"

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/model_config.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::Property;

TEST(ConfigOverrides, are_json_or_text) {
  const std::vector<ConfigOverride> found = parse_config_overrides(
      "num_hidden_layers=2,hidden_act=gelu,sliding_window=null,layer_types=[\"a\",\"b\"],x.y=1.5");
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].value.dump(), "2");
  EXPECT_EQ(found[1].value.dump(), "\"gelu\"");
  EXPECT_TRUE(found[2].value.is_null());
  EXPECT_EQ(found[3].value.size(), 2U);
  EXPECT_EQ(found[4].key, "x.y");
}

TEST(ConfigOverrides, need_a_key_and_a_value) {
  for (const char* bad : {"", "=2", "layers", "a=1,,b=2", "a="}) {
    EXPECT_THROW(parse_config_overrides(bad), Error) << bad;
  }
}

TEST(ConfigOverrides, replace_fields_and_fields_of_objects) {
  Json object = {{"a", 1}, {"rope", {{"factor", 2}}}};
  override_fields(parse_config_overrides("a=3,rope.factor=8,new.field=x"), object);
  EXPECT_EQ(object.dump(), R"({"a":3,"rope":{"factor":8},"new":{"field":"x"}})");
  EXPECT_THROW(override_fields(parse_config_overrides("a.b=1"), object), Error);
}

TEST(ConfigOverrides, change_the_model_that_is_read) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"model_type": "llama", "num_hidden_layers": 32})");
  const auto read = [&](std::string_view text) {
    return read_model_config(folder.path(), parse_config_overrides(text)).config;
  };
  EXPECT_EQ(read("num_hidden_layers=2").layers, 2);
  EXPECT_EQ(read("rope_scaling={\"rope_type\":\"linear\",\"factor\":2}").architecture.rotary.factor, 2);
}

TEST(ConfigOverrides, of_fields_that_no_one_reads_are_refused) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"model_type": "llama"})");
  EXPECT_THAT([&] { read_model_config(folder.path(), parse_config_overrides("num_hidden_layer=2")); },
              ::testing::Throws<Error>(AllOf(Property(&Error::kind, ErrorKind::usage),
                                             Property(&Error::what, HasSubstr("did you mean 'num_hidden_layers'")))));
}

}  // namespace
}  // namespace ridgepoint
