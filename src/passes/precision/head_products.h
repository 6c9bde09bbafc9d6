// The product that makes the logits of a model.
#pragma once

#include <vector>

#include "ir/queries.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Of a forward graph, as of the construction of this object.
class HeadProducts {
 public:
  explicit HeadProducts(const Graph& graph);

  // Whether the loss or a result of the model is the value, or follows from it without another product.
  bool contains(Value value) const;

 private:
  const Graph& graph_;
  Readers readers_;
  std::vector<bool> is_model_result_;  // by value
};

}  // namespace ridgepoint
