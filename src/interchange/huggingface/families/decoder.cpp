#include "interchange/huggingface/families/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "core/text/nearest.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// The first name of each is the one that is written.
constexpr std::array<NamedActivation, 9> kActivations = {{{"silu", Activation::silu},
                                                          {"swish", Activation::silu},
                                                          {"gelu", Activation::gelu},
                                                          {"gelu_python", Activation::gelu},
                                                          {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                          {"gelu_new", Activation::gelu_tanh},
                                                          {"gelu_fast", Activation::gelu_tanh},
                                                          {"relu", Activation::relu},
                                                          {"relu2", Activation::relu_squared}}};

constexpr std::string_view kWindow = "sliding_attention";
constexpr std::string_view kFull = "full_attention";

constexpr std::string_view kChunk = "chunked_attention";

// Whether each layer has a window, or a chunk.
std::vector<bool> parse_layer_types(ConfigFields& fields, const Json& list, std::int64_t layers, bool chunks) {
  const std::string_view limited = chunks ? kChunk : kWindow;
  std::vector<bool> windows;
  for (const Json& type : entries_of_layers(fields, "layer_types", list, layers)) {
    const std::string text = type.is_string() ? type.get<std::string>() : dump_json(type);
    if (text != limited && text != kFull)
      fields.fail("layer_types", "has a layer of kind {}; {} and {} are supported", quote_name(text), kFull, limited);
    windows.push_back(text == limited);
  }
  return windows;
}

// What the fields of a kind of scaling say.
struct NamedScaling {
  std::string_view name;
  RotaryScaling scaling;
};
// The first name of each is the one that is written. mrope gives the tokens of images positions of their own; those of
// text are as usual.
constexpr std::array<NamedScaling, 8> kScalings = {{{"default", RotaryScaling::none},
                                                    {"mrope", RotaryScaling::none},
                                                    {"linear", RotaryScaling::linear},
                                                    {"llama3", RotaryScaling::llama3},
                                                    {"yarn", RotaryScaling::yarn},
                                                    {"longrope", RotaryScaling::longrope},
                                                    {"su", RotaryScaling::longrope},
                                                    {"dynamic", RotaryScaling::dynamic}}};

RotaryScaling read_kind(ConfigFields& object) {
  std::string kind = object.text("rope_type", "");
  const std::string old_kind = object.text("type", "default");
  if (kind.empty()) kind = old_kind;
  const auto* found = std::ranges::find(kScalings, kind, &NamedScaling::name);
  if (found == kScalings.end())
    object.fail("rope_type",
                "is {}, a scaling of rotary embedding that is not supported; default, linear, "
                "llama3, yarn, longrope and dynamic are",
                quote_name(kind));
  return found->scaling;
}

// The factor, which may be the ratio of the contexts for those kinds that have an original one.
double read_factor(ConfigFields& object, const TransformerConfig& config, const Rotary& rotary, bool may_be_ratio) {
  if (!object.has("factor") && !(may_be_ratio && object.has("original_max_position_embeddings")))
    object.fail("factor", "is missing; rope_type {} needs it", name(rotary.scaling));
  const double ratio =
      static_cast<double>(config.architecture.max_context) / static_cast<double>(rotary.original_context);
  const double factor = object.positive("factor", ratio);
  if (factor < 1) object.fail("factor", "is {:g}; it must be at least 1", factor);
  return factor;
}

double yarn_amplitude(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

void read_yarn(ConfigFields& object, const TransformerConfig& config, Rotary& rotary) {
  rotary.factor = read_factor(object, config, rotary, true);
  const double scale = object.not_negative("mscale", 0);
  const double of_all = object.not_negative("mscale_all_dim", 0);
  const double usual = scale > 0 && of_all > 0
                           ? yarn_amplitude(rotary.factor, scale) / yarn_amplitude(rotary.factor, of_all)
                           : yarn_amplitude(rotary.factor, 1);
  rotary.amplitude = object.positive("attention_factor", usual);
  rotary.fast_turns = object.positive("beta_fast", 32);
  rotary.slow_turns = object.positive("beta_slow", 1);
  rotary.whole_steps = object.flag("truncate", true);
  if (rotary.fast_turns < rotary.slow_turns)
    object.fail("beta_fast", "is {:g}; it must not be below beta_slow, {:g}", rotary.fast_turns, rotary.slow_turns);
}

std::vector<double> read_factors(ConfigFields& object, std::string_view key) {
  const Json* list = object.find(key);
  if (list == nullptr || !list->is_array()) object.fail(key, "must be a list of factors; rope_type longrope needs it");
  std::vector<double> factors;
  for (const Json& factor : *list) {
    if (!factor.is_number() || !(factor.get<double>() > 0))
      object.fail(key, "has the entry {}; factors are above 0", printable(dump_json(factor)));
    factors.push_back(factor.get<double>());
  }
  return factors;
}

// transformers 5 has the original context in the object, files of Phi-3 beside it.
void read_longrope(ConfigFields& object, const TransformerConfig& config, Rotary& rotary) {
  rotary.short_factors = read_factors(object, "short_factor");
  rotary.long_factors = read_factors(object, "long_factor");
  const double ratio =
      static_cast<double>(config.architecture.max_context) / static_cast<double>(rotary.original_context);
  const double factor = object.positive("factor", ratio);
  const double usual =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(rotary.original_context)));
  rotary.amplitude = object.positive("attention_factor", usual);
}

