// Files of bitsandbytes, written here by its definition in double precision, and what is read and written of them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/text/json.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/huggingface/weights/published_weights.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Tensors = std::map<std::string, HostTensor>;

constexpr double kNormalFloats[] = {-1,
                                    -0.6961928009986877,
                                    -0.5250730514526367,
                                    -0.39491748809814453,
                                    -0.28444138169288635,
                                    -0.18477343022823334,
                                    -0.09105003625154495,
                                    0,
                                    0.07958029955625534,
                                    0.16093020141124725,
                                    0.24611230194568634,
                                    0.33791524171829224,
                                    0.44070982933044434,
                                    0.5626170039176941,
                                    0.7229568362236023,
                                    1};
constexpr double kTwelfths[] = {0, 0.0625, 8, 12, 4, 6, 2, 3, -0.0, -0.0625, -8, -12, -4, -6, -2, -3};

// create_dynamic_map() of bitsandbytes.
std::vector<double> dynamic_map() {
  std::vector<double> numbers = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = 1 << decade;
    for (int part = 0; part < parts; ++part) {
      const double low = 0.1 + 0.9 * part / parts, high = 0.1 + 0.9 * (part + 1) / parts;
      for (const double sign : {1.0, -1.0}) numbers.push_back(sign * std::pow(10.0, decade - 6) * (low + high) / 2);
    }
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::size_t nearest_number(std::span<const double> numbers, double value) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (std::abs(numbers[i] - value) < std::abs(numbers[best] - value)) best = i;
  }
  return best;
}

HostTensor bytes_of(const std::vector<std::uint8_t>& bytes, const Shape& shape, DType dtype = DType::udynamic8) {
  HostTensor tensor({dtype, shape});
  std::memcpy(tensor.data.data(), bytes.data(), bytes.size());
  return tensor;
}
HostTensor floats_of(std::span<const double> numbers, const Shape& shape) {
  HostTensor tensor({DType::fp32, shape});
  std::ranges::transform(numbers, tensor.as<float>().begin(), [](double one) { return static_cast<float>(one); });
  return tensor;
}
Shape list(std::size_t size) { return {static_cast<std::int64_t>(size)}; }

// How a weight is quantised, and what its elements are then.
struct Form {
  std::string type = "nf4";
  std::size_t block = 64;
  bool is_nested = true;
};

std::vector<double> write_4bit(const std::string& name, const std::vector<double>& elements, std::int64_t rows,
                               std::int64_t columns, const Form& form, Tensors& files) {
  std::vector<double> levels(std::begin(kNormalFloats), std::end(kNormalFloats));
  if (form.type == "fp4") {
    levels.assign(std::begin(kTwelfths), std::end(kTwelfths));
    for (double& one : levels) one /= 12;
  }
  std::vector<double> magnitudes;
  std::vector<std::uint8_t> codes, packed((elements.size() + 1) / 2);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i % form.block == 0) {
      double largest = 0;
      for (std::size_t j = i; j < std::min(i + form.block, elements.size()); ++j)
        largest = std::max(largest, std::abs(elements[j]));
      magnitudes.push_back(static_cast<float>(largest));
    }
    codes.push_back(static_cast<std::uint8_t>(nearest_number(levels, elements[i] / magnitudes.back())));
    packed[i / 2] = static_cast<std::uint8_t>(packed[i / 2] | codes.back() << (i % 2 == 0 ? 4 : 0));
  }
  Json state = {{"quant_type", form.type}, {"blocksize", form.block}, {"dtype", "float16"}, {"shape", {rows, columns}}};
  std::vector<double> widened = magnitudes;
  if (form.is_nested) {
    const std::vector<double> map = dynamic_map();
    double mean = 0;
    for (const double one : magnitudes) mean += one;
    mean = static_cast<float>(mean / static_cast<double>(magnitudes.size()));
    std::vector<double> outer;
    std::vector<std::uint8_t> inner;
    for (std::size_t i = 0; i < magnitudes.size(); ++i) {
      if (i % 256 == 0) {
        double largest = 0;
        for (std::size_t j = i; j < std::min(i + 256, magnitudes.size()); ++j)
          largest = std::max(largest, std::abs(magnitudes[j] - mean));
        outer.push_back(static_cast<float>(largest));
      }
      inner.push_back(static_cast<std::uint8_t>(nearest_number(map, (magnitudes[i] - mean) / outer.back())));
      widened[i] = map[inner.back()] * outer.back() + mean;
    }
    state["nested_blocksize"] = 256;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = mean;
    files[name + ".absmax"] = bytes_of(inner, list(inner.size()));
    files[name + ".nested_absmax"] = floats_of(outer, list(outer.size()));
    files[name + ".nested_quant_map"] = floats_of(map, {256});
  } else {
    files[name + ".absmax"] = floats_of(magnitudes, list(magnitudes.size()));
  }
  files[name] = bytes_of(packed, {static_cast<std::int64_t>(packed.size()), 1});
  files[name + ".quant_map"] = floats_of(levels, {16});
  // With Python's separators.
  std::string text;
  for (const char one : state.dump()) text += one == ',' || one == ':' ? std::string{one, ' '} : std::string{one};
  files[name + ".quant_state.bitsandbytes__" + form.type] = bytes_of({text.begin(), text.end()}, list(text.size()));
  for (std::size_t i = 0; i < elements.size(); ++i) widened.push_back(levels[codes[i]] * widened[i / form.block]);
  widened.erase(widened.begin(), widened.begin() + static_cast<std::ptrdiff_t>(magnitudes.size()));
  return widened;
}

