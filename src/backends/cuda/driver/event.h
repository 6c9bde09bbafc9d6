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

  // Within a capture the record is a node of the graph (external): it is made anew in every launch of the graph.
  // Without that flag it would only be an edge between streams, and with it a record outside of a capture is an error.
  void record() {
    const CudaContext::Scope scope(context_);
    const unsigned flags = context_.is_capturing() ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
    check(context_.driver().cuEventRecordWithFlags(event_, context_.stream(), flags), "record an event");
  }
  // Milliseconds from `start` to this event; both must have been recorded. Waits for this one.
  double ms_since(const Event& start) const {
    const CudaContext::Scope scope(context_);
    context_.synchronize(event_);
    float ms = 0;
    check(context_.driver().cuEventElapsedTime(&ms, start.event_, event_), "read the time between events");
    return static_cast<double>(ms);
  }

 private:
  const CudaContext& context_;
  CUevent event_ = nullptr;
};

}  // namespace ridgepoint::cuda
