#include "interchange/huggingface/families/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/nearest.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// The first name of each is the one that is written.
constexpr std::array<NamedActivation, 8> kActivations = {{{"silu", Activation::silu},
                                                          {"swish", Activation::silu},
                                                          {"gelu", Activation::gelu},
                                                          {"gelu_python", Activation::gelu},
                                                          {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                          {"gelu_new", Activation::gelu_tanh},
                                                          {"gelu_fast", Activation::gelu_tanh},
                                                          {"relu", Activation::relu}}};

constexpr std::string_view kWindow = "sliding_attention";
constexpr std::string_view kFull = "full_attention";

// The shortest list whose repetition is `layers`.
std::vector<bool> shortest_period(const std::vector<bool>& layers) {
  for (std::size_t period = 1; period < layers.size(); ++period) {
    if (std::equal(layers.begin() + static_cast<std::ptrdiff_t>(period), layers.end(), layers.begin()))
      return {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(period)};
  }
  return layers;
}

std::vector<bool> parse_layer_types(const ConfigFields& fields, const Json& list, std::int64_t layers) {
  if (!list.is_array() || list.size() != static_cast<std::size_t>(layers))
    fields.fail("layer_types", fmt::format("must be a list of {} entries, one a layer", layers));
  std::vector<bool> windows;
  for (const Json& type : list) {
    const std::string text = type.is_string() ? type.get<std::string>() : dump_json(type);
    if (text != kWindow && text != kFull)
      fields.fail("layer_types",
                  fmt::format("has a layer of kind {}; {} and {} are supported", quote_name(text), kFull, kWindow));
    windows.push_back(text == kWindow);
  }
  return windows;
}

}  // namespace

Activation read_activation(ConfigFields& fields, std::string_view key, std::string_view absent) {
  const std::string text = fields.text(key, absent);
  std::vector<std::string_view> names;
  for (const auto& [name, activation] : kActivations) {
    if (name == text) return activation;
    names.push_back(name);
  }
  fields.fail(key, fmt::format("is {}, an activation that is not supported{}", quote_name(text),
                               hint(std::string_view(text).substr(0, 64), names)));
}

std::string_view activation_name(Activation activation) {
  return std::ranges::find(kActivations, activation, &NamedActivation::activation)->name;
}

void set_heads(const ConfigFields& fields, TransformerConfig& c, std::int64_t kv_heads,
               std::optional<std::int64_t> head_size) {
  if (c.heads % kv_heads != 0)
    fields.fail("num_key_value_heads", fmt::format("is {} and does not divide the {} heads", kv_heads, c.heads));
  if (!head_size && c.d_model % c.heads != 0)
    fields.fail("num_attention_heads", fmt::format("is {} and does not divide the width {}; a config.json of such a "
                                                   "model needs head_dim",
                                                   c.heads, c.d_model));
  c.architecture.kv_heads = kv_heads == c.heads ? 0 : kv_heads;
  const bool is_usual = !head_size || (c.d_model % c.heads == 0 && *head_size == c.d_model / c.heads);
  c.architecture.head_size = is_usual ? 0 : *head_size;
}

void note_dropout(ConfigFields& fields, std::initializer_list<std::string_view> keys, double absent) {
  std::string named;
  for (const std::string_view key : keys) {
    const double share = fields.not_negative(key, absent);
    if (share > 0) named += fmt::format("{}{} {:g}", named.empty() ? "" : ", ", key, share);
  }
  if (!named.empty()) fields.note(fmt::format("dropout is off: {}", named));
}

TransformerConfig read_decoder(ConfigFields& fields, const DecoderDefaults& d) {
  TransformerConfig c;
  c.vocab = fields.size("vocab_size", d.vocab);
  c.d_model = fields.size("hidden_size", d.hidden);
  c.d_ff = fields.size(d.intermediate_key, d.intermediate);
  c.layers = fields.size("num_hidden_layers", d.layers, kMaxLayers);
  c.heads = fields.size("num_attention_heads", d.heads);
  set_heads(fields, c, fields.optional_size("num_key_value_heads", d.kv_heads).value_or(c.heads),
            fields.optional_size("head_dim", d.head_dim));
  Architecture& a = c.architecture;
  a.max_context = fields.size("max_position_embeddings", d.max_positions);
  a.norm_epsilon = fields.positive("rms_norm_eps", d.epsilon);
  a.activation = read_activation(fields, d.activation_key, d.activation);
  a.tied_head = fields.flag("tie_word_embeddings", d.tied);
  note_dropout(fields, {"attention_dropout", "resid_pdrop", "embd_pdrop"});
  return c;
}

void write_decoder(const TransformerConfig& c, Json& fields) {
  const Architecture& a = c.architecture;
  fields["vocab_size"] = c.vocab;
  fields["hidden_size"] = c.d_model;
  fields["intermediate_size"] = c.d_ff;
  fields["num_hidden_layers"] = c.layers;
  fields["num_attention_heads"] = c.heads;
  fields["num_key_value_heads"] = c.kv_heads();
  fields["head_dim"] = c.head_size();
  fields["max_position_embeddings"] = a.max_context > 0 ? a.max_context : c.context;
  fields["rms_norm_eps"] = a.norm_epsilon;
  fields["hidden_act"] = activation_name(a.activation);
  fields["tie_word_embeddings"] = a.tied_head;
  fields["attention_dropout"] = 0.0;
}

void read_windows(ConfigFields& fields, TransformerConfig& c, std::optional<std::int64_t> window,
                  const std::vector<bool>& absent) {
  const Json* list = fields.find("layer_types");
  const std::vector<bool> layers = list != nullptr ? parse_layer_types(fields, *list, c.layers) : absent;
  const bool has_windows = std::ranges::find(layers, true) != layers.end();
  if (list != nullptr && has_windows && !window)
    fields.fail("layer_types", fmt::format("has layers of kind {}, but the file has no sliding_window", kWindow));
  if (!window || !has_windows) return;
  c.architecture.window = *window;
  c.architecture.window_layers = shortest_period(layers);
  if (c.architecture.window_layers == std::vector{true}) c.architecture.window_layers.clear();
}

void write_layer_types(const TransformerConfig& c, Json& fields) {
  const Architecture& a = c.architecture;
  Json list = Json::array();
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const bool has_window = a.window > 0 && (a.window_layers.empty() ||
                                             a.window_layers[static_cast<std::size_t>(layer) % a.window_layers.size()]);
    list.push_back(has_window ? kWindow : kFull);
  }
  fields["layer_types"] = std::move(list);
}

}  // namespace ridgepoint
