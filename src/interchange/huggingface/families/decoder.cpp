#include "interchange/huggingface/families/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

void read_scaling(ConfigFields& object, Rotary& rotary) {
  std::string kind = object.text("rope_type", "");
  const std::string old_kind = object.text("type", "default");
  if (kind.empty()) kind = old_kind;
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    object.fail("rope_type", fmt::format("is {}, a scaling of rotary embedding that is not supported; default, linear "
                                         "and llama3 are",
                                         quote_name(kind)));
  rotary.scaling = kind == "linear" ? RotaryScaling::linear : RotaryScaling::llama3;
  if (!object.has("factor")) object.fail("factor", fmt::format("is missing; rope_type {} needs it", kind));
  rotary.factor = object.positive("factor", 1);
  if (rotary.factor < 1) object.fail("factor", fmt::format("is {:g}; it must be at least 1", rotary.factor));
  if (kind == "linear") return;
  rotary.low_frequency_factor = object.positive("low_freq_factor", 1);
  rotary.high_frequency_factor = object.positive("high_freq_factor", 4);
  rotary.original_context = object.size("original_max_position_embeddings", 8192);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor)
    object.fail("high_freq_factor", fmt::format("is {:g}; it must be above low_freq_factor, {:g}",
                                                rotary.high_frequency_factor, rotary.low_frequency_factor));
}

void check_share(const ConfigFields& fields, const TransformerConfig& config, double share, RotaryShare allowed) {
  if (share == 1 && config.head_size() % 2 == 0) return;
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (share == 1) fields.fail("head_dim", fmt::format("is {}; rotary embedding needs an even one", config.head_size()));
  if (allowed == RotaryShare::whole) fields.fail(kKey, "is not 1; models of this family rotate whole heads");
  const auto rotated = static_cast<std::int64_t>(static_cast<double>(config.head_size()) * share);
  if (share > 1 || rotated < 2 || rotated % 2 != 0)
    fields.fail(kKey, fmt::format("is {:g}: it rotates {} of the {} elements of a head; it must be an even part", share,
                                  rotated, config.head_size()));
}

// 0 in the architecture stands for the usual size.
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

void write_rotary(const Rotary& rotary, Json& fields) {
  fields["rope_theta"] = rotary.theta;
  if (rotary.share != 1) fields["partial_rotary_factor"] = rotary.share;
  fields["rope_scaling"] = nullptr;
  if (rotary.scaling == RotaryScaling::none) return;
  Json scaling = {{"rope_type", name(rotary.scaling)}, {"factor", rotary.factor}};
  if (rotary.scaling == RotaryScaling::llama3) {
    scaling["low_freq_factor"] = rotary.low_frequency_factor;
    scaling["high_freq_factor"] = rotary.high_frequency_factor;
    scaling["original_max_position_embeddings"] = rotary.original_context;
  }
  fields["rope_scaling"] = std::move(scaling);
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
  c.layers = fields.size("num_hidden_layers", d.layers, kMostLayers);
  c.heads = fields.size("num_attention_heads", d.heads);
  set_heads(fields, c, fields.optional_size("num_key_value_heads", d.kv_heads).value_or(c.heads),
            fields.optional_size("head_dim", d.head_dim));
  Architecture& a = c.architecture;
  a.max_context = fields.size("max_position_embeddings", d.max_positions);
  a.norm_epsilon = fields.positive("rms_norm_eps", d.epsilon);
  a.activation = read_activation(fields, d.activation_key, d.activation);
  a.tied_head = fields.flag("tie_word_embeddings", d.tied);
  note_dropout(fields, {"attention_dropout", "resid_pdrop", "embd_pdrop"});
  if (d.theta) a.rotary = read_rotary(fields, c, *d.theta, d.rotary_share);
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
  write_rotary(a.rotary, fields);
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

void read_window_of_all_layers(ConfigFields& fields, TransformerConfig& c, std::optional<std::int64_t> absent) {
  read_windows(fields, c, fields.optional_size("sliding_window", absent),
               std::vector<bool>(static_cast<std::size_t>(c.layers), true));
}

void write_window(const TransformerConfig& c, Json& fields) {
  const std::int64_t window = c.architecture.window;
  fields["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
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

Rotary read_rotary_object(ConfigFields& object, double absent_theta) {
  Rotary rotary;
  rotary.theta = object.positive("rope_theta", absent_theta);
  read_scaling(object, rotary);
  return rotary;
}

Rotary read_rotary(ConfigFields& fields, const TransformerConfig& config, double absent_theta, RotaryShare allowed) {
  Rotary rotary;
  rotary.theta = fields.positive("rope_theta", absent_theta);
  rotary.share = fields.positive("partial_rotary_factor", 1);
  std::optional<ConfigFields> object = fields.object("rope_parameters");
  std::optional<ConfigFields> old_object = fields.object("rope_scaling");
  if (!object) object = std::move(old_object);
  if (object) {
    const double share = object->positive("partial_rotary_factor", rotary.share);
    rotary = read_rotary_object(*object, rotary.theta);
    rotary.share = share;
    const std::vector<std::string> unread = object->unread();
    if (!unread.empty())
      fields.note(
          fmt::format("ignored: {}, which rotary embedding of this kind does not read", fmt::join(unread, ", ")));
  }
  check_share(fields, config, rotary.share, allowed);
  return rotary;
}

}  // namespace ridgepoint
