#include "interchange/huggingface/weights/model_weights.h"

#include <numeric>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/weights/tiny_models.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::ElementsAreArray;
using testing::tiny_models;

// Every element of all parameters is another number.
class NumberedWeights {
 public:
  explicit NumberedWeights(const TransformerConfig& config) {
    float next = 1;
    for (const bool constants : {false, true}) {
      for (const ParameterDeclaration& one : parameters_of(stored_weights(config), constants)) {
        HostTensor tensor(one.type);
        std::ranges::generate(tensor.as<float>(), [&] { return next++; });
        values_.emplace(one.name, std::move(tensor));
      }
    }
  }
  HostTensor operator()(const ParameterDeclaration& one) const { return values_.at(one.name); }
  const std::map<std::string, HostTensor>& all() const { return values_; }

 private:
  std::map<std::string, HostTensor> values_;
};

std::vector<float> numbers(const HostTensor& tensor) {
  const std::span<const float> values = tensor.as<float>();
  return {values.begin(), values.end()};
}

TransformerConfig tiny(std::string_view family) {
  for (const TransformerConfig& config : tiny_models()) {
    if (config.architecture.family == family) return config;
  }
  throw Error("no such family");
}

TEST(ModelWeights, of_every_family_is_read_back_bit_by_bit) {
  ASSERT_EQ(tiny_models().size(), families().size());
  for (const TransformerConfig& config : tiny_models()) {
    const TemporaryFolder folder;
    const NumberedWeights weights(config);
    write_model(folder / "model", config, weights);
    const ModelConfig model = read_model_config(folder / "model");
    EXPECT_TRUE(model.config.architecture == config.architecture) << config.architecture.family;
    const ModelWeights stored(folder / "model", model.config);
    EXPECT_THAT(stored.problems(), IsEmpty()) << config.architecture.family;
    std::int64_t count = 0;
    for (const auto& [name, tensor] : weights.all()) {
      const HostTensor read = stored.read(name);
      EXPECT_EQ(read.data, tensor.data) << config.architecture.family << " " << name;
      if (!name.ends_with(kCorrection) && !name.ends_with(kLayerScalar) && !name.ends_with(kExpertTable))
        count += read.type.shape.elements();
    }
    EXPECT_EQ(count, parameter_count(config)) << config.architecture.family;
  }
}

TEST(ModelWeights, are_the_parameters_of_the_graph) {
  for (const TransformerConfig& config : tiny_models()) {
    std::map<std::string, TensorType> expected;
    for (const ParameterDeclaration& one : parameters_of(Transformer(config, 1))) expected.emplace(one.name, one.type);
    std::map<std::string, TensorType> found;
    for (const ParameterDeclaration& one : parameters_of(stored_weights(config))) found.emplace(one.name, one.type);
    EXPECT_EQ(found.size(), expected.size()) << config.architecture.family;
    for (const auto& [name, type] : expected) {
      ASSERT_TRUE(found.contains(name)) << config.architecture.family << " " << name;
      EXPECT_TRUE(found.at(name).shape == type.shape) << config.architecture.family << " " << name;
    }
  }
}

TEST(ModelWeights, name_a_module_once_of_which_a_layer_of_the_files_has_several_parts) {
  const std::vector<PublishedLayer> layers = published_layers(tiny("qwen3_next"));
  const auto found = std::ranges::find(layers, "model.layers.0.linear_attn.in_proj_qkvz", &PublishedLayer::name);
  ASSERT_NE(found, layers.end());
  EXPECT_THAT(found->modules, ElementsAre("layers.0.mixer.qkv_proj", "layers.0.mixer.z_proj"));
}