void read_scaling(ConfigFields& object, const TransformerConfig& config, std::int64_t original, Rotary& rotary) {
  rotary.scaling = read_kind(object);
  // Of images, and of the families that read them.
  for (const char* key : {"mrope_section", "mrope_interleaved", "interleaved", "llama_4_scaling_beta", "alpha",
                          "max_position_embeddings", "mscale", "mscale_all_dim", "short_mscale", "long_mscale"})
    object.skip(key);
  if (rotary.scaling != RotaryScaling::none && rotary.scaling != RotaryScaling::linear)
    rotary.original_context =
        object.size("original_max_position_embeddings", rotary.scaling == RotaryScaling::llama3 ? 8192 : original);
  switch (rotary.scaling) {
    case RotaryScaling::proportional:
    case RotaryScaling::none: return;
    case RotaryScaling::yarn: return read_yarn(object, config, rotary);
    case RotaryScaling::longrope: return read_longrope(object, config, rotary);
    case RotaryScaling::linear:
    case RotaryScaling::dynamic: rotary.factor = read_factor(object, config, rotary, false); return;
    case RotaryScaling::llama3: break;
  }
  rotary.factor = read_factor(object, config, rotary, false);
  rotary.low_frequency_factor = object.positive("low_freq_factor", 1);
  rotary.high_frequency_factor = object.positive("high_freq_factor", 4);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor)
    object.fail("high_freq_factor", "is {:g}; it must be above low_freq_factor, {:g}", rotary.high_frequency_factor,
                rotary.low_frequency_factor);
}

// Each pair of elements that is rotated has a factor.
void check_factors(const ConfigFields& fields, const TransformerConfig& config, const Rotary& rotary) {
  if (rotary.scaling != RotaryScaling::longrope) return;
  const auto pairs = static_cast<std::size_t>(rotated_width(config, rotary) / 2);
  for (const std::vector<double>* factors : {&rotary.short_factors, &rotary.long_factors}) {
    if (factors->size() != pairs)
      fields.fail("rope_scaling", "has {} factors for the {} pairs that are rotated", factors->size(), pairs);
  }
}