std::vector<double> write_8bit(const std::string& name, const std::vector<double>& elements, std::int64_t rows,
                               std::int64_t columns, Tensors& files) {
  std::vector<double> scales, widened;
  std::vector<std::uint8_t> codes;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (i % width == 0) {
      double largest = 0;
      for (std::size_t j = i; j < i + width; ++j) largest = std::max(largest, std::abs(elements[j]));
      scales.push_back(static_cast<float>(largest));
    }
    const double code = std::nearbyint(elements[i] * 127 / scales.back());
    codes.push_back(static_cast<std::uint8_t>(static_cast<std::int8_t>(code)));
    widened.push_back(code * scales.back() / 127);
  }
  const std::string module = name.substr(0, name.size() - std::string(".weight").size());
  files[name] = bytes_of(codes, {rows, columns}, DType::dynamic8);
  files[module + ".SCB"] = floats_of(scales, {rows});
  files[module + ".weight_format"] = bytes_of({0}, {});
  return widened;
}

// The folder of a model that transformers saved.
class QuantisedFolder {
 public:
  explicit QuantisedFolder(const std::string& model, const std::string& quantisation, Form form = {},
                           const std::vector<std::string>& kept = {})
      : form_(std::move(form)) {
    Json fields = parse_json(model);
    const TransformerConfig config = parse_model_config(fields, "made", {}, "made").config;
    if (!quantisation.empty()) fields["quantization_config"] = parse_json(quantisation);
    fields["torch_dtype"] = "float16";
    std::filesystem::create_directory(path());
    write_file(path() / "config.json", fields.dump());
    const std::vector<PublishedLayer> layers = published_layers(config);
    for (const StoredWeight& weight : stored_weights(config)) {
      const bool is_layer = std::ranges::any_of(
          layers, [&](const PublishedLayer& layer) { return layer.name + ".weight" == weight.name; });
      const bool is_kept = std::ranges::find(kept, weight.name) != kept.end();
      make(weight, is_layer && !is_kept && weight.name != "lm_head.weight" && !quantisation.empty());
    }
    write();
  }
  std::filesystem::path path() const { return folder_ / "model"; }
  void write() const {
    std::vector<TensorDeclaration> declarations;
    for (const auto& [name, tensor] : tensors) declarations.push_back({name, tensor.type});
    std::filesystem::remove(path() / "model.safetensors");
    write_safetensors(path() / "model.safetensors", declarations,
                      [&](std::size_t i) { return tensors.at(declarations[i].name); });
  }
  TransformerConfig config() const { return read_model_config(path()).config; }
  ModelWeights weights() const { return {path(), config()}; }

