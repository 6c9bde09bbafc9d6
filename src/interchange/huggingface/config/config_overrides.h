// --config-override: fields of a config.json that are replaced before it is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint {

struct ConfigOverride {
  std::string key;  // "rope_scaling.factor": a field of an object
  Json value;
};

// "num_hidden_layers=2,hidden_act=gelu": each value is JSON, or text if it is not JSON. Commas inside brackets, braces
// and quotation marks do not separate. Throws Error (usage) for an item without a key or without '='.
std::vector<ConfigOverride> parse_config_overrides(std::string_view text);

// Replaces or adds the fields. Throws Error (usage) where a key leads through a value that is no object.
void override_fields(const std::vector<ConfigOverride>& overrides, Json& object);

}  // namespace ridgepoint