void check_share(const ConfigFields& fields, const TransformerConfig& config, double share, RotaryShare allowed) {
  if (share == 1 && config.head_size() % 2 == 0) return;
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (share == 1) fields.fail("head_dim", "is {}; rotary embedding needs an even one", config.head_size());
  if (allowed == RotaryShare::whole) fields.fail(kKey, "is not 1; models of this family rotate whole heads");
  const auto rotated = static_cast<std::int64_t>(static_cast<double>(config.head_size()) * share);
  if (share > 1 || rotated < 2 || rotated % 2 != 0)
    fields.fail(kKey, "is {:g}: it rotates {} of the {} elements of a head; it must be an even part", share, rotated,
                config.head_size());
}

// 0 in the architecture stands for the usual size.
void set_heads(const ConfigFields& fields, TransformerConfig& c, std::int64_t kv_heads,
               std::optional<std::int64_t> head_size) {
  if (c.heads % kv_heads != 0)
    fields.fail("num_key_value_heads", "is {} and does not divide the {} heads", kv_heads, c.heads);
  if (!head_size && c.d_model % c.heads != 0)
    fields.fail("num_attention_heads",
                "is {} and does not divide the width {}; a config.json of such a "
                "model needs head_dim",
                c.heads, c.d_model);
  c.architecture.kv_heads = kv_heads == c.heads ? 0 : kv_heads;
  const bool is_usual = !head_size || (c.d_model % c.heads == 0 && *head_size == c.d_model / c.heads);
  c.architecture.head_size = is_usual ? 0 : *head_size;
}

}  // namespace

void attention_bias(FamilyFields& fields, Architecture& architecture, bool absent, std::string_view key) {
  fields.flag(key, architecture.projection_bias, absent);
  architecture.output_bias = architecture.projection_bias;
}

