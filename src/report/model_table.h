// The models that --model takes by name, as a page: their sizes, and what their weights and the state of a step take.
#pragma once

#include <span>

#include "models/transformer.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// Bytes of fp32 parameters, and of parameters, gradients and both moments of AdamW in fp32.
inline constexpr std::int64_t kWeightBytes = 4;
inline constexpr std::int64_t kStepStateBytes = 16;

// One row a model, in the order given. The context of a model is what it was trained for or has positions for.
Page model_page(std::span<const TransformerConfig> models, Format format);

}  // namespace ridgepoint::tables