  Tensors tensors;
  std::map<std::string, std::vector<double>> elements;  // as [out, in], what the file stands for

 private:
  void make(const StoredWeight& weight, bool is_quantised) {
    std::vector<double> values(static_cast<std::size_t>(weight.shape.elements()));
    // The magnitudes of blocks differ.
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(normal_(random_) * (1 + static_cast<double>(i / 48 % 7)));
    elements[weight.name] = values;
    if (!is_quantised) {
      tensors[weight.name] = floats_of(values, weight.shape);
      return;
    }
    const std::int64_t rows = weight.shape[weight.is_transposed ? 1 : 0];
    const std::int64_t columns = weight.shape[weight.is_transposed ? 0 : 1];
    elements[weight.name] = form_.type == "int8" ? write_8bit(weight.name, values, rows, columns, tensors)
                                                 : write_4bit(weight.name, values, rows, columns, form_, tensors);
  }

  Form form_;
  TemporaryFolder folder_;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
};

constexpr const char* kLlama =
    R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 48, "intermediate_size": 70, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32})";
constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 24, "n_layer": 1, "n_head": 3, "n_positions": 9})";
constexpr const char* kNf4 =
    R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": null})";
constexpr const char* kSingle = R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})";
constexpr const char* kInt8 = R"({"quant_method": "bitsandbytes", "load_in_8bit": true})";

constexpr const char* kQuery = "model.layers.1.self_attn.q_proj.weight";
constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";

struct Quantisation {
  BaseWeights format;
  const char* config;
  Form form;
};
const Quantisation kQuantisations[] = {{BaseWeights::nf4, kNf4, {}},
                                       {BaseWeights::nf4_single, kSingle, {.is_nested = false}},
                                       {BaseWeights::int8, kInt8, {.type = "int8"}}};

PackedMatrix matrix_of(const ParameterDeclaration& one, BaseWeights format, const TransformerConfig& config) {
  PackedMatrix matrix{format, one.type.shape[0], one.type.shape[1]};
  for (const PublishedWeight& published : published_weights(config, format))
    if (published.parameter == one.name) matrix.order = published.rows;
  return matrix;
}

TEST(QuantisedFiles, have_the_elements_of_the_definition) {
  for (const Quantisation& one : kQuantisations) {
    const QuantisedFolder files(kLlama, one.config, one.form);
    EXPECT_EQ(files.config().packing.format, one.format);
    EXPECT_EQ(files.config().packing.dtype, "float16");
    const ModelWeights weights = files.weights();
    EXPECT_THAT(weights.problems(), IsEmpty());
    const std::vector<double>& down = files.elements.at(kDown);
    const HostTensor found = weights.read("layers.1.ffn.w2.weight");
    ASSERT_EQ(found.as<float>().size(), down.size());
    for (std::size_t i = 0; i < down.size(); ++i) ASSERT_NEAR(found.as<float>()[i], down[i], 1e-5) << i;
    // Heads of 12 rows: this program's row 1 is the file's row 6.
    const HostTensor query = weights.read("layers.1.attn.q_proj.weight");
    for (std::size_t i = 0; i < 48; ++i)
      ASSERT_NEAR(query.as<float>()[48 + i], files.elements.at(kQuery)[6 * 48 + i], 1e-5);
  }
}