Activation read_activation(ConfigFields& fields, std::string_view key, std::string_view absent) {
  const std::string text = fields.text(key, absent);
  std::vector<std::string_view> names;
  for (const auto& [name, activation] : kActivations) {
    if (name == text) return activation;
    names.push_back(name);
  }
  fields.fail(key, "is {}, an activation that is not supported{}", quote_name(text),
              hint(std::string_view(text).substr(0, 64), names));
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

Json scaling_of(const Rotary& rotary) {
  if (rotary.scaling == RotaryScaling::none) return {{"rope_type", "default"}};
  Json scaling = {{"rope_type", name(rotary.scaling)}};
  if (rotary.scaling != RotaryScaling::longrope) scaling["factor"] = rotary.factor;
  if (rotary.scaling == RotaryScaling::llama3) {
    scaling["low_freq_factor"] = rotary.low_frequency_factor;
    scaling["high_freq_factor"] = rotary.high_frequency_factor;
  }
  if (rotary.scaling == RotaryScaling::yarn) {
    scaling["beta_fast"] = rotary.fast_turns;
    scaling["beta_slow"] = rotary.slow_turns;
    scaling["truncate"] = rotary.whole_steps;
  }
  if (rotary.scaling == RotaryScaling::longrope) {
    scaling["short_factor"] = rotary.short_factors;
    scaling["long_factor"] = rotary.long_factors;
  }
  if (rotary.scaling == RotaryScaling::yarn || rotary.scaling == RotaryScaling::longrope)
    scaling["attention_factor"] = rotary.amplitude;
  if (rotary.scaling != RotaryScaling::linear && rotary.scaling != RotaryScaling::proportional)
    scaling["original_max_position_embeddings"] = rotary.original_context;
  return scaling;
}

void write_rotary(const Rotary& rotary, Json& fields, std::string_view theta_key) {
  fields[std::string(theta_key)] = rotary.theta;
  if (rotary.share != 1) fields["partial_rotary_factor"] = rotary.share;
  fields["rope_scaling"] = rotary.scaling == RotaryScaling::none ? Json(nullptr) : scaling_of(rotary);
}

Json rotary_parameters(const Rotary& rotary) {
  Json parameters = scaling_of(rotary);
  parameters["rope_theta"] = rotary.theta;
  if (rotary.scaling == RotaryScaling::proportional) parameters["partial_rotary_factor"] = rotary.share;
  return parameters;
}

void write_rotaries_by_kind(FamilyFields& fields, const Architecture& a) {
  fields.write("rope_parameters", {{kFull, rotary_parameters(a.rotary)},
                                   {kWindow, rotary_parameters(a.separate_rotary ? a.window_rotary : a.rotary)}});
}

std::vector<bool> pattern_of(const std::vector<bool>& layers, bool if_empty) {
  return std::ranges::find(layers, !if_empty) == layers.end() ? std::vector<bool>() : shortest_period(layers);
}

std::vector<Json> entries_of_layers(ConfigFields& fields, std::string_view key, const Json& list, std::int64_t layers) {
  const auto count = static_cast<std::size_t>(layers);
  if (!list.is_array() || list.size() < count) fields.fail(key, "must be a list of {} entries, one a layer", layers);
  if (list.size() > count)
    fields.note(fmt::format("of the {} entries of {} the first {} count", list.size(), key, layers));
  return {list.begin(), list.begin() + layers};
}

std::optional<std::vector<bool>> read_layer_flags(ConfigFields& fields, std::string_view key, std::int64_t layers) {
  const Json* list = fields.find(key);
  if (list == nullptr || (list->is_array() && list->empty())) return std::nullopt;
  std::vector<bool> flags;
  for (const Json& entry : entries_of_layers(fields, key, *list, layers)) {
    const bool is_flag = entry.is_boolean() || entry == 0 || entry == 1;
    if (!is_flag) fields.fail(key, "has the entry {}; entries are 0 or 1", printable(dump_json(entry)));
    flags.push_back(entry.is_boolean() ? entry.get<bool>() : entry == 1);
  }
  return flags;
}

std::optional<std::vector<bool>> read_layer_numbers(ConfigFields& fields, std::string_view key, std::int64_t layers,
                                                    std::string_view what) {
  const Json* list = fields.find(key);
  if (list == nullptr) return std::nullopt;
  if (!list->is_array()) fields.fail(key, "must be a list of the layers {}", what);
  std::vector<bool> named(static_cast<std::size_t>(layers), false);
  for (const Json& layer : *list) {
    if (!layer.is_number_integer() || layer.get<std::uint64_t>() >= named.size())
      fields.fail(key, "names the layer {}; there are {}", printable(dump_json(layer)), layers);
    named[layer.get<std::size_t>()] = true;
  }
  return named;
}

std::vector<bool> windows_but_every(std::int64_t period, std::int64_t layers) {
  return layers_where(layers, [&](std::int64_t layer) { return (layer + 1) % period != 0; });
}

void FamilyFields::decoder(TransformerConfig& c, const DecoderDefaults& d) {
  if (in_ != nullptr) c = {};
  Architecture& a = c.architecture;
  const DecoderSizes& sizes = d.sizes;
  const auto unless_zero = [](std::int64_t size) { return size > 0 ? std::optional(size) : std::nullopt; };
  size(d.vocab_key, c.vocab, sizes.vocab);
  size(d.hidden_key, c.d_model, sizes.hidden);
  if (in_ != nullptr)
    c.d_ff = d.wide_by_four ? in_->optional_size(d.intermediate_key, std::nullopt).value_or(4 * c.d_model)
                            : in_->size(d.intermediate_key, sizes.intermediate);
  write(d.intermediate_key, c.d_ff);
  size(d.layers_key, c.layers, sizes.layers, kMostLayers);
  size(d.heads_key, c.heads, sizes.heads);
  if (in_ != nullptr)
    set_heads(*in_, c, in_->optional_size(d.kv_heads_key, unless_zero(sizes.kv_heads)).value_or(c.heads),
              in_->optional_size("head_dim", unless_zero(sizes.head_dim)));
  write(d.kv_heads_key, c.kv_heads());
  write("head_dim", c.head_size());
  positions(d.positions_key, c, sizes.max_positions);
  positive(d.epsilon_key, a.norm_epsilon, sizes.epsilon);
  if (!d.activation_key.empty()) {
    if (in_ != nullptr) a.activation = read_activation(*in_, d.activation_key, d.activation);
    write(d.activation_key, activation_name(a.activation));
  }
  flag("tie_word_embeddings", a.tied_head, sizes.tied);
  write("attention_dropout", 0.0);
  write("pad_token_id", nullptr);  // the defaults of many families lie outside small vocabularies
  if (out_ != nullptr) {
    if (d.theta) write_rotary(a.rotary, *out_, d.theta_key);
    if (d.share != 1) write("partial_rotary_factor", a.rotary.share);  // also 1, which is not the usual one
    return;
  }
  note_dropout(*in_,
               {"attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "residual_dropout", "embedding_dropout",
                "hidden_dropout", "dropout", "activation_dropout", "resid_dropout", "embed_dropout"});
  if (d.theta) a.rotary = read_rotary(*in_, c, d);
}

void FamilyFields::flag(std::string_view key, bool& value, bool absent) {
  if (in_ != nullptr) value = in_->flag(key, absent);
  write(key, value);
}

void FamilyFields::size(std::string_view key, std::int64_t& value, std::int64_t absent, std::int64_t most) {
  if (in_ != nullptr) value = in_->size(key, absent, most);
  write(key, value);
}

void FamilyFields::positions(std::string_view key, TransformerConfig& config, std::int64_t absent) {
  std::int64_t& most = config.architecture.max_context;
  if (in_ != nullptr) most = in_->size(key, absent);
  write(key, most > 0 ? most : config.context);
}

void FamilyFields::cap(std::string_view key, double& value, double absent) {
  if (in_ != nullptr) {
    value = in_->contains(key) ? in_->positive(key, 0) : absent;
    in_->skip(key);
  }
  write_or_null(key, value);
}

void FamilyFields::positive(std::string_view key, double& value, double absent) {
  if (in_ != nullptr) value = in_->positive(key, absent);
  write(key, value);
}

void FamilyFields::refuse(std::string_view key, std::string_view why) {
  if (in_ != nullptr) in_->refuse(key, why);
}

void FamilyFields::skip(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (in_ != nullptr) in_->skip(key);
  }
}

