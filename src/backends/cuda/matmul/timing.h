// Times products on the card, for the race between ways to compute one (matmul_race.h).
//
// Operands are cold: a step of a model meets each weight once, long after it last did. Each launch of a batch has
// operands of its own among many, and the cache is overwritten before a batch begins. While it is, the host queues the
// launches, so that the card's time is that of its work and not that of the host's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/driver/event.h"
#include "backends/cuda/matmul/race.h"
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

// Operands of random numbers in memory of their own, apart from every allocator and limit, for as long as it lives:
// those of one product, or of as many as fill the second-level cache twice, and the memory that overwrites it.
class MatmulTimer {
 public:
  struct Sizes {
    DType dtype = DType::fp32;
    std::size_t a_bytes = 0, b_bytes = 0, c_bytes = 0, workspace_bytes = 0;
    std::size_t kernels = 1;  // that one launch of the product queues
  };
  MatmulTimer(CudaContext& context, const Sizes& sizes);
  ~MatmulTimer();

  // Whether the card had room; without it nothing can be measured.
  bool has_memory() const;
  // Operands of one launch; there are copies() of them, used in turn.
  MatmulAddresses operands(std::size_t copy) const;
  std::size_t copies() const;
  // Launches once, untimed: the first launch of a kernel loads its code. False when it fails.
  bool runs(const MatmulLaunch& launch) const { return launch(operands(0)); }
  // A batch of each, one after the other; infinite when a launch fails. Waits for the last only.
  std::vector<MatmulBatch> cold_batches(std::span<const MatmulLaunch* const> ways, int launches);

 private:
  struct State;
  MatmulBatch cold_batch(const MatmulLaunch& launch, int launches, Event& start, Event& stop);
  std::unique_ptr<State> state_;
};

}  // namespace ridgepoint::cuda
