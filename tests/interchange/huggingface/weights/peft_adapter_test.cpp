#include "interchange/huggingface/weights/peft_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/tiny_models.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

TransformerConfig model_of(std::string_view family) {
  if (family.empty()) return {"small", 11, 8, 16, 10, 2, 4};
  for (const TransformerConfig& config : testing::tiny_models()) {
    if (config.architecture.family == family) return config;
  }
  throw Error("no such family");
}

LoraOptions options_of(const TransformerConfig& config, std::vector<std::string> targets) {
  return {.rank = 3, .alpha = 6, .targets = std::move(targets), .published = published_layers(config)};
}

// A program with random adapters, or without them; its base and adapters in files.
class AdaptedModel {
 public:
  AdaptedModel(const TransformerConfig& config, const LoraOptions& lora)
      : workload_(config, 2), program_(workload_.build(), open_device("cpu"), {.compile = with(lora)}) {
    initialise(program_, workload_, 5);
    for (const ParameterDeclaration& one : parameters_of(program_.graph())) {
      if (one.name.find(".lora_") == std::string::npos) continue;
      program_.write_random(one.name, TruncatedNormal{0, 0.5}, 9);
      adapters_.push_back(one.name);
    }
  }

  HostTensor logits() {
    program_.run();
    program_.synchronize();
    return program_.read_output("logits");
  }

  void write(const fs::path& folder, const LoraOptions& lora) {
    const TransformerConfig& config = *workload_.transformer();
    write_model(folder / "base", config,
                [&](const ParameterDeclaration& one) { return program_.read_input(one.name); });
    const PeftTensors tensors(config, lora, adapters_,
                              [&](const std::string& name) { return program_.read_input(name); });
    fs::create_directory(folder / "adapter");
    write_safetensors(folder / "adapter" / kPeftTensorFile, tensors.declarations(),
                      [&](std::size_t i) { return tensors.value(i); });
    write_file(folder / "adapter" / kPeftConfigFile, dump_json(tensors.config(folder / "base")));
  }

  static HostTensor logits_of_merged(const TransformerConfig& config, const fs::path& folder) {
    const PeftAdapter adapter(folder / "adapter", config);
    EXPECT_THAT(adapter.problems(), IsEmpty());
    return logits_of(config, base_of_adapter(folder / "adapter"), &adapter);
  }
  static HostTensor logits_of_base(const TransformerConfig& config, const fs::path& folder) {
    return logits_of(config, folder / "base", nullptr);
  }

 private:
  static HostTensor logits_of(const TransformerConfig& config, const fs::path& folder, const PeftAdapter* adapter) {
    const Transformer workload(config, 2);
    Program program(workload.build(), open_device("cpu"), {});
    initialise(program, workload, 5);
    const ModelWeights base(folder, config);
    for (const ParameterDeclaration& one : parameters_of(program.graph())) {
      HostTensor value = base.read(one.name);
      if (adapter != nullptr) adapter->add_to(one.name, value);
      program.write_input(one.name, value);
    }
    program.run();
    program.synchronize();
    return program.read_output("logits");
  }

  static CompileOptions with(const LoraOptions& lora) {
    CompileOptions options;
    options.mode = Mode::forward;
    options.lora = lora;
    return options;
  }

  Transformer workload_;
  Program program_;
  std::vector<std::string> adapters_;
};

double relative_difference(const HostTensor& a, const HostTensor& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.as<float>().size(); ++i) {
    difference += std::pow(a.as<float>()[i] - b.as<float>()[i], 2);
    norm += std::pow(b.as<float>()[i], 2);
  }
  return std::sqrt(difference / norm);
}

struct Case {
  std::string family;
  std::vector<std::string> targets;
};

TEST(PeftAdapter, merged_with_its_base_computes_what_the_adapters_do) {
  for (const Case& one : {Case{"", {"q_proj", "output_proj", "w1"}}, Case{"gpt2", {"c_attn", "c_fc"}},
                          Case{"qwen2", {"k_proj", "v_proj", "down_proj"}}, Case{"phi3", {"qkv_proj", "gate_up_proj"}},
                          Case{"phi3", {"q_proj"}}, Case{"phi3", {"q_proj", "v_proj", "w3", "down_proj"}},
                          Case{"gpt2", {"k_proj", "c_fc"}}, Case{"llama", {"q_proj", "gate_proj"}},
                          Case{"gemma2", {"q_proj", "o_proj"}}}) {
    SCOPED_TRACE(one.family);
    const TemporaryFolder folder;
    const TransformerConfig config = model_of(one.family);
    const LoraOptions lora = options_of(config, one.targets);
    AdaptedModel model(config, lora);
    model.write(folder.path(), lora);
    const HostTensor merged = AdaptedModel::logits_of_merged(config, folder.path());
    EXPECT_LT(relative_difference(merged, model.logits()), 1e-5);
    EXPECT_GT(relative_difference(AdaptedModel::logits_of_base(config, folder.path()), model.logits()), 1e-2);
  }
}

