// The product that makes the logits of a model.
#pragma once

#include <vector>

#include "ir/queries.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Finds them in a forward graph as it is when this object is made.
class HeadProducts {
 public:
  explicit HeadProducts(const Graph& graph);

  // Whether the value is the loss or a result of the model, or becomes one without another product.
  bool contains(Value value) const;

 private:
  const Graph& graph_;
  Readers readers_;
  std::vector<bool> is_model_result_;  // by value
};

}  // namespace ridgepoint
