// The fields that all families but GPT-2 share, under the names that Llama gave them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer/transformer.h"

namespace ridgepoint {

// Whether a family can rotate a part of a head. own: it checks the part itself.
enum class RotaryShare : std::uint8_t { whole, may_be_partial, own };

struct DecoderSizes {
  std::int64_t vocab = 32000, hidden = 4096, intermediate = 11008, layers = 32, heads = 32;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t max_positions = 2048;
  double epsilon = 1e-6;
  bool tied = false;
};
namespace usual {
#define RIDGEPOINT_FAMILY(name)
#define RIDGEPOINT_SIZED_FAMILY(name, ...) inline constexpr DecoderSizes name = {__VA_ARGS__};
#include "interchange/huggingface/families/families.def"
#undef RIDGEPOINT_FAMILY
#undef RIDGEPOINT_SIZED_FAMILY
}  // namespace usual

// Of a family, where its config.json lacks the field.
struct DecoderDefaults {
  DecoderSizes sizes = {};
  std::string_view intermediate_key = "intermediate_size";
  std::string_view activation_key = "hidden_act";  // empty: the family reads it itself
  std::string_view activation = "silu";
  std::optional<double> theta = 10000;  // of rotary embedding; empty: the family reads it itself, or has none
  RotaryShare rotary_share = RotaryShare::whole;
  double share = 1;  // of a head that is rotated
  std::string_view hidden_key = "hidden_size", layers_key = "num_hidden_layers", heads_key = "num_attention_heads";
  std::string_view kv_heads_key = "num_key_value_heads", positions_key = "max_position_embeddings";
  std::string_view epsilon_key = "rms_norm_eps", theta_key = "rope_theta", vocab_key = "vocab_size";
  bool wide_by_four = false;  // a feed-forward layer is four times the width where the file has no intermediate size
};

// The fields of one family, which one function either reads or writes: each call names a field and the member that has
// its value. When writing, members have their values already; what the function sets besides changes nothing.
class FamilyFields {
 public:
  explicit FamilyFields(ConfigFields& in) : in_(&in) {}
  explicit FamilyFields(Json& out) : out_(&out) {}

  // The fields that are read; null when writing.
  ConfigFields* in() { return in_; }
  Json* out() { return out_; }  // null when reading
  // Sizes, RMS norms, activation, rotary embedding and head, under the keys of `defaults`. Throws Error also where
  // heads do not divide what they must.
  void decoder(TransformerConfig& config, const DecoderDefaults& defaults);
  void flag(std::string_view key, bool& value, bool absent);
  void size(std::string_view key, std::int64_t& value, std::int64_t absent, std::int64_t most = ConfigFields::kMaxSize);
  // The longest context, which is written as that of the model where it has no limit.
  void positions(std::string_view key, TransformerConfig& config, std::int64_t absent);
  // A cap of scores or logits, whose field is null where there is none.
  void cap(std::string_view key, double& value, double absent);
  void positive(std::string_view key, double& value, double absent);
  // A flag that stands for one of two values.
  template <typename Value>
  void choice(std::string_view key, Value& value, Value where_true, Value where_false, bool absent) {
    bool is_true = value != where_false;
    flag(key, is_true, absent);
    value = is_true ? where_true : where_false;
  }
  // As ConfigFields has them, when reading.
  void refuse(std::string_view key, std::string_view why);
  void skip(std::initializer_list<std::string_view> keys);
  // When writing.
  void write(std::string_view key, Json value);
  void write_into(std::string_view object, std::string_view key, Json value);
  template <typename Number>
  void write_or_null(std::string_view key, Number value) {  // null for 0
    write(key, value > 0 ? Json(value) : Json(nullptr));
  }
  // The list of what each layer has.
  template <typename ValueOf>
  void write_layers(std::string_view key, const TransformerConfig& config, const ValueOf& value_of) {
    if (out_ == nullptr) return;
    Json list = Json::array();
    for (std::int64_t layer = 0; layer < config.layers; ++layer) list.push_back(value_of(layer));
    write(key, std::move(list));
  }
  // The numbers of the layers for which it is so.
  template <typename Is>
  void write_layer_numbers(std::string_view key, const TransformerConfig& config, const Is& is) {
    Json list = Json::array();
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      if (is(layer)) list.push_back(layer);
    }
    write(key, std::move(list));
  }

 private:
  ConfigFields* in_ = nullptr;
  Json* out_ = nullptr;
};

// One field for the biases of the projections of q, k and v and of the output. `absent` is its value in a file without
// it.
void attention_bias(FamilyFields& fields, Architecture& architecture, bool absent,
                    std::string_view key = "attention_bias");

// Throws Error with the nearest name for an activation that is not supported.
Activation read_activation(ConfigFields& fields, std::string_view key, std::string_view absent);
std::string_view activation_name(Activation activation);  // as config.json has it

