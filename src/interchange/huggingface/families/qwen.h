// What Qwen 2 and Qwen 3 have in common.
#pragma once

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

// With use_sliding_window the layers from max_window_layers on have the window.
void read_qwen_windows(ConfigFields& fields, TransformerConfig& config);
void write_qwen_windows(const TransformerConfig& config, Json& fields);

}  // namespace ridgepoint
