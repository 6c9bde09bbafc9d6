#include "interchange/huggingface/weights/published_weights.h"

#include <algorithm>

#include "core/packed/packed_matrix.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

std::string module_of(std::string_view tensor) {
  constexpr std::string_view kEnd = ".weight";
  if (tensor.ends_with(kEnd)) tensor.remove_suffix(kEnd.size());
  return std::string(tensor);
}

// As transformers matches the names in its list.
bool is_skipped(const std::string& module, const std::vector<std::string>& skipped) {
  return std::ranges::any_of(skipped, [&](const std::string& key) {
    return module.starts_with(key) || module.ends_with(key) || module.find(key + ".") != std::string::npos;
  });
}

bool is_in_one_place(const std::string& parameter, const std::vector<StoredWeight>& all) {
  std::int64_t places = 0;
  for (const StoredWeight& weight : all) places += std::ranges::count(weight.parts, parameter, &WeightPart::parameter);
  return places == 1;
}

}  // namespace

bool has_packed_parts(const StoredWeight& weight, BaseWeights format, const std::vector<StoredWeight>& all) {
  const bool is_matrix = weight.shape.rank() == 2 && weight.matrix.rank() == 0 && weight.experts() == 0;
  if (!is_matrix || weight.is_constant || weight.has_integers) return false;
  const std::int64_t columns = weight.shape[weight.is_transposed ? 0 : 1];
  std::int64_t row = 0;
  for (const WeightPart& part : weight.parts) {
    const bool is_below = part.places.first == row && part.places.together == part.rows;
    const bool is_whole = part.expert < 0 && part.first == 0 && is_in_one_place(part.parameter, all);
    const bool has_heads = part.rotated == 0 || part.rows % part.head_size == 0;
    const std::int64_t step = format == BaseWeights::nf4 ? kNf4PartStep : is_of_4_bits(format) ? kNf4Block : columns;
    const bool has_blocks = row * columns % step == 0;
    if (!is_below || !is_whole || !has_heads || !has_blocks || part.column_heads > 0) return false;
    row += part.rows;
  }
  return true;
}

std::vector<PublishedWeight> published_weights(const TransformerConfig& config, BaseWeights format) {
  const bool are_packed = config.packing.format == format;
  const std::vector<StoredWeight> all = stored_weights(config);
  std::vector<PublishedWeight> published;
  for (const StoredWeight& weight : all) {
    if (weight.own_shape().rank() != 2) continue;
    const bool has_parts = has_packed_parts(weight, format, all);
    const bool stays_wide = are_packed && (!has_parts || is_skipped(module_of(weight.name), config.packing.skipped));
    if (!has_parts && !stays_wide) continue;
    for (const WeightPart& part : weight.parts)
      published.push_back({part.parameter, has_parts ? part.order() : RowOrder{}, stays_wide});
  }
  return published;
}

std::vector<std::string> unpacked_modules(const TransformerConfig& config, const std::vector<std::string>& packed) {
  // A head that is tied has no tensor, and is a module.
  std::vector<std::string> modules = {std::string(family_of(config).names.head)};
  const auto add = [&](std::string module) {
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(std::move(module));
  };
  for (const StoredWeight& weight : stored_weights(config)) {
    constexpr std::string_view kExperts = ".experts";
    const std::size_t experts = weight.name.find(kExperts);
    if (experts != std::string::npos) add(weight.name.substr(0, experts + kExperts.size()));
  }
  for (const PublishedLayer& layer : published_layers(config)) {
    const bool is_packed =
        std::ranges::any_of(packed, [&](const std::string& tensor) { return module_of(tensor) == layer.name; });
    if (!is_packed) add(layer.name);
  }
  return modules;
}

}  // namespace ridgepoint
