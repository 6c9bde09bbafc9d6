// Keeps of the events of a trace what its analysis needs. Names and tracks are stored once; the numbers of events, of
// names and of their bytes are limited, and what is beyond is counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "interchange/trace/event_scanner.h"
#include "interchange/trace/trace.h"

namespace ridgepoint {

// A call of the host's runtime that analysis needs: what it does, by its name. The launch of a fill or of a graph is a
// launch, too.
enum class HostCall : std::uint8_t { other, launch, copy, synchronize, allocate };
HostCall host_call(std::string_view name);
// An op that is a node of backward: MmBackward, AddBackward1, torch::autograd::AccumulateGrad.
bool is_backward_node(std::string_view op);

class TraceCollector final : public EventSink {
 public:
  static constexpr std::size_t kMostActivities = std::size_t{1} << 23U;
  static constexpr std::size_t kMostHostEvents = std::size_t{1} << 22U;
  static constexpr std::size_t kMostNameBytes = std::size_t{1} << 26U;
  static constexpr std::size_t kMostTracks = std::size_t{1} << 16U;

  TraceCollector();

  void event(const EventText& event) override;
  void member(std::string_view key, std::string_view value) override;
  void damaged() override { ++trace_.fault(TraceFault::damaged); }
  void cut_off() override { trace_.fault(TraceFault::cut_off) = 1; }

  // For readers of other forms.
  std::uint32_t name(std::string_view text) { return names_.number(text); }
  std::string_view text_of(std::uint32_t name) const { return names_.texts()[name]; }
  std::uint32_t track(std::string_view process, std::string_view thread);
  void add_activity(const TraceEvent& event) { add(trace_.activities, event, kMostActivities, TraceFault::over_limit); }
  void add_call(const TraceEvent& event) { add_on_host(trace_.calls, event); }
  void add_mark(const TraceEvent& event) { add_on_host(trace_.marks, event); }
  // From the begin of a flow to its end.
  void add_flow(const TraceEvent& event, bool is_end) {
    add_on_host(is_end ? trace_.flow_ends : trace_.flow_begins, event);
  }
  // Whether sums over all events still fit into 63 bits with one more of this duration.
  bool fits(std::int64_t duration_ns) {
    if (duration_ns > kMostSum - all_durations_ns_) return false;
    all_durations_ns_ += duration_ns;
    return true;
  }
  Trace& trace() { return trace_; }

  // In order of start, without events whose time cannot be right.
  Trace finish();

 private:
  static constexpr std::int64_t kMostSum = INT64_MAX / 2;

  // Numbers texts in the order in which they come.
  class Numbers {
   public:
    explicit Numbers(std::size_t most_bytes) : most_bytes_(most_bytes) {}
    std::uint32_t number(std::string_view text);
    std::size_t size() const { return texts_.size(); }
    const std::deque<std::string>& texts() const { return texts_; }

   private:
    std::size_t most_bytes_, bytes_ = 0;
    std::deque<std::string> texts_;
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
  };

  void add(std::vector<TraceEvent>& events, const TraceEvent& event, std::size_t most, TraceFault beyond) {
    events.size() < most ? events.push_back(event) : void(++trace_.fault(beyond));
  }
  void add_on_host(std::vector<TraceEvent>& events, const TraceEvent& event) {
    add(events, event, kMostHostEvents, TraceFault::host_over_limit);
  }
  // As fits(), for the operations and bytes of kernels.
  bool has_room_for(std::int64_t flops, std::int64_t bytes) {
    if (flops > kMostSum - all_flops_ || bytes > kMostSum - all_bytes_) return false;
    all_flops_ += flops;
    all_bytes_ += bytes;
    return true;
  }
  bool read_times(const EventText& text, TraceEvent& event);
  void add_device_event(const EventText& text, ActivityKind kind);
  void add_host_call(const EventText& text);
  void add_mark_of(const EventText& text, std::uint32_t work = 0);
  std::uint32_t work_of(const EventText& text);
  void add_flow_of(const EventText& text);
  void add_devices(std::string_view list);
  void name_process(const EventText& text);
  std::array<std::vector<TraceEvent>*, 5> all_lists() {
    return {&trace_.activities, &trace_.calls, &trace_.marks, &trace_.flow_begins, &trace_.flow_ends};
  }
  void leave_out_times_of_zero();
  void settle_base();

  Trace trace_;
  Numbers names_{kMostNameBytes}, notes_{kMostNameBytes}, tracks_{kMostNameBytes}, works_{kMostNameBytes};
  std::int64_t all_durations_ns_ = 0, all_flops_ = 0, all_bytes_ = 0;
  std::vector<HostCall> calls_;  // by name; for names of calls
  bool is_own_ = false;          // a trace of this program, in which processes have the names of ranks and devices
  std::string last_track_;       // most events have the track of the one before
  std::uint32_t last_track_number_ = 0;
  std::string key_;  // kept for its memory
};

}  // namespace ridgepoint
