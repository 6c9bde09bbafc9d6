// Times products on the GPU, for the choice between candidates (race.h).
//
// Operands are not in the cache, because a step of a model uses each weight long after its last use: each launch of a
// batch has its own operands, and the cache is overwritten before a batch begins. During that the host queues the
// launches, so that the GPU time does not include host time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/driver/event.h"
#include "backends/cuda/products/choice/race.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint::cuda {

struct MatmulAddresses {
  const void* a;
  const void* b;
  void* c;
  void* workspace;
};

// Launches the whole product once, asynchronously; false if it cannot.
using MatmulLaunch = std::function<bool(const MatmulAddresses&)>;

// Owns random operands outside every allocator and limit: those of one product, or of as many products as fill the L2
// cache twice, and the memory that overwrites the cache.
class MatmulTimer {
 public:
  struct Sizes {
    DType dtype = DType::fp32;
    std::size_t a_bytes = 0, b_bytes = 0, c_bytes = 0, workspace_bytes = 0;
    std::size_t kernels = 1;  // kernel launches for one product
  };
  MatmulTimer(CudaContext& context, const Sizes& sizes);
  ~MatmulTimer();

  // Whether the GPU had enough memory; otherwise nothing can be measured.
  bool has_memory() const;
  // The operands of one launch; there are copies() of them, used in rotation.
  MatmulAddresses operands(std::size_t copy) const;
  std::size_t copies() const;
  // Launches once, untimed, because the first launch of a kernel loads its code. False if it fails.
  bool runs(const MatmulLaunch& launch) const { return launch(operands(0)); }
  // Runs a batch of each, one after the other; the time is infinite if a launch fails. Waits for the last batch only.
  std::vector<MatmulBatch> cold_batches(std::span<const MatmulLaunch* const> ways, const BatchLaunches& launches);

 private:
  class Scratch;
  struct State;
  MatmulBatch cold_batch(const MatmulLaunch& launch, const BatchLaunches& launches, Event& start, Event& stop);
  std::unique_ptr<State> state_;
};

}  // namespace ridgepoint::cuda