// Notes that dropout is off, where a field or its default is not 0.
void note_dropout(ConfigFields& fields, std::initializer_list<std::string_view> keys, double absent = 0);

// Of Granite: embedding_multiplier, residual_multiplier, attention_multiplier and the divisor logits_scaling.
void granite_multipliers(FamilyFields& fields, Architecture& architecture);
// Of MiniCPM: the residual multiplier falls with the number of layers, the logits with the width.
void minicpm_multipliers(FamilyFields& fields, TransformerConfig& config);

// Which layers have the window: those of `layer_types`, if the file has the list, else `absent`, one entry a layer.
// Without a window the list must name none. Throws Error for other kinds of layers and for a list of another length.
void read_windows(ConfigFields& fields, TransformerConfig& config, std::optional<std::int64_t> window,
                  const std::vector<bool>& absent);
// The same when reading, and the list when writing, of windows whose layers are `absent` where the file has no list.
void windows(FamilyFields& fields, TransformerConfig& config, std::optional<std::int64_t> absent_window,
             const std::vector<bool>& absent);
// Layers without a window rotate nothing.
void rotate_with_window(TransformerConfig& config);
// For each layer, whether it is so.
template <typename Is>
std::vector<bool> layers_where(std::int64_t layers, const Is& is) {
  std::vector<bool> where;
  for (std::int64_t layer = 0; layer < layers; ++layer) where.push_back(is(layer));
  return where;
}
// Layers without a window end each period of this many layers.
std::vector<bool> windows_but_every(std::int64_t period, std::int64_t layers);
// The entries of a list that has one for each layer. Throws Error for a shorter list; of a longer one the first count,
// and a note says so.
std::vector<Json> entries_of_layers(ConfigFields& fields, std::string_view key, const Json& list, std::int64_t layers);
// The shortest list whose repetition is `layers`.
template <typename Entry>
std::vector<Entry> shortest_period(const std::vector<Entry>& layers) {
  for (std::size_t period = 1; period < layers.size(); ++period) {
    const auto end = layers.begin() + static_cast<std::ptrdiff_t>(period);
    if (std::equal(end, layers.end(), layers.begin())) return {layers.begin(), end};
  }
  return layers;
}
// The same; empty where all are `if_empty`.
std::vector<bool> pattern_of(const std::vector<bool>& layers, bool if_empty);
// One entry a layer, 0 or 1, or booleans. Throws Error for another list; empty where the file has none.
std::optional<std::vector<bool>> read_layer_flags(ConfigFields& fields, std::string_view key, std::int64_t layers);
// The layers whose numbers a list has. `what` says in messages which layers these are. Throws Error for anything but a
// list of numbers of layers; empty where the file has none.
std::optional<std::vector<bool>> read_layer_numbers(ConfigFields& fields, std::string_view key, std::int64_t layers,
                                                    std::string_view what);
// The window of all layers, or when reading of those that layer_types names.
void window_of_all_layers(FamilyFields& fields, TransformerConfig& config, std::optional<std::int64_t> absent);
void write_layer_types(FamilyFields& fields, const TransformerConfig& config);

// Rotary embedding: rope_theta and rope_scaling, or rope_parameters, which replaces both in transformers 5.
// Throws Error for a kind of scaling that is not supported and for factors that contradict each other. `share` says
// whether the family can rotate a part of a head.
Rotary read_rotary(ConfigFields& fields, const TransformerConfig& config, const DecoderDefaults& defaults);
// From the object of one kind of layers in rope_parameters. `original` is the context before it was
// stretched, where the object has none; without it, the model's.
Rotary read_rotary_object(ConfigFields& object, const TransformerConfig& config, double absent_theta,
                          std::optional<std::int64_t> original = {});
// Layers with a window have a rotary embedding of their own (Gemma 3, OLMo 3): from rope_parameters, which has an
// object for each kind of layers in transformers 5. Returns false where the file has no such object.
bool read_rotaries_by_kind(ConfigFields& fields, TransformerConfig& config, double absent_theta,
                           double absent_window_theta);
void write_rotaries_by_kind(FamilyFields& fields, const Architecture& architecture);
// The object that says how rotary embedding is scaled, whichever name it has.
std::optional<ConfigFields> rotary_object(ConfigFields& fields);
// As an object of rope_parameters.
Json rotary_parameters(const Rotary& rotary);
// rotary_dim, the elements of a head that are rotated. Throws Error, when reading, where they are no even part.
void rotated_part(FamilyFields& fields, TransformerConfig& config, std::int64_t absent);
// Writes the fields of rotary embedding.
void write_rotary(const Rotary& rotary, Json& fields, std::string_view theta_key = "rope_theta");

}  // namespace ridgepoint
