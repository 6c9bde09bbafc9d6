#include "interchange/huggingface/families/hybrid/mixer_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

std::vector<Mixer> read_mixers(ConfigFields& in, const Json& list, std::string_view key,
                               std::span<const NamedMixer> names, std::int64_t layers) {
  std::vector<Mixer> mixers;
  for (const Json& entry : entries_of_layers(in, key, list, layers)) {
    const std::string text = entry.is_string() ? entry.get<std::string>() : dump_json(entry);
    const auto found = std::ranges::find(names, text, &NamedMixer::name);
    if (found == names.end()) {
      std::vector<std::string_view> known;
      for (const NamedMixer& one : names) known.push_back(one.name);
      in.fail(key, "has a layer of kind {}; this family has {}", quote_name(text), fmt::join(known, ", "));
    }
    mixers.push_back(found->mixer);
  }
  return mixers;
}

// Infinity, as parse_json_object() reads it, or as transformers 5 writes it.
bool is_infinity(const Json& value) {
  if (value.is_object()) return value.contains("__float__") && is_infinity(value["__float__"]);
  return value == "Infinity" || value == "inf";
}

}  // namespace

void set_mixers(TransformerConfig& config, const std::vector<Mixer>& layers) {
  std::vector<Mixer>& mixers = config.architecture.mixers;
  mixers = shortest_period(layers);
  if (mixers == std::vector{Mixer::attention}) mixers.clear();
}

void layer_mixers(FamilyFields& fields, TransformerConfig& config, std::string_view key,
                  std::span<const NamedMixer> names, const std::vector<Mixer>& absent) {
  if (ConfigFields* in = fields.in()) {
    const Json* list = in->find(key);
    set_mixers(config, list != nullptr ? read_mixers(*in, *list, key, names, config.layers) : absent);
    return;
  }
  fields.write_layers(key, config, [&](std::int64_t layer) {
    return std::ranges::find(names, config.architecture.mixer(layer), &NamedMixer::mixer)->name;
  });
}

void require_silu(FamilyFields& fields, const TransformerConfig& config) {
  if (ConfigFields* in = fields.in(); in != nullptr && config.architecture.activation != Activation::silu)
    in->fail("hidden_act", "is {}; the convolutions and gates of this family are supported with silu alone",
             activation_name(config.architecture.activation));
}

void step_limits(FamilyFields& fields, StateMixer& mixer) {
  constexpr std::string_view kKey = "time_step_limit";
  ConfigFields* in = fields.in();
  if (in == nullptr) {
    const bool is_open = mixer.most_step == 0;
    if (!is_open || mixer.least_step > 0)
      fields.write(
          kKey, Json::array({mixer.least_step, is_open ? Json({{"__float__", "Infinity"}}) : Json(mixer.most_step)}));
    return;
  }
  const Json* limits = in->find(kKey);
  if (limits == nullptr) return;
  const auto is_limit = [](const Json& value) { return value.is_number() && value.get<double>() >= 0; };
  if (!limits->is_array() || limits->size() != 2 || !is_limit((*limits)[0]) ||
      !(is_limit((*limits)[1]) || is_infinity((*limits)[1])))
    in->fail(kKey, "must be the least and the most step, as [0.0, Infinity]");
  mixer.least_step = (*limits)[0].get<double>();
  mixer.most_step = is_infinity((*limits)[1]) ? 0 : (*limits)[1].get<double>();
  if (mixer.most_step == 0 && !is_infinity((*limits)[1])) in->fail(kKey, "leaves no steps: the most is 0");
}

void state_space(FamilyFields& fields, TransformerConfig& c, const StateSpaceDefaults& absent) {
  StateMixer& s = c.architecture.state;
  fields.size("mamba_n_heads", s.heads, absent.heads);
  fields.size("mamba_n_groups", s.key_heads, absent.groups);
  fields.size("mamba_d_state", s.key_size, absent.state);
  fields.size("mamba_d_conv", s.kernel, 4);
  fields.flag("mamba_conv_bias", s.convolution_bias, true);
  fields.flag("mamba_proj_bias", s.input_bias, false);
  s.norm_epsilon = c.architecture.norm_epsilon;
  fields.write("mamba_d_head", s.value_size);
  fields.skip(
      {"mamba_chunk_size", "time_step_min", "time_step_max", "time_step_floor", "time_step_rank", "mamba_use_mlp"});
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  const std::int64_t expanded = in->size("mamba_expand", 2) * c.d_model;
  const std::int64_t width = in->optional_size("mamba_d_ssm", absent.width).value_or(expanded);
  if (width % s.heads != 0)
    in->fail("mamba_n_heads", "is {} and does not divide the width {} of the state space", s.heads, width);
  s.value_size = width / s.heads;
  const Json* size = in->find("mamba_d_head");
  if (size != nullptr && *size != "auto" && in->size("mamba_d_head", 1) != s.value_size)
    in->fail("mamba_d_head", "is {}; {} heads of that size are not the width {} of the state space", size->dump(),
             s.heads, width);
}

}  // namespace ridgepoint
