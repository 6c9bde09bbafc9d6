// A CUDA event on a context's stream.
#pragma once

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

class Event {
 public:
  explicit Event(const CudaContext& context) : context_(context) {
    const CudaContext::Scope scope(context);
    check(context.driver().cuEventCreate(&event_, CU_EVENT_DEFAULT), "create an event");
  }
  ~Event() {
    const CudaContext::Scope scope(context_, std::nothrow);
    context_.driver().cuEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() {
    const CudaContext::Scope scope(context_);
    check(context_.driver().cuEventRecord(event_, context_.stream()), "record an event");
  }
  // Milliseconds from `start` to this event; both must have been recorded. Waits for this one.
  double ms_since(const Event& start) const {
    const CudaContext::Scope scope(context_);
    check(context_.driver().cuEventSynchronize(event_), "finish the work before an event");
    float ms = 0;
    check(context_.driver().cuEventElapsedTime(&ms, start.event_, event_), "read the time between events");
    return static_cast<double>(ms);
  }

 private:
  const CudaContext& context_;
  CUevent event_ = nullptr;
};

}  // namespace ridgepoint::cuda
