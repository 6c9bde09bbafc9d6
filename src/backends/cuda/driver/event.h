// CUDA events: times of a context's stream, and points of one stream for which another waits.
#pragma once

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

// Owns an event.
class EventHandle {
 public:
  EventHandle(const CudaContext& context, unsigned flags) : context_(context) {
    const CudaContext::Scope scope(context);
    check(context.driver().cuEventCreate(&event_, flags), "create an event");
  }
  ~EventHandle() {
    const CudaContext::Scope scope(context_, std::nothrow);
    context_.driver().cuEventDestroy_v2(event_);
  }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;

  const CudaContext& context() const { return context_; }
  CUevent get() const { return event_; }

 private:
  const CudaContext& context_;
  CUevent event_ = nullptr;
};

// The time at which the context's stream comes to a place.
class Event {
 public:
  explicit Event(const CudaContext& context) : event_(context, CU_EVENT_DEFAULT) {}

  // Within a capture the record is a node of the graph (external): it is made anew in every launch of the graph.
  // Without that flag it would only be an edge between streams, and with it a record outside of a capture is an error.
  void record() {
    const CudaContext& context = event_.context();
    const CudaContext::Scope scope(context);
    const unsigned flags = context.is_capturing() ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
    check(context.driver().cuEventRecordWithFlags(event_.get(), context.stream(), flags), "record an event");
  }
  // Milliseconds from `start` to this event; both must have been recorded. Waits for this one.
  double ms_since(const Event& start) const {
    const CudaContext& context = event_.context();
    const CudaContext::Scope scope(context);
    context.synchronize(event_.get());
    float ms = 0;
    check(context.driver().cuEventElapsedTime(&ms, start.event_.get(), event_.get()), "read the time between events");
    return static_cast<double>(ms);
  }

 private:
  EventHandle event_;
};

// A point of one stream for which another, or a thread, can wait. In a capture of streams both become edges of the
// graph.
class StreamPoint {
 public:
  explicit StreamPoint(const CudaContext& context) : event_(context, CU_EVENT_DISABLE_TIMING) {}

  // The context is current in both calls.
  void record(CUstream stream) {
    check(event_.context().driver().cuEventRecordWithFlags(event_.get(), stream, CU_EVENT_RECORD_DEFAULT),
          "record an event");
  }
  // Does nothing where the driver refuses.
  void try_record(CUstream stream) noexcept {
    event_.context().driver().cuEventRecordWithFlags(event_.get(), stream, CU_EVENT_RECORD_DEFAULT);
  }
  void make_wait(CUstream stream) {
    check(event_.context().driver().cuStreamWaitEvent(stream, event_.get(), CU_EVENT_WAIT_DEFAULT),
          "wait for an event");
  }
  void wait(std::chrono::microseconds pause) { event_.context().synchronize(event_.get(), pause); }

 private:
  EventHandle event_;
};

}  // namespace ridgepoint::cuda
