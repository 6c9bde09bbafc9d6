// Finds the events of a trace file in the JSON forms of Chrome's trace events: an object with a list `traceEvents`, or
// that list alone. Nothing is built: an event's parts are views into the buffer. The buffer grows to the longest event,
// 16 MiB at most.
#pragma once

#include <string_view>

#include "core/files/byte_stream.h"

namespace ridgepoint {

// As text of JSON, strings without their quotation marks; empty where the event has none.
struct EventText {
  std::string_view phase, category, name, process, thread, time, duration, id, arguments;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void event(const EventText& event) = 0;
  virtual void member(std::string_view key, std::string_view value) = 0;  // of the document, beside its events
  virtual void damaged() = 0;                                             // bytes that are no event were passed over
  virtual void cut_off() = 0;                                             // the file ends within the document
};

// Returns whether there is a list of events. `bytes` is at the first byte of the document.
bool scan_events(ByteStream& bytes, EventSink& sink);

}  // namespace ridgepoint
