// The fields of rotary embedding: rope_theta and rope_scaling, or rope_parameters, which replaces both in transformers
// 5.
#pragma once

#include <optional>
#include <string_view>

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

enum class RotaryShare : std::uint8_t { whole, may_be_partial };

// Throws Error for a kind of scaling that is not supported (yarn, longrope, dynamic) and for factors that contradict
// each other. `share` says whether the family can rotate a part of a head.
Rotary read_rotary(ConfigFields& fields, const TransformerConfig& config, double absent_theta,
                   RotaryShare share = RotaryShare::whole);
// From the object of one kind of layers in rope_parameters (Gemma 3).
Rotary read_rotary_object(ConfigFields& object, double absent_theta);
// rope_theta and rope_scaling.
void write_rotary(const Rotary& rotary, Json& fields);

}  // namespace ridgepoint
