// A point of one stream for which another can wait. In a capture both become edges of the graph.
#pragma once

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

class StreamPoint {
 public:
  explicit StreamPoint(const CudaContext& context) : context_(context) {
    const CudaContext::Scope scope(context);
    check(context.driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "create an event");
  }
  ~StreamPoint() {
    const CudaContext::Scope scope(context_, std::nothrow);
    context_.driver().cuEventDestroy(event_);
  }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  void record(CUstream stream) {
    check(context_.driver().cuEventRecordWithFlags(event_, stream, CU_EVENT_RECORD_DEFAULT), "record an event");
  }
  void make_wait(CUstream stream) {
    check(context_.driver().cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT), "wait for an event");
  }

 private:
  const CudaContext& context_;
  CUevent event_ = nullptr;
};

}  // namespace ridgepoint::cuda
