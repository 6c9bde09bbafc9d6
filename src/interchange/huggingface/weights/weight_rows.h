// Moves rows between a parameter and the tensor of a file that holds it.
#pragma once

#include "interchange/huggingface/weights/stored_weights.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

// The two sides of a part: the parameter, fp32, and the tensor of the file, fp32 in the file's shape.
class WeightRows {
 public:
  WeightRows(const StoredWeight& weight, std::size_t part) : weight_(weight), part_(weight.parts[part]) {}

  void read(const HostTensor& stored, HostTensor& parameter) const;
  void write(const HostTensor& parameter, HostTensor& stored) const;

 private:
  // Calls move(place in the parameter, place in the file's tensor, count) for all elements, those of a row at once if
  // they are together in both.
  template <typename Move>
  void each(const Move& move) const;

  const StoredWeight& weight_;
  const WeightPart& part_;
};

}  // namespace ridgepoint
