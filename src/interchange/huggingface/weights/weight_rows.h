// Moves rows between a parameter and the tensor of a file that holds it.
#pragma once

#include "interchange/huggingface/weights/stored_weights.h"
#include "ridgepoint/tensor.h"

namespace ridgepoint {

// The two sides of a part: the parameter, fp32, and the tensor of the file, fp32 in the file's shape.
class WeightRows {
 public:
  WeightRows(const TransformerConfig& config, const StoredWeight& weight, std::size_t part);

  void read(const HostTensor& stored, HostTensor& parameter) const;
  void write(const HostTensor& parameter, HostTensor& stored) const;

 private:
  // Calls move(place in the parameter, place in the file's tensor) for every element.
  template <typename Move>
  void each(const Move& move) const;

  const StoredWeight& weight_;
  const WeightPart& part_;
  std::int64_t first_row_ = 0;  // in the file's tensor
  std::int64_t head_size_, rotated_;
};

}  // namespace ridgepoint