void FamilyFields::write(std::string_view key, Json value) {
  if (out_ != nullptr) (*out_)[std::string(key)] = std::move(value);
}

void FamilyFields::write_into(std::string_view object, std::string_view key, Json value) {
  if (out_ != nullptr) (*out_)[std::string(object)][std::string(key)] = std::move(value);
}

void windows(FamilyFields& fields, TransformerConfig& config, std::optional<std::int64_t> absent_window,
             const std::vector<bool>& absent) {
  if (ConfigFields* in = fields.in())
    read_windows(*in, config, in->optional_size("sliding_window", absent_window), absent);
  fields.write_or_null("sliding_window", config.architecture.window);
  write_layer_types(fields, config);
}

void read_windows(ConfigFields& fields, TransformerConfig& c, std::optional<std::int64_t> window,
                  const std::vector<bool>& absent) {
  const Json* list = fields.find("layer_types");
  const bool chunks = c.architecture.chunks;
  const std::vector<bool> layers = list != nullptr ? parse_layer_types(fields, *list, c.layers, chunks) : absent;
  const bool has_windows = std::ranges::find(layers, true) != layers.end();
  if (list != nullptr && has_windows && !window)
    fields.fail("layer_types", "has layers of kind {}, but the file has no sliding_window", kWindow);
  if (!window || !has_windows) return;
  c.architecture.window = *window;
  c.architecture.window_layers = pattern_of(layers, true);
}

