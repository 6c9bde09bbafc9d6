// config.json files given as text.
#pragma once

#include <string_view>

#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/model_config.h"

namespace ridgepoint::testing {

inline ModelConfig parse(std::string_view text) {
  return parse_model_config(parse_json_object(text, "test"), "test", {}, "test");
}

inline TransformerConfig config_of(std::string_view text) { return parse(text).config; }

}  // namespace ridgepoint::testing