// Every tensor of the folder comes back, packed ones from the bytes that a program has of them.
TEST(QuantisedFiles, come_back_bit_by_bit) {
  for (const Quantisation& one : kQuantisations) {
    for (const char* model : {kLlama, kGpt2}) {
      const QuantisedFolder files(model, one.config, one.form);
      const ModelWeights weights = files.weights();
      std::map<std::string, std::pair<PackedMatrix, HostTensor>> packed;
      for (const ParameterDeclaration& parameter : weights.parameters()) {
        if (parameter.type.shape.rank() != 2) continue;
        const PackedMatrix matrix = matrix_of(parameter, one.format, files.config());
        std::optional<HostTensor> bytes = weights.read_packed(parameter.name, matrix);
        if (!bytes) continue;
        HostTensor widened(parameter.type);
        unpack(matrix, bytes->data.data(), 0, matrix.elements(), widened.as<float>().data());
        EXPECT_EQ(widened.data, weights.read(parameter.name).data) << parameter.name;
        packed.emplace(parameter.name, std::pair(matrix, *std::move(bytes)));
      }
      EXPECT_THAT(packed, Contains(::testing::Key(std::string("layers.0.attn.output_proj.weight"))));
      ModelTensors tensors(
          files.config(), [&](const ParameterDeclaration& parameter) { return weights.read(parameter.name); }, {},
          [&](const std::string& name) -> std::optional<PackedBytes> {
            const auto found = packed.find(name);
            if (found == packed.end()) return std::nullopt;
            return PackedBytes{found->second.first, found->second.second.data};
          });
      for (std::size_t i = 0; i < tensors.declarations().size(); ++i) {
        const std::string& name = tensors.declarations()[i].name;
        const HostTensor value = tensors.value(i);
        EXPECT_TRUE(value.type == tensors.declarations()[i].type) << name;
        if (!files.tensors.contains(name)) ADD_FAILURE() << name;
        // The tables are rounded in other ways, and layers that share blocks are written wide.
        if (name.ends_with("nested_quant_map")) continue;
        if (value.type.dtype == DType::fp32 && files.tensors.at(name).type.dtype == DType::udynamic8) {
          EXPECT_THAT(name, HasSubstr("c_attn"));
          continue;
        }
        EXPECT_EQ(value.data, files.tensors.at(name).data) << name;
        EXPECT_TRUE(value.type == files.tensors.at(name).type) << name << value.type.to_string();
      }
      const PublishedPacking read = parse_model_config(tensors.config(), "made", {}, "made").config.packing;
      EXPECT_EQ(read.format, one.format);
      EXPECT_EQ(read.dtype, "float16");
    }
  }
}

TEST(QuantisedFiles, pack_the_weights_of_a_file_as_its_writer_does) {
  // Of elements that are far from the middle between two codes, so that the rounding of fp32 and fp64 is the same.
  Tensors files;
  std::vector<double> elements(16 * 24);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::size_t block = i / 64;
    elements[i] = static_cast<float>(kNormalFloats[i * 7 % 16] * static_cast<double>(1 + block));
  }
  write_4bit("x.weight", elements, 16, 24, {}, files);
  // The rows of two heads of 8, in this program's order.
  const PackedMatrix matrix{BaseWeights::nf4, 16, 24, {.head_size = 8, .rotated = 8}};
  std::vector<float> ours(elements.size());
  for (std::int64_t row = 0; row < 16; ++row)
    std::copy_n(elements.begin() + matrix.order.file_row(row) * 24, 24, ours.begin() + row * 24);
  std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
  pack(matrix, elements_of(ours), bytes);
  const QuantisedParts parts("x.weight", {{matrix, bytes}}, "float16");
  for (std::size_t i = 0; i < parts.declarations().size(); ++i) {
    const std::string& name = parts.declarations()[i].name;
    if (name.ends_with("nested_quant_map")) continue;
    EXPECT_EQ(parts.value(i).data, files.at(name).data) << name;
  }
}

// A form that a program does not have is widened alone.
TEST(QuantisedFiles, in_other_forms_are_widened) {
  const char* fp4 = R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "fp4"})";
  const std::pair<const char*, Form> forms[] = {
      {fp4, {"fp4", 64, false}}, {fp4, {"fp4", 128, true}}, {kSingle, {"nf4", 32, false}}, {kNf4, {"nf4", 128, true}}};
  for (const auto& [config, form] : forms) {
    const QuantisedFolder files(kLlama, config, form);
    const ModelWeights weights = files.weights();
    EXPECT_THAT(weights.problems(), IsEmpty());
    EXPECT_EQ(files.config().packing.widened.empty(), config != fp4);
    const HostTensor found = weights.read("layers.1.ffn.w2.weight");
    const std::vector<double>& down = files.elements.at(kDown);
    for (std::size_t i = 0; i < down.size(); ++i) ASSERT_NEAR(found.as<float>()[i], down[i], 1e-5) << i;
    EXPECT_THAT(error_of([&] {
                  weights.read_packed("layers.1.ffn.w2.weight", {BaseWeights::nf4, 48, 70});
                }),
                AllOf(HasSubstr(kDown), HasSubstr("--base-weights as-is")));
  }
}

