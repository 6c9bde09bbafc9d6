#include "interchange/huggingface/families/qwen.h"

#include "interchange/huggingface/families/decoder.h"

namespace ridgepoint {

void read_qwen_windows(ConfigFields& fields, TransformerConfig& c) {
  const bool has_window = fields.flag("use_sliding_window", false);
  const std::optional<std::int64_t> window = fields.optional_size("sliding_window", 4096);
  // 0 gives every layer the window.
  const auto first = static_cast<std::int64_t>(fields.not_negative("max_window_layers", 28));
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) layers.push_back(has_window && layer >= first);
  read_windows(fields, c, has_window ? window : std::nullopt, layers);
}

void write_qwen_windows(const TransformerConfig& c, Json& fields) {
  const Architecture& a = c.architecture;
  fields["use_sliding_window"] = a.window > 0;
  fields["sliding_window"] = a.window > 0 ? Json(a.window) : Json(nullptr);
  // transformers reads layer_types if it is there.
  fields["max_window_layers"] = a.window > 0 ? 0 : c.layers;
  write_layer_types(c, fields);
}

}  // namespace ridgepoint
