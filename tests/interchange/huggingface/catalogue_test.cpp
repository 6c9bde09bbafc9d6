
#include <set>

#include "interchange/huggingface/named_model.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

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
      {"gemma-2b", 2'506'172'416},
      {"gemma-7b", 8'537'680'896},
      {"olmo-1b", 1'176'764'416},
      {"olmo-7b", 6'888'095'744},
      {"olmo-3-7b", 7'298'011'136},
      {"olmoe-1b-7b", 6'919'161'856},
      {"smollm3-3b", 3'075'098'624},
      {"starcoder2-3b", 3'030'371'328},
      {"starcoder2-7b", 7'173'923'840},
      {"starcoder2-15b", 15'957'889'024},
      {"starcoder", 15'517'456'384},
      {"stablelm-3b", 2'795'443'200},
      {"stablelm-2-1.6b", 1'644'515'328},
      {"phi-1.5", 1'418'270'720},
      {"phi-2", 2'779'683'840},
      {"pythia-70m", 70'426'624},
      {"pythia-160m", 162'322'944},
      {"pythia-410m", 405'334'016},
      {"pythia-1b", 1'011'781'632},
      {"pythia-1.4b", 1'414'647'808},
      {"pythia-2.8b", 2'775'208'960},
      {"pythia-6.9b", 6'857'302'016},
      {"pythia-12b", 11'846'072'320},
      {"gpt-neox-20b", 20'554'567'680},
      {"gpt-j-6b", 6'050'882'784},
      {"gpt-neo-125m", 125'198'592},
      {"gpt-neo-1.3b", 1'315'575'808},
      {"gpt-neo-2.7b", 2'651'307'520},
      {"falcon-7b", 6'921'720'704},
      {"opt-125m", 125'239'296},
      {"opt-1.3b", 1'315'758'080},
      {"opt-2.7b", 2'651'596'800},
      {"opt-6.7b", 6'658'473'984},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"deepseek-moe-16b", 16'375'728'128},
      {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v3", 671'026'404'352},  // and 14,848 numbers that correct the routing, which are not trained
      {"glm-4-9b", 9'400'279'040},
      {"seed-oss-36b", 36'151'104'512},
      {"ernie-4.5-0.3b", 360'748'032},
      {"exaone-4.0-1.2b", 1'279'391'488},
      {"internlm2-1.8b", 1'889'110'016},
      {"internlm2-7b", 7'737'708'544},
      {"qwen-7b", 7'721'324'544},
      {"qwen-14b", 14'167'290'880},
      {"chatglm3-6b", 6'243'584'000},
      {"baichuan-7b", 7'000'559'616},
      {"minicpm-2b", 2'724'880'896},
      {"command-r-plus", 103'810'674'688},
      {"qwen3-next-80b-a3b", 79'674'391'296},  // without the layer that predicts several tokens
      {"qwen3.5-0.8b", 752'393'024},
      {"qwen3.5-27b", 26'895'998'464},
      {"qwen3.5-35b-a3b", 34'660'610'688},
      {"qwen3.5-397b-a17b", 396'346'350'336},
      {"nemotron-h-8b", 8'100'852'736},
      {"nemotron-nano-9b-v2", 8'888'227'328},
      {"nemotron-3-nano-30b-a3b", 31'577'937'344},
      {"granite-4.0-h-micro", 3'191'396'096},
      {"granite-4.0-h-tiny", 6'939'037'248},
      {"granite-4.0-h-small", 32'207'337'984},
      {"mamba-codestral-7b", 7'285'403'648},
      {"falcon-h1-0.5b", 521'411'104},
      {"lfm2-350m", 354'483'968},
      {"lfm2-700m", 742'489'344},
      {"lfm2-1.2b", 1'170'340'608},
      {"lfm2-8b-a1b", 8'339'929'856},
      {"gemma-4-26b-a4b", 25'233'141'760},  // published as 25.2 B and 30.7 B
      {"gemma-4-31b", 30'697'345'280},
      {"phi-3.5-moe", 41'873'153'344},
      {"dbrx", 131'596'523'520},
      {"bloom-560m", 559'214'592},
      {"bloom-1b7", 1'722'408'960},
      {"bloom-7b1", 7'069'016'064},
      {"bloom", 176'247'271'424},
      {"mpt-7b", 6'649'286'656},
      {"falcon-rw-1b", 1'311'625'216},
      {"baichuan-13b", 13'264'901'120},
      {"bert-base", 109'514'298},
      {"bert-large", 335'174'458},
      {"roberta-base", 124'697'433},
      {"roberta-large", 355'412'057},
      {"vit-base-patch16-224", 86'567'656},
      {"vit-large-patch16-224", 304'326'632},
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
    for (const std::string& note : model.notes) EXPECT_THAT(note, Not(HasSubstr("ignored"))) << known.name;
    EXPECT_TRUE(names.insert(known.name).second) << known.name;
  }
  EXPECT_GE(names.size(), 30U);
}

TEST(Catalogue, finds_a_model_by_its_repository) {
  EXPECT_EQ(named_model("meta-llama/Llama-3.2-1B").config.name, "llama-3.2-1b");
}

TEST(Catalogue, finds_a_model_as_people_type_it) {
  for (const char* name : {"Qwen3-8B", "Qwen/Qwen3-8B", "qwen/qwen3-8b-base", "Qwen3-8B-Instruct"})
    EXPECT_EQ(named_model(name).config.name, "qwen3-8b") << name;
  EXPECT_EQ(named_model("google/gemma-2-9b-it").config.name, "gemma-2-9b");
  EXPECT_EQ(named_model("Meta-Llama/Llama-3.2-1B-Instruct").config.name, "llama-3.2-1b");
  EXPECT_THROW(named_model("someone-else/Qwen3-8B"), Error);
}

TEST(NamedModel, is_a_preset_first) {
  EXPECT_EQ(named_model("small").config.architecture.family, "");
  EXPECT_THROW(named_model("small", parse_config_overrides("hidden_size=8")), Error);
}

TEST(NamedModel, can_be_changed_by_fields) {
  EXPECT_EQ(named_model("llama-3.2-1b", parse_config_overrides("num_hidden_layers=2")).config.layers, 2);
}

TEST(NamedModel, that_is_unknown_is_refused_with_the_nearest_or_with_what_there_is) {
  EXPECT_THAT(error_of([] { named_model("llama-3.2-1"); }), HasSubstr("did you mean 'llama-3.2-1b'"));
  EXPECT_THAT(error_of([] { named_model("qzx"); }), AllOf(HasSubstr("tiny, 22.7m"), HasSubstr("ridgepoint models")));
  EXPECT_THAT(error_of([] { named_model("no/such/folder"); }), HasSubstr("there is no file 'no/such/folder'"));
}

}  // namespace
}  // namespace ridgepoint