TEST(QuantisedFiles, of_a_transposed_layer_are_out_by_in) {
  const QuantisedFolder files(kGpt2, kNf4);
  const ModelWeights weights = files.weights();
  EXPECT_THAT(weights.problems(), IsEmpty());
  const HostTensor found = weights.read("layers.0.ffn.w2.weight");  // [24, 96]
  const std::vector<double>& all = files.elements.at("transformer.h.0.mlp.c_proj.weight");
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(found.as<float>()[i], all[i], 1e-5) << i;
}

TEST(QuantisedFiles, leave_wide_what_they_have_wide_and_what_shares_blocks_with_others) {
  const auto wide = [](const QuantisedFolder& files, BaseWeights format) {
    std::vector<std::string> names;
    for (const PublishedWeight& one : published_weights(files.config(), format))
      if (one.stays_wide) names.push_back(one.parameter);
    return names;
  };
  const QuantisedFolder skipped(
      kLlama, R"({"load_in_8bit": true, "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp", "v_proj"]})",
      {.type = "int8"},
      {"model.layers.0.self_attn.v_proj.weight", "model.layers.1.self_attn.v_proj.weight",
       "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight", kDown});
  EXPECT_THAT(skipped.weights().problems(), IsEmpty());
  EXPECT_THAT(wide(skipped, BaseWeights::int8),
              ::testing::UnorderedElementsAre("layers.0.attn.v_proj.weight", "layers.1.attn.v_proj.weight",
                                              "layers.1.ffn.w1.weight", "layers.1.ffn.w2.weight",
                                              "layers.1.ffn.w3.weight", "lm_head.weight"));
  // q, k and v of GPT-2 are one tensor: 24 x 24 elements of each are no whole block of blocks, but whole rows.
  EXPECT_THAT(wide(QuantisedFolder(kGpt2, kNf4), BaseWeights::nf4),
              ElementsAre("layers.0.attn.q_proj.weight", "layers.0.attn.k_proj.weight", "layers.0.attn.v_proj.weight"));
  EXPECT_THAT(wide(QuantisedFolder(kGpt2, kSingle, {.is_nested = false}), BaseWeights::nf4_single), IsEmpty());
  EXPECT_THAT(wide(QuantisedFolder(kGpt2, kInt8, {.type = "int8"}), BaseWeights::int8), IsEmpty());
}

TEST(QuantisedFiles, name_the_modules_that_transformers_must_not_convert) {
  const TransformerConfig config = QuantisedFolder(kLlama, kNf4).config();
  std::vector<std::string> packed;
  for (const PublishedLayer& layer : published_layers(config)) packed.push_back(layer.name + ".weight");
  std::erase(packed, kQuery);
  EXPECT_THAT(unpacked_modules(config, packed), ElementsAre("lm_head", "model.layers.1.self_attn.q_proj"));
  const TransformerConfig mixtral =
      parse_model_config(parse_json(R"({"model_type": "mixtral", "num_hidden_layers": 1})"), "made", {}, "made").config;
  EXPECT_THAT(unpacked_modules(mixtral, {}), Contains("model.layers.0.block_sparse_moe.experts"));
}

