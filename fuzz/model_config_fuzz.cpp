// The reader of a model's config.json. For any bytes it throws Error or returns a configuration whose parameters can be
// counted, and which is the same after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/model_config.h"
#include "require.h"
#include "ridgepoint/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ridgepoint::TransformerConfig config;
  try {
    config = ridgepoint::parse_model_config(ridgepoint::parse_json_object(bytes, "it"), "model", {}, "it").config;
  } catch (const ridgepoint::Error&) {
    return 0;
  }
  RIDGEPOINT_REQUIRE(config.heads % config.kv_heads() == 0 && config.head_size() > 0);
  const ridgepoint::TransformerConfig back =
      ridgepoint::parse_model_config(ridgepoint::model_config_json(config), "model", {}, "it").config;
  RIDGEPOINT_REQUIRE(parameter_count(back) == parameter_count(config));
  RIDGEPOINT_REQUIRE(back.layers == config.layers && back.d_ff == config.d_ff);
  return 0;
}
