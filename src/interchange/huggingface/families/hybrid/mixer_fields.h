// The fields of models whose layers mix tokens by attention or by something else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "interchange/huggingface/families/decoder.h"

namespace ridgepoint {

// A kind of layer in a list. The first name of each mixer is the one that is written.
struct NamedMixer {
  std::string_view name;
  Mixer mixer;
};

// The list `key` with the kind of each layer; `absent`, one entry a layer, where the file has none. Throws Error for
// other kinds and for a list that is too short.
void layer_mixers(FamilyFields& fields, TransformerConfig& config, std::string_view key,
                  std::span<const NamedMixer> names, const std::vector<Mixer>& absent);
// One entry a layer, as the shortest list whose repetition it is.
void set_mixers(TransformerConfig& config, const std::vector<Mixer>& layers);
// Throws Error unless the activation is silu, the only one that short convolutions and gates have.
void require_silu(FamilyFields& fields, const TransformerConfig& config);

// Mamba-2's fields as Bamba named them: mamba_n_heads, mamba_d_head and so on. Without mamba_d_ssm the width is
// mamba_expand times the model's.
struct StateSpaceDefaults {
  std::int64_t heads = 128, groups = 1, state = 256;
  std::optional<std::int64_t> width = {};
};
void state_space(FamilyFields& fields, TransformerConfig& config, const StateSpaceDefaults& absent);
// time_step_limit, the least and the most step.
void step_limits(FamilyFields& fields, StateMixer& mixer);

}  // namespace ridgepoint