TEST(PeftTensors, have_the_names_and_the_order_of_the_files_of_the_base) {
  const TransformerConfig config = model_of("");
  const auto value = [](const std::string& name) {
    HostTensor tensor({DType::fp32, name.ends_with("A.weight") ? Shape{3, 16} : Shape{16, 3}});
    std::iota(tensor.as<float>().begin(), tensor.as<float>().end(), 0.0F);
    return tensor;
  };
  const PeftTensors tensors(config, options_of(config, {"q_proj"}),
                            {"layers.1.attn.q_proj.lora_A.weight", "layers.1.attn.q_proj.lora_B.weight"}, value);
  ASSERT_EQ(tensors.declarations().size(), 2);
  EXPECT_EQ(tensors.declarations()[0].name, "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(tensors.declarations()[1].name, "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight");
  EXPECT_EQ(tensors.value(0).data, value("A.weight").data);
  // Heads of 4: the pairs (0, 2) and (1, 3) of the file are neighbours here.
  const HostTensor up = tensors.value(1);
  std::vector<float> firsts;
  for (std::size_t row = 0; row < 8; ++row) firsts.push_back(up.as<float>()[3 * row] / 3);
  EXPECT_THAT(firsts, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  const Json fields = tensors.config("/base");
  EXPECT_EQ(fields.at("peft_type"), "LORA");
  EXPECT_EQ(fields.at("base_model_name_or_path"), "/base");
  EXPECT_EQ(fields.at("r"), 3);
  EXPECT_EQ(fields.at("lora_alpha"), 6.0);
  EXPECT_EQ(fields.at("fan_in_fan_out"), false);
  // The other layer has none, so the last part of the name is not enough.
  EXPECT_EQ(fields.at("target_modules"), Json({"model.layers.1.self_attn.q_proj"}));
}

TEST(PeftTensors, of_parts_of_a_packed_layer_are_blocks_of_its_pair) {
  const TransformerConfig config = model_of("phi3");
  const auto value = [&](const std::string& name) {
    const std::int64_t rows =
        config.head_size() * (name.find("q_proj") != name.npos ? config.heads : config.kv_heads());
    HostTensor tensor({DType::fp32, name.ends_with("A.weight") ? Shape{3, config.d_model} : Shape{rows, 3}});
    std::ranges::fill(tensor.as<float>(), 1.0F);
    return tensor;
  };
  std::vector<std::string> adapters;
  for (const char* part : {"q_proj", "v_proj"}) {
    for (const char* half : {"A", "B"}) adapters.push_back(fmt::format("layers.0.attn.{}.lora_{}.weight", part, half));
  }
  const PeftTensors tensors(config, options_of(config, {"q_proj", "v_proj"}), adapters, value);
  ASSERT_EQ(tensors.declarations().size(), 2);
  EXPECT_EQ(tensors.declarations()[1].name, "base_model.model.model.layers.0.self_attn.qkv_proj.lora_B.weight");
  EXPECT_EQ(tensors.declarations()[0].type.shape, (Shape{6, config.d_model}));
  const HostTensor up = tensors.value(1);
  const auto row = [&](std::int64_t number) {
    const auto begin = up.as<float>().begin() + 6 * number;
    return std::vector<float>(begin, begin + 6);
  };
  const std::int64_t queries = config.heads * config.head_size(), keys = config.kv_heads() * config.head_size();
  EXPECT_THAT(row(0), ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_THAT(row(queries), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(row(queries + keys), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_EQ(tensors.config("/base").at("r"), 6);
  EXPECT_EQ(tensors.config("/base").at("lora_alpha"), 12.0);
}

TEST(PeftTensors, are_not_there_for_what_no_layer_of_the_files_holds) {
  const TransformerConfig config = model_of("phi3");
  EXPECT_THAT(error_of([&] {
                PeftTensors(config, options_of(config, {"q_proj"}), {"layers.0.attn.x_proj.lora_A.weight"}, {});
              }),
              HasSubstr("PEFT has no layer for the adapters of 'layers.0.attn.x_proj'"));
}

class PeftFolder {
 public:
  PeftFolder() { AdaptedModel(config(), lora()).write(folder_.path(), lora()); }
  static TransformerConfig config() { return model_of(""); }
  static LoraOptions lora() { return options_of(config(), {"q_proj"}); }
  fs::path adapter() const { return folder_ / "adapter"; }
  fs::path operator/(std::string_view name) const { return folder_ / name; }
  void set(const char* key, const Json& value) const {
    Json fields = parse_json(read_file(adapter() / kPeftConfigFile, 1 << 20));
    fields[key] = value;
    write_file(adapter() / kPeftConfigFile, dump_json(fields));
  }

 private:
  TemporaryFolder folder_;
};

TEST(PeftAdapter, of_another_kind_is_refused_with_its_field) {
  const PeftFolder files;
  const auto expect = [&](const char* key, const Json& bad, const std::string& said) {
    const Json before = parse_json(read_file(files.adapter() / kPeftConfigFile, 1 << 20)).value(key, Json());
    files.set(key, bad);
    EXPECT_THAT(error_of([&] { PeftAdapter(files.adapter(), files.config()); }), HasSubstr(said));
    files.set(key, before);
  };
  expect("peft_type", "IA3", "has the peft_type \"IA3\"");
  expect("bias", "all", "trains biases (\"all\")");
  expect("use_dora", true, "has use_dora = true");
  expect("rank_pattern", {{"q_proj", 4}}, "has rank_pattern = {\"q_proj\":4}");
  expect("modules_to_save", Json::array({"lm_head"}), "has modules_to_save = [\"lm_head\"]");
  expect("r", 0, "'r' must be a number above 0");
  expect("lora_alpha", "x", "'lora_alpha' must be a number above 0");
  EXPECT_THAT(PeftAdapter(files.adapter(), files.config()).problems(), IsEmpty());
  write_file(files.adapter() / kPeftConfigFile, "[]");
  EXPECT_THAT(error_of([&] { PeftAdapter(files.adapter(), files.config()); }), HasSubstr("no object"));
}

TEST(PeftAdapter, of_another_base_shape_or_rank_is_named) {
  const PeftFolder files;
  files.set("r", 4);
  EXPECT_THAT(PeftAdapter(files.adapter(), files.config()).problems(),
              Each(HasSubstr("with r = 4 this model needs floating numbers as")));
  files.set("r", 3);
  TransformerConfig wider = files.config();
  wider.d_model = 32;
  EXPECT_THAT(PeftAdapter(files.adapter(), wider).problems(), Contains(HasSubstr("with r = 3 this model")));
  TransformerConfig shorter = files.config();
  shorter.layers = 1;
  EXPECT_THAT(PeftAdapter(files.adapter(), shorter).problems(),
              ElementsAre(HasSubstr("layers.1.self_attn.q_proj.lora_A.weight' of"),
                          HasSubstr("is of no linear layer of this model: the adapter is of another base")));
}

TEST(PeftAdapter, without_the_other_half_is_named) {
  const PeftFolder files;
  const std::string name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
  const TensorDeclaration half{name, {DType::fp32, {3, 16}}};
  write_safetensors(files.adapter() / kPeftTensorFile, std::span(&half, 1),
                    [&](std::size_t) { return HostTensor(half.type); });
  EXPECT_THAT(PeftAdapter(files.adapter(), files.config()).problems(),
              ElementsAre(HasSubstr("'" + name + "' without its lora_B")));
  write_safetensors(files.adapter() / kPeftTensorFile, {}, [&](std::size_t) { return HostTensor(); });
  EXPECT_THAT(PeftAdapter(files.adapter(), files.config()).problems(), ElementsAre(HasSubstr("has no tensors")));
}

TEST(PeftAdapter, finds_its_base_where_it_was_or_around_it) {
  const PeftFolder files;
  EXPECT_EQ(base_of_adapter(files.adapter()), files / "base");
  fs::rename(files.adapter(), files / "base/adapter");
  fs::rename(files / "base", files / "moved");
  EXPECT_EQ(base_of_adapter(files / "moved/adapter"), files / "moved");
  EXPECT_EQ(base_of_adapter(files / "moved/adapter/"), files / "moved");
  fs::rename(files / "moved/adapter", files / "alone");
  EXPECT_THAT(error_of([&] { base_of_adapter(files / "alone"); }),
              HasSubstr("is not there; write its folder into 'base_model_name_or_path'"));
}

}  // namespace
}  // namespace ridgepoint
