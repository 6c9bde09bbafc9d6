#include "interchange/huggingface/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "interchange/huggingface/named_model.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Published {
  const char* name;
  std::int64_t parameters;
};

TEST(Catalogue, models_have_the_published_numbers_of_parameters) {
  const Published published[] = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"tinyllama-1.1b", 1'100'048'384},
      {"smollm2-135m", 134'515'008},
      {"mistral-7b-v0.1", 7'241'732'096},
      {"mistral-7b-v0.3", 7'248'023'552},
      {"mixtral-8x7b", 46'702'792'704},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},
      {"qwen1.5-moe-a2.7b", 14'315'784'192},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},
      {"gemma-3-1b", 999'885'952},
      {"phi-3-mini-4k", 3'821'079'552},
      {"olmo-2-7b", 7'298'617'344},
  };
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(parameter_count(named_model(name).config), parameters) << name;
  }
}

TEST(Catalogue, has_only_models_that_are_read_without_unknown_fields) {
  std::set<std::string> names;
  for (const KnownModel& known : known_models()) {
    const ModelConfig model = named_model(known.name);
    EXPECT_EQ(model.config.name, known.name);
    for (const std::string& note : model.notes) EXPECT_THAT(note, ::testing::Not(HasSubstr("ignored"))) << known.name;
    EXPECT_TRUE(names.insert(known.name).second) << known.name;
  }
  EXPECT_GE(names.size(), 30U);
}

TEST(Catalogue, finds_a_model_by_its_repository) {
  EXPECT_EQ(named_model("meta-llama/Llama-3.2-1B").config.name, "llama-3.2-1b");
}

TEST(NamedModel, is_a_preset_first) {
  EXPECT_EQ(named_model("small").config.architecture.family, "");
  EXPECT_THROW(named_model("small", parse_config_overrides("hidden_size=8")), Error);
}

TEST(NamedModel, can_be_changed_by_fields) {
  EXPECT_EQ(named_model("llama-3.2-1b", parse_config_overrides("num_hidden_layers=2")).config.layers, 2);
}

TEST(NamedModel, that_is_unknown_is_refused_with_the_nearest_or_with_what_there_is) {
  EXPECT_THAT([] { named_model("llama-3.2-1"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("did you mean 'llama-3.2-1b'")));
  EXPECT_THAT([] { named_model("qzx"); },
              ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("tiny, 22.7m"), HasSubstr("ridgepoint models"))));
  EXPECT_THAT([] { named_model("no/such/folder"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("there is no file 'no/such/folder'")));
}

}  // namespace
}  // namespace ridgepoint