void window_of_all_layers(FamilyFields& fields, TransformerConfig& c, std::optional<std::int64_t> absent) {
  if (ConfigFields* in = fields.in())
    read_windows(*in, c, in->optional_size("sliding_window", absent),
                 std::vector<bool>(static_cast<std::size_t>(c.layers), true));
  fields.write_or_null("sliding_window", c.architecture.window);
}

void rotate_with_window(TransformerConfig& c) {
  Architecture& a = c.architecture;
  a.unrotated_layers =
      pattern_of(layers_where(c.layers, [&](std::int64_t layer) { return !a.has_window(layer); }), false);
}

void write_layer_types(FamilyFields& fields, const TransformerConfig& c) {
  const Architecture& a = c.architecture;
  fields.write_layers("layer_types", c, [&](std::int64_t layer) {
    return !a.has_window(layer) ? kFull : a.chunks ? kChunk : kWindow;
  });
}

void rotated_part(FamilyFields& fields, TransformerConfig& c, std::int64_t absent) {
  std::int64_t rotated = rotated_width(c, c.architecture.rotary);
  fields.size("rotary_dim", rotated, absent);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  if (rotated % 2 != 0 || rotated > c.head_size()) in->fail("rotary_dim", "must be an even part of a head");
  c.architecture.rotary.share = static_cast<double>(rotated) / static_cast<double>(c.head_size());
}

Rotary read_rotary_object(ConfigFields& object, const TransformerConfig& config, double absent_theta,
                          std::optional<std::int64_t> original) {
  Rotary rotary;
  rotary.theta = object.positive("rope_theta", absent_theta);
  read_scaling(object, config, original.value_or(config.architecture.max_context), rotary);
  return rotary;
}

bool read_rotaries_by_kind(ConfigFields& fields, TransformerConfig& c, double theta, double window_theta) {
  Architecture& a = c.architecture;
  std::optional<ConfigFields> both = fields.object("rope_parameters");
  if (!both || !both->has(kFull)) return false;
  if (c.head_size() % 2 != 0) fields.fail("head_dim", "is {}; rotary embedding needs an even one", c.head_size());
  if (std::optional<ConfigFields> object = both->object(kFull)) a.rotary = read_rotary_object(*object, c, theta);
  a.window_rotary.theta = window_theta;
  if (std::optional<ConfigFields> object = both->object(kWindow))
    a.window_rotary = read_rotary_object(*object, c, window_theta);
  return true;
}

std::optional<ConfigFields> rotary_object(ConfigFields& fields) {
  std::optional<ConfigFields> object = fields.object("rope_parameters");
  std::optional<ConfigFields> old_object = fields.object("rope_scaling");
  return object ? std::move(object) : std::move(old_object);
}

Rotary read_rotary(ConfigFields& fields, const TransformerConfig& config, const DecoderDefaults& defaults) {
  Rotary rotary;
  rotary.theta = fields.positive(defaults.theta_key, *defaults.theta);
  rotary.share = fields.positive("partial_rotary_factor", defaults.share);
  if (std::optional<ConfigFields> object = rotary_object(fields)) {
    const double share = object->positive("partial_rotary_factor", rotary.share);
    // Files of Phi-3 have it beside the object.
    const std::int64_t original = fields.has("original_max_position_embeddings")
                                      ? fields.size("original_max_position_embeddings", 1)
                                      : config.architecture.max_context;
    rotary = read_rotary_object(*object, config, rotary.theta, original);
    rotary.share = share;
    const std::vector<std::string> unread = object->unread();
    if (!unread.empty())
      fields.note(
          fmt::format("ignored: {}, which rotary embedding of this kind does not read", fmt::join(unread, ", ")));
  }
  if (defaults.rotary_share != RotaryShare::own) check_share(fields, config, rotary.share, defaults.rotary_share);
  check_factors(fields, config, rotary);
  return rotary;
}

}  // namespace ridgepoint