TEST(QuantisedFiles, have_a_router_packed_only_where_the_model_had_it) {
  TransformerConfig config =
      parse_model_config(
          parse_json(R"({"model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 32,
                     "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 9})"),
          "made", {}, "made")
          .config;
  const PackedMatrix matrix{BaseWeights::nf4, config.architecture.experts.count, 64};
  const std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
  const std::string router = "model.layers.0.block_sparse_moe.gate";
  for (const bool was_packed : {false, true}) {
    if (was_packed) config.packing.format = BaseWeights::nf4;
    const ModelTensors tensors(config, {}, {}, [&](const std::string& name) -> std::optional<PackedBytes> {
      if (name != "layers.0.ffn.router.weight" && name != "layers.0.attn.v_proj.weight") return std::nullopt;
      return PackedBytes{matrix, bytes};
    });
    const auto skipped =
        tensors.config().at("quantization_config").at("llm_int8_skip_modules").get<std::vector<std::string>>();
    EXPECT_EQ(std::ranges::find(skipped, router) == skipped.end(), was_packed);
    EXPECT_EQ(std::ranges::find(tensors.declarations(), router + ".weight.absmax", &TensorDeclaration::name) !=
                  tensors.declarations().end(),
              was_packed);
  }
}

// What is wrong with a folder, behind a change of its tensors.
std::string problem_behind(const std::function<void(Tensors&)>& change, const char* config = kNf4,
                           const Form& form = {}) {
  QuantisedFolder files(kLlama, config, form);
  change(files.tensors);
  files.write();
  const std::vector<std::string> problems = files.weights().problems();
  return problems.empty() ? "" : problems.front();
}

void set_state(Tensors& files, const std::string& key, const Json& value) {
  HostTensor& state = files.at(std::string(kDown) + ".quant_state.bitsandbytes__nf4");
  Json fields = parse_json({reinterpret_cast<const char*>(state.data.data()), state.data.size()});
  fields[key] = value;
  const std::string text = fields.dump();
  state = bytes_of({text.begin(), text.end()}, list(text.size()));
}

TEST(QuantisedFiles, that_are_damaged_are_refused_by_a_sentence) {
  const std::string down = kDown;
  const auto without = [&](const std::string& end) {
    return problem_behind([&](Tensors& files) { files.erase(down + end); });
  };
  EXPECT_THAT(without(".absmax"), AllOf(HasSubstr(down), HasSubstr(".absmax' is missing")));
  EXPECT_THAT(without(".quant_map"), HasSubstr(".quant_map' is missing"));
  EXPECT_THAT(without(".nested_absmax"), HasSubstr(".nested_absmax' is missing"));
  EXPECT_THAT(without(".nested_quant_map"), HasSubstr(".nested_quant_map' is missing"));
  EXPECT_THAT(without(".quant_state.bitsandbytes__nf4"), HasSubstr("bitsandbytes__nf4' is missing"));
  const auto cut = [&](const std::string& end) {
    return problem_behind([&](Tensors& files) {
      HostTensor& tensor = files.at(down + end);
      const std::int64_t fewer = tensor.type.elements() - 1;
      tensor.data.resize(tensor.data.size() / static_cast<std::size_t>(fewer + 1) * static_cast<std::size_t>(fewer));
      tensor.type.shape = Shape{fewer};
    });
  };
  EXPECT_THAT(cut(""), HasSubstr("has 1679 bytes, and 48 x 70 elements of 4 bits take 1680"));
  EXPECT_THAT(cut(".absmax"), HasSubstr("must have 53 numbers of U8"));
  EXPECT_THAT(cut(".quant_map"), HasSubstr("must have 16 numbers of F32"));
  EXPECT_THAT(cut(".quant_state.bitsandbytes__nf4"), HasSubstr("quant_state"));
  const auto with_state = [&](const std::string& key, const Json& value) {
    return problem_behind([&](Tensors& files) { set_state(files, key, value); });
  };
  EXPECT_THAT(with_state("shape", {70, 48}), HasSubstr("has the shape [70,48], and the model needs [48, 70]"));
  EXPECT_THAT(with_state("quant_type", "fp4"), HasSubstr("not of the type nf4"));
  for (const Json& block : {Json(0), Json(63), Json(-64), Json(1e300), Json("64"), Json(8192)})
    EXPECT_THAT(with_state("blocksize", block), HasSubstr("'blocksize'")) << block;
  EXPECT_THAT(with_state("nested_blocksize", 128), HasSubstr("'nested_blocksize'"));
  EXPECT_THAT(with_state("nested_offset", nullptr), HasSubstr("'nested_offset'"));
  EXPECT_THAT(problem_behind([&](Tensors& files) { files.at(down + ".quant_map").as<float>()[3] = 0.5; }),
              HasSubstr("other numbers than nf4"));
  EXPECT_THAT(problem_behind([&](Tensors& files) { files.at(down + ".nested_quant_map").as<float>()[9] = 0.5; }),
              HasSubstr("other numbers than the dynamic map"));
  EXPECT_THAT(problem_behind([&](Tensors& files) { files.at(down + ".nested_absmax").as<float>()[0] = NAN; }),
              HasSubstr("not finite"));
  EXPECT_THAT(problem_behind([&](Tensors& files) { files[down + ".other"] = bytes_of({1}, {1}); }),
              HasSubstr("is no weight of this model"));
}

