// The fields that all families but GPT-2 share, under the names that Llama gave them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

// Whether a family can rotate a part of a head.
enum class RotaryShare : std::uint8_t { whole, may_be_partial };

// Of a family, where its config.json lacks the field.
struct DecoderDefaults {
  std::int64_t vocab = 32000;
  std::int64_t hidden = 4096;
  std::int64_t intermediate = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::optional<std::int64_t> kv_heads = {};  // empty: as many as heads
  std::optional<std::int64_t> head_dim = {};  // empty: hidden / heads
  std::int64_t max_positions = 2048;
  double epsilon = 1e-6;
  bool tied = false;
  std::string_view intermediate_key = "intermediate_size";
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";
  std::optional<double> theta = 10000;  // of rotary embedding; empty: the family reads it itself
  RotaryShare rotary_share = RotaryShare::whole;
};

// Sizes, RMS norms, activation, rotary embedding and head. Throws Error also where heads do not divide what they must.
TransformerConfig read_decoder(ConfigFields& fields, const DecoderDefaults& defaults);
void write_decoder(const TransformerConfig& config, Json& fields);

// Throws Error with the nearest name for an activation that is not supported.
Activation read_activation(ConfigFields& fields, std::string_view key, std::string_view absent);
std::string_view activation_name(Activation activation);  // as config.json has it

// Notes that dropout is off, where a field or its default is not 0.
void note_dropout(ConfigFields& fields, std::initializer_list<std::string_view> keys, double absent = 0);

// Which layers have the window: those of `layer_types`, if the file has the list, else `absent`, one entry a layer.
// Without a window the list must name none. Throws Error for other kinds of layers and for a list of another length.
void read_windows(ConfigFields& fields, TransformerConfig& config, std::optional<std::int64_t> window,
                  const std::vector<bool>& absent);
// The window, of all layers or of those that layer_types names.
void read_window_of_all_layers(ConfigFields& fields, TransformerConfig& config, std::optional<std::int64_t> absent);
void write_window(const TransformerConfig& config, Json& fields);
void write_layer_types(const TransformerConfig& config, Json& fields);

// Rotary embedding: rope_theta and rope_scaling, or rope_parameters, which replaces both in transformers 5.
// Throws Error for a kind of scaling that is not supported (yarn, longrope, dynamic) and for factors that contradict
// each other. `share` says whether the family can rotate a part of a head.
Rotary read_rotary(ConfigFields& fields, const TransformerConfig& config, double absent_theta,
                   RotaryShare share = RotaryShare::whole);
// From the object of one kind of layers in rope_parameters (Gemma 3).
Rotary read_rotary_object(ConfigFields& object, double absent_theta);

}  // namespace ridgepoint
