// Measures ways to compute one product against each other on the card.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "backends/cuda/context.h"
#include "ridgepoint/dtype.h"

namespace ridgepoint::cuda {

struct MatmulAddresses {
  const void* a;
  const void* b;
  void* c;
  void* workspace;
};

// Launches the whole product once, asynchronously; false when it cannot.
using MatmulLaunch = std::function<bool(const MatmulAddresses&)>;

// Operands of random numbers in memory of their own, apart from every allocator and limit, for as long as it lives.
class MatmulRace {
 public:
  struct Sizes {
    DType dtype;
    std::size_t a_bytes, b_bytes, c_bytes, workspace_bytes;
  };
  MatmulRace(CudaContext& context, const Sizes& sizes);
  ~MatmulRace();

  // Whether the card had room; without it nothing can be measured.
  bool has_memory() const;
  // The best time of a few samples after one launch that does not count. Infinite for what does not run, and for what
  // is far from `best_so_far_ms` already. Synchronous.
  double best_ms(const MatmulLaunch& launch, double best_so_far_ms);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ridgepoint::cuda
