// Compares a tensor with a reference, element by element.
#pragma once

#include <cstdint>
#include <string>

#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {

// A tensor agrees if every element is within absolute + relative * |reference| and, unless `relative` is 0, the L2 norm
// of the differences is at most relative * ||reference||, and 0.001 * absolute for each of its elements: the absolute
// tolerance alone would hide a wrong factor in small gradients.
struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-5;
  bool elementwise = true;  // false: the relative L2 error alone counts
};

struct TensorDifference {
  double max_absolute = 0;  // |a - b|
  double max_relative = 0;  // |a - b| / |b|; infinite where b is 0 and a is not
  double relative_l2 = 0;   // ||a - b|| / ||b||; ||a|| where b is all zeros
  // The largest |a - b| / (absolute + relative * |b|), and its first element; above 1 is beyond tolerance.
  double worst_ratio = 0;
  std::int64_t worst_element = 0;
  double worst_value = 0;  // a and b of that element
  double worst_reference = 0;
  std::int64_t beyond = 0;  // number of elements with a ratio above 1
  // The larger of worst_ratio and that of the norms; at most 1 if the tensor agrees.
  double tolerance_ratio = 0;
  bool is_rounding = false;  // it agrees by the absolute tolerance alone, beyond `relative` as a whole
};

// The dtypes may differ. Equal infinities agree; a NaN agrees with nothing and has an infinite difference. Throws Error
// if the shapes differ.
TensorDifference compare_tensors(const HostTensor& tensor, const HostTensor& reference, const Tolerance& tolerance);

// after - before, in fp64. Throws Error if the shapes differ.
HostTensor update_of(const HostTensor& after, const HostTensor& before);

// The tolerance for updates of parameters, given the tolerance for values. AdamW divides a gradient by its own size, so
// the rounding error of a gradient near 0 can change an update by up to the learning rate. One such element of n gives
// a relative L2 error of up to 2 / sqrt(n), whereas a missing weight decay or a wrong moment changes every element. The
// result is exact if `values` is.
Tolerance update_tolerance(const Tolerance& values);

// A flat position as "[1,0,27]".
std::string element_name(const Shape& shape, std::int64_t element);

}  // namespace ridgepoint