TEST(ModelWeights, of_a_preset_has_the_names_of_llama) {
  const TransformerConfig config{"small", 11, 8, 16, 10, 1, 4};
  const TemporaryFolder folder;
  write_model(folder / "model", config, NumberedWeights(config));
  EXPECT_TRUE(SafetensorsFile(folder / "model/model.safetensors").contains("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_THAT(ModelWeights(folder / "model", config).problems(), IsEmpty());
}

TEST(ModelWeights, reorders_the_rows_of_rotated_heads) {
  // Head size 6: pairs (0, 3), (1, 4), (2, 5) of the file are neighbours here.
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < 12; ++row) rows.push_back(RowOrder{6, 6}.file_row(row));
  EXPECT_THAT(rows, ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  // 4 of 6 are rotated.
  rows.clear();
  for (std::int64_t row = 0; row < 12; ++row) rows.push_back(RowOrder{6, 4}.file_row(row));
  EXPECT_THAT(rows, ElementsAre(0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11));
}

// The file's tensors of a model whose parameters are numbered.
class Stored {
 public:
  explicit Stored(const TransformerConfig& config) : weights_(config) {
    write_model(folder_ / "model", config, weights_);
  }
  std::vector<float> file(const std::string& name) const {
    return numbers(SafetensorsFile(folder_ / "model/model.safetensors").read(name));
  }
  std::vector<float> ours(const std::string& name) const { return numbers(weights_.all().at(name)); }

 private:
  TemporaryFolder folder_;
  NumberedWeights weights_;
};

TEST(ModelWeights, permutes_weights_biases_and_norms_of_q_and_k_alone) {
  const Stored llama(tiny("llama"));
  const std::vector<float> bias = llama.ours("layers.1.attn.q_proj.bias");
  // Heads of 4: rows 0, 1, 2, 3 of a head become 0, 2, 1, 3.
  std::vector<float> expected = bias;
  for (std::size_t head = 0; head < 16; head += 4) std::swap(expected[head + 1], expected[head + 2]);
  EXPECT_THAT(llama.file("model.layers.1.self_attn.q_proj.bias"), ElementsAreArray(expected));
  EXPECT_EQ(llama.file("model.layers.1.self_attn.v_proj.weight"), llama.ours("layers.1.attn.v_proj.weight"));
  const Stored qwen(tiny("qwen3"));
  const std::vector<float> norm = qwen.ours("layers.0.attn.k_norm.weight");
  EXPECT_THAT(qwen.file("model.layers.0.self_attn.k_norm.weight"),
              ElementsAre(norm[0], norm[2], norm[4], norm[1], norm[3], norm[5]));
}

TEST(ModelWeights, of_gpt2_has_transposed_weights_and_q_k_and_v_in_one) {
  const Stored gpt2(tiny("gpt2"));
  const std::vector<float> packed = gpt2.file("transformer.h.0.attn.c_attn.weight");  // [12, 36]
  const char* names[] = {"q_proj", "k_proj", "v_proj"};
  for (std::size_t which = 0; which < 3; ++which) {
    const std::vector<float> ours = gpt2.ours(std::string("layers.0.attn.") + names[which] + ".weight");
    for (std::size_t out = 0; out < 12; ++out) {
      for (std::size_t in = 0; in < 12; ++in) ASSERT_EQ(packed[in * 36 + which * 12 + out], ours[out * 12 + in]);
    }
  }
  std::vector<float> biases = gpt2.ours("layers.0.attn.q_proj.bias");
  for (const char* name : {"layers.0.attn.k_proj.bias", "layers.0.attn.v_proj.bias"}) {
    const std::vector<float> more = gpt2.ours(name);
    biases.insert(biases.end(), more.begin(), more.end());
  }
  EXPECT_EQ(gpt2.file("transformer.h.0.attn.c_attn.bias"), biases);
}

TEST(ModelWeights, of_phi3_has_gate_and_up_in_one) {
  const Stored phi3(tiny("phi3"));
  std::vector<float> expected = phi3.ours("layers.1.ffn.w1.weight");
  const std::vector<float> up = phi3.ours("layers.1.ffn.w3.weight");
  expected.insert(expected.end(), up.begin(), up.end());
  EXPECT_EQ(phi3.file("model.layers.1.mlp.gate_up_proj.weight"), expected);
}

TEST(ModelWeights, has_a_tensor_for_each_expert) {
  const Stored mixtral(tiny("mixtral"));
  const std::vector<float> all = mixtral.ours("layers.0.ffn.experts.w2");  // [3, 16, 10]
  EXPECT_EQ(mixtral.file("model.layers.0.block_sparse_moe.experts.1.w2.weight"),
            std::vector<float>(all.begin() + 160, all.begin() + 320));
}

TEST(ModelWeights, writes_a_tied_head_once_and_reads_it_from_either_name) {
  const TransformerConfig config = tiny("qwen2");
  const TemporaryFolder folder;
  const NumberedWeights weights(config);
  write_model(folder / "model", config, weights);
  const SafetensorsFile file(folder / "model/model.safetensors");
  EXPECT_FALSE(file.contains("lm_head.weight"));
  std::vector<TensorDeclaration> declarations;
  std::vector<std::string> names = file.names();
  for (const std::string& name : names)
    declarations.push_back({name == "model.embed_tokens.weight" ? "lm_head.weight" : name, file.type(name)});
  write_safetensors(folder / "other.safetensors", declarations, [&](std::size_t i) { return file.read(names[i]); });
  const ModelWeights other(folder / "other.safetensors", config);
  EXPECT_THAT(other.problems(), IsEmpty());
  EXPECT_EQ(other.read("token_embeddings.weight").data, weights.all().at("token_embeddings.weight").data);
}

TEST(ModelWeights, is_written_in_shards_with_their_index) {
  const TransformerConfig config = tiny("qwen3_moe");
  const TemporaryFolder folder;
  const NumberedWeights weights(config);
  write_model(folder / "model", config, weights, 2000);
  EXPECT_FALSE(std::filesystem::exists(folder / "model/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "model/model.safetensors.index.json"));
  std::size_t shards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "model")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++shards;
    EXPECT_LT(entry.file_size(), 4000U) << entry.path();
  }
  EXPECT_GT(shards, 3U);
  const ModelWeights stored(folder / "model", config);
  EXPECT_THAT(stored.problems(), IsEmpty());
  for (const auto& [name, tensor] : weights.all()) EXPECT_EQ(stored.read(name).data, tensor.data) << name;
}

TEST(ModelWeights, is_not_written_into_a_folder_with_files) {
  const TemporaryFolder folder;
  write_file(folder / "old.txt", "old");
  const TransformerConfig config = tiny("llama");
  EXPECT_THAT(error_of([&] { write_model(folder.path(), config, NumberedWeights(config)); }), HasSubstr("has files"));
}

// The file of a model with other names or types of its tensors.
void rewrite(const std::filesystem::path& from, const std::filesystem::path& to,
             const std::function<TensorDeclaration(const std::string&, TensorType)>& change) {
  const SafetensorsFile file(from);
  std::vector<TensorDeclaration> declarations;
  const std::vector<std::string> names = file.names();
  for (const std::string& name : names) declarations.push_back(change(name, file.type(name)));
  write_safetensors(to, declarations, [&](std::size_t i) {
    const TensorType& type = declarations[i].type;
    const TensorType& known = file.type(names[i]);
    if (is_floating(type.dtype) && is_floating(known.dtype) && type.shape == known.shape)
      return convert(file.read(names[i]), type.dtype);
    return HostTensor(type);
  });
}

TEST(ModelWeights, of_the_first_files_of_bert_has_norms_of_gamma_and_beta) {
  const TransformerConfig config = tiny("bert");
  const NumberedWeights weights(config);
  const TemporaryFolder folder;
  write_model(folder / "model", config, weights);
  rewrite(folder / "model/model.safetensors", folder / "first.safetensors",
          [](const std::string& name, const TensorType& type) {
            const std::string module = name.substr(0, name.rfind('.'));
            if (!module.ends_with("LayerNorm")) return TensorDeclaration{name, type};
            return TensorDeclaration{module + (name.ends_with(".bias") ? ".beta" : ".gamma"), type};
          });
  const ModelWeights stored(folder / "first.safetensors", config);
  EXPECT_THAT(stored.problems(), IsEmpty());
  for (const char* name : {"layers.0.ln1.weight", "layers.0.ln1.bias", "ln_head.bias"})
    EXPECT_EQ(stored.read(name).data, weights.all().at(name).data) << name;
}

class ChangedWeights : public ::testing::Test {
 protected:
  ChangedWeights() { write_model(folder_ / "model", config_, weights_); }
  ModelWeights changed(const std::function<TensorDeclaration(const std::string&, TensorType)>& change) {
    rewrite(folder_ / "model/model.safetensors", folder_ / "changed.safetensors", change);
    return ModelWeights(folder_ / "changed.safetensors", config_);
  }

  TransformerConfig config_ = tiny("llama");
  NumberedWeights weights_{config_};
  TemporaryFolder folder_;
};

TEST_F(ChangedWeights, without_the_prefix_of_the_model_is_read) {
  const ModelWeights weights = changed([](const std::string& name, const TensorType& type) {
    return TensorDeclaration{name.starts_with("model.") ? name.substr(6) : name, type};
  });
  EXPECT_THAT(weights.problems(), IsEmpty());
  EXPECT_EQ(weights.read("ln_final.weight").data, weights_.all().at("ln_final.weight").data);
}

TEST_F(ChangedWeights, in_bf16_and_fp16_is_read_as_fp32_with_a_note_on_the_mix) {
  const ModelWeights weights = changed([](const std::string& name, const TensorType& type) {
    return TensorDeclaration{name, {name.ends_with("norm.weight") ? DType::fp16 : DType::bf16, type.shape}};
  });
  EXPECT_THAT(weights.problems(), IsEmpty());
  EXPECT_THAT(weights.notes(), ElementsAre(HasSubstr("has weights in bf16, fp16; all are read as fp32")));
  const HostTensor read = weights.read("layers.0.attn.v_proj.weight");
  EXPECT_EQ(read.type.dtype, DType::fp32);
  const HostTensor expected =
      convert(convert(weights_.all().at("layers.0.attn.v_proj.weight"), DType::bf16), DType::fp32);
  EXPECT_EQ(read.data, expected.data);
}

TEST_F(ChangedWeights, with_integers_among_its_weights_is_refused) {
  const ModelWeights weights = changed([](const std::string& name, const TensorType& type) {
    return TensorDeclaration{name, {name == "lm_head.weight" ? DType::int32 : DType::fp32, type.shape}};
  });
  EXPECT_THAT(weights.problems(), ElementsAre(HasSubstr("'lm_head.weight' is int32[11,16]")));
  EXPECT_THROW(weights.read("lm_head.weight"), Error);
}

TEST(ModelWeights, has_whole_numbers_in_a_table_of_experts_and_refuses_others) {
  const TransformerConfig config = tiny("deepseek_v4");
  const TemporaryFolder folder;
  write_model(folder / "model", config, NumberedWeights(config));
  constexpr std::string_view kTable = "layers.0.ffn.gate.tid2eid";
  const auto as = [&](DType dtype) {
    rewrite(folder / "model/model.safetensors", folder / "changed.safetensors",
            [&](const std::string& name, const TensorType& type) {
              return TensorDeclaration{name, {name == kTable ? dtype : type.dtype, type.shape}};
            });
    return ModelWeights(folder / "changed.safetensors", config).problems();
  };
  EXPECT_THAT(as(DType::int64), IsEmpty());
  EXPECT_THAT(as(DType::fp32), ElementsAre(HasSubstr("the model needs int64 numbers as [29,2]")));
}

TEST_F(ChangedWeights, with_wrong_shapes_missing_and_foreign_tensors_names_each) {
  const ModelWeights weights = changed([](const std::string& name, TensorType type) {
    if (name == "model.norm.weight") type.shape = Shape{17};
    return TensorDeclaration{name == "lm_head.weight" ? "score.weight" : name, type};
  });
  EXPECT_THAT(weights.problems(), ElementsAre(HasSubstr("'model.norm.weight' is fp32[17]"),
                                              HasSubstr("'lm_head.weight' is not in"), HasSubstr("'score.weight' of")));
  EXPECT_THROW(weights.read("ln_final.weight"), Error);
  EXPECT_THAT(error_of([&] { weights.read("ln_finale.weight"); }), HasSubstr("did you mean 'ln_final.weight'"));
}

}  // namespace
}  // namespace ridgepoint