TEST(QuantisedFiles, of_8_bits_that_are_damaged_are_refused_by_a_sentence) {
  const std::string module = "model.layers.1.mlp.down_proj";
  const auto problem = [](const std::function<void(Tensors&)>& change) {
    return problem_behind(change, kInt8, {.type = "int8"});
  };
  EXPECT_THAT(problem([&](Tensors& files) { files.erase(module + ".SCB"); }), HasSubstr(".SCB' is missing"));
  EXPECT_THAT(problem([&](Tensors& files) { files[module + ".SCB"] = floats_of(std::vector<double>(47), {47}); }),
              HasSubstr("must have 48 numbers of F32"));
  EXPECT_THAT(problem([&](Tensors& files) { files[module + ".SCB"].as<float>()[5] = INFINITY; }),
              HasSubstr("not finite"));
  EXPECT_THAT(problem([&](Tensors& files) { files[module + ".weight_format"] = bytes_of({1}, {}); }),
              HasSubstr("the rows are not together"));
  EXPECT_THAT(problem([&](Tensors& files) {
                files[module + ".weight"].type.shape = {70, 48};
              }),
              HasSubstr("needs [48, 70]"));
  EXPECT_EQ(problem([&](Tensors& files) { files.erase(module + ".weight_format"); }), "");
}

TEST(QuantisedFiles, of_other_methods_are_refused) {
  const auto refusal = [](const char* quantisation) -> std::string {
    Json fields = parse_json(kLlama);
    fields["quantization_config"] = parse_json(quantisation);
    return error_of([&] { parse_model_config(fields, "made", {}, "made"); });
  };
  EXPECT_THAT(refusal(R"({"quant_method": "gptq", "load_in_4bit": true})"),
              HasSubstr("only quantised weights of bitsandbytes"));
  EXPECT_THAT(refusal(R"({"quant_method": "bitsandbytes"})"), HasSubstr("only quantised weights of bitsandbytes"));
  EXPECT_THAT(refusal(R"({"load_in_4bit": true, "llm_int8_skip_modules": [1]})"), HasSubstr("llm_int8_skip_modules"));
  EXPECT_THAT(refusal(R"({"load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16"})"), HasSubstr("read from bytes"));
  EXPECT_THAT(refusal(R"({"load_in_8bit": true, "llm_int8_has_fp16_weight": true})"), HasSubstr("read from bytes"));
  EXPECT_EQ(refusal(R"({"load_in_4bit": true, "llm_int8_skip_modules": "lm_head"})"), "");
}

// It would stand in the JSON of a weight that is written.
TEST(QuantisedFiles, have_no_type_that_pytorch_does_not_know) {
  Json fields = parse_json(kLlama);
  fields["quantization_config"] = parse_json(kSingle);
  fields["torch_dtype"] = R"(half", "blocksize": "1)";
  EXPECT_EQ(parse_model_config(fields, "made", {}, "made").config.packing.dtype, "");
}

}  // namespace
}  // namespace ridgepoint
