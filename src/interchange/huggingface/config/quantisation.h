// quantization_config of a config.json: what bitsandbytes (https://github.com/bitsandbytes-foundation/bitsandbytes)
// made of the weights of linear layers.
#pragma once

#include <string>
#include <vector>

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer/transformer.h"

namespace ridgepoint {

// Reads the field. Throws Error for another method than bitsandbytes.
PublishedPacking read_packing(ConfigFields& fields);

// The field for weights in the format, of a model whose modules in the list are not quantised.
Json quantization_config(BaseWeights format, const std::vector<std::string>& skipped);

}  // namespace ridgepoint
