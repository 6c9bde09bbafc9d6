// How the parameters of a Transformer lie in the files of its family: names, shapes, what is packed into one tensor,
// what is transposed, and the order of the rows of queries and keys.
//
// transformers rotates the elements i and i + r/2 of the r rotated elements of a head, this program 2i and 2i + 1. The
// scores are the same if the rows of the projections of q and k, and their biases and norms, are in the corresponding
// order (docs/decisions/0027-rows-of-rotary-heads.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/adapters.h"

namespace ridgepoint {

// Rows of a tensor's output dimension: `together` rows, `stride` rows from the begin of one group to that of the next.
struct RowPlaces {
  std::int64_t first = 0;
  std::int64_t together = 0;  // 0: all rows are together
  std::int64_t stride = 0;
};

// A parameter, or one of its experts, as a part of a tensor in a file.
struct WeightPart {
  std::string parameter;     // in this program
  std::int64_t rows = 0;     // of the tensor's output dimension
  std::int64_t expert = -1;  // the entry of the parameter's first dimension; -1: it has no experts, or the tensor all
  std::int64_t rotated = 0;  // the rows of each head, from the begin of it, that are in the order of rotary embedding
  std::int64_t head_size = 0;
  std::int64_t kept = 0;   // rows of each head before those that are rotated
  std::int64_t first = 0;  // the row of the parameter where the part begins, whose others are parts of their own
  RowPlaces places = {};
  std::int64_t column_heads = 0, rotated_columns = 0;  // the same of columns: the size of a head, and what is rotated

  RowOrder order() const { return rotated > 0 ? RowOrder{head_size, rotated, kept} : RowOrder{}; }
};

struct StoredWeight {
  std::string name;            // in the file
  Shape shape;                 // in the file: [out, in], [in, out], [out], [out, 1, in], and with all experts [E, ...]
  bool is_transposed = false;  // [in, out], as GPT-2 has it
  std::vector<WeightPart> parts = {};
  bool has_experts = false;   // the first dimension is that of experts
  bool has_integers = false;  // the file has them as such, this program as fp32
  bool is_constant = false;   // no parameter, but a constant of the graph
  Shape matrix = {};          // not empty: what the shape of the file is with some of its dimensions as one
  std::int64_t stacked = 0;   // above 0: so many experts, whose rows stand one below the other

  std::int64_t experts() const { return has_experts ? shape[0] : stacked; }  // 0: the tensor has no experts
  Shape own_shape() const;                                                   // of one expert
};

// Every tensor of the model's files, in their order. A model without a family is stored as a Llama. A tied head is not
// among them.
std::vector<StoredWeight> stored_weights(const TransformerConfig& config);

// The parameters that the tensors make, with their types: [out, in], [out], [experts, out, in] or [experts, out]. Or
// the constants.
std::vector<ParameterDeclaration> parameters_of(const std::vector<StoredWeight>& weights, bool constants = false);

// The linear layers under the names that the files of the model's family have for them, and what each packs. Without
// embeddings and experts.
std::vector<PublishedLayer> published_layers(const TransformerConfig& config);

}  // namespace ridgepoint
