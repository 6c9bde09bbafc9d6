// A CUDA graph: launches captured from a context's stream.
#pragma once

#include <functional>

#include "backends/cuda/driver/context.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

class CudaGraph : public CapturedLaunches {
 public:
  // Captures the launches that `body` makes on the stream. Throws Error (unsupported) if the driver cannot, and the
  // exceptions of `body`.
  CudaGraph(CudaContext& context, const std::function<void()>& body);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void run() override;

 private:
  const CudaContext& context_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace ridgepoint::cuda
