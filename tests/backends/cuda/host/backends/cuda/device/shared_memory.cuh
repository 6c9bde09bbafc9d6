// src/backends/cuda/device/shared_memory.cuh for an emulated block.
#pragma once

#include "block.h"

namespace ridgepoint::cuda {

using emulated::copy_in;
using emulated::end_copies;
using emulated::shared_address;

inline char* shared_of_launch() { return emulated::shared(); }
template <int kPending>
void wait_for_copies() {
  emulated::wait_for_copies(kPending);
}
inline void meet(int id, int threads) { emulated::meet(id, threads); }
inline void meet_anywhere(int id, int threads) { emulated::meet(id, threads); }

}  // namespace ridgepoint::cuda
