#include "interchange/huggingface/families/rotary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

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

}  // namespace

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

}  // namespace ridgepoint
