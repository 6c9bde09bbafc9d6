// How far a tensor is from a reference, element by element.
#pragma once

#include <cstdint>
#include <string>

#include "ridgepoint/tensor.h"

namespace ridgepoint {

// A tensor agrees when every element is within absolute + relative * |reference| and, unless `relative` is 0, its
// relative L2 error within `relative`: an absolute tolerance alone would hide a wrong factor in small gradients.
struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-5;
  bool elementwise = true;  // false: the relative L2 error alone counts
};

struct TensorDifference {
  double max_absolute = 0;  // |a - b|
  double max_relative = 0;  // |a - b| / |b| over elements with b != 0
  double relative_l2 = 0;   // ||a - b|| / ||b||; ||a|| where b is all zeros
  // |a - b| / (absolute + relative * |b|) where that is largest: past 1 is beyond tolerance. The first of equals.
  double worst_ratio = 0;
  std::int64_t worst_element = 0;
  double worst_value = 0;  // a and b there
  double worst_reference = 0;
  std::int64_t beyond = 0;  // elements past 1
  // 1 and less agrees: the larger of worst_ratio and relative_l2 / relative.
  double tolerance_ratio = 0;
};

// Both of one shape, of any dtype. Equal infinities agree; a NaN agrees with nothing and counts as infinitely far.
// Throws Error when the shapes differ.
TensorDifference compare_tensors(const HostTensor& tensor, const HostTensor& reference, const Tolerance& tolerance);

// after - before, in fp64. Throws Error when the shapes differ.
HostTensor update_of(const HostTensor& after, const HostTensor& before);

// How the updates of parameters are held against others' where values are held to `values`: AdamW divides a gradient by
// its own size, so that where it is nearly 0 its rounding error alone decides an update, up to the learning rate. One
// such element of n makes the relative L2 error of the whole update up to 2 / sqrt(n), a missing weight decay or a
// wrong moment makes every element's. Exact where `values` is.
Tolerance update_tolerance(const Tolerance& values);

// A flat position as "[1,0,27]".
std::string element_name(const Shape& shape, std::int64_t element);

}  // namespace ridgepoint
