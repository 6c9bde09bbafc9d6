// The parameters of the kernels of rank_sums.cu. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// Sums of several tensors over the ranks. The parts of the ranks lie one behind another, each a number of vectors of 16
// bytes, but that of this rank is where it was made.
struct RankSums {
  static constexpr int kMost = 64;
  static constexpr int kThreads = 512;

  struct Sum {
    const void* parts = nullptr;
    const void* own_part = nullptr;
    void* sum = nullptr;       // may be own_part
    std::int64_t vectors = 0;  // of one part
  };

  Sum sums[kMost];
  std::int32_t count = 0;
  std::int32_t ranks = 0;
  std::int32_t rank = 0;
};

}  // namespace ridgepoint::cuda
