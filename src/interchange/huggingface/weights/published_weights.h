// Which packed weights of a program have the bytes that bitsandbytes makes of the tensors of the model's files.
#pragma once

#include <string>
#include <vector>

#include "interchange/huggingface/weights/stored_weights.h"

namespace ridgepoint {

// The bytes of each parameter of the tensor are bytes of the tensor, with rows in RowOrder: whole parameters one below
// the other, each of which begins with blocks of its own.
bool has_packed_parts(const StoredWeight& weight, BaseWeights format, const std::vector<StoredWeight>& all);

// Of a model whose files are packed, weights that they have unpacked stay wide, and those that share blocks with
// others.
std::vector<PublishedWeight> published_weights(const TransformerConfig& config, BaseWeights format);

// The linear layers that transformers must not convert, where the tensors in the list alone are packed.
std::vector<std::string> unpacked_modules(const TransformerConfig& config, const std::vector<std::string>& packed);

}  // namespace ridgepoint
