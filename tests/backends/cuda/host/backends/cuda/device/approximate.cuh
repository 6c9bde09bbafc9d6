#pragma once

#include <cmath>

namespace ridgepoint::cuda {

inline float nearly_reciprocal(float x) { return 1.0F / x; }
inline float nearly_root(float x) { return std::sqrt(x); }

}  // namespace ridgepoint::cuda
