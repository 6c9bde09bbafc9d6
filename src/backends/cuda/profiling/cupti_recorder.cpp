// make_cupti_recorder(): each launch, or captured run, is pushed to CUPTI as an external correlation id; the records
// are read at the end.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/profiling/cupti.h"
#include "backends/cuda/profiling/cupti_buffers.h"
#include "backends/cuda/profiling/cupti_records.h"
#include "backends/cuda/profiling/cupti_subscription.h"
#include "backends/cuda/profiling/observers.h"
#include "ridgepoint/error.h"
#include "runtime/device/host_activity.h"

namespace ridgepoint::cuda {
namespace {

constexpr auto kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// The offset of the steady clock from CUPTI's timestamps, from the closest of several readings.
std::int64_t clock_offset_ns(const Cupti& call) {
  constexpr int kReadings = 16;
  std::int64_t offset = 0;
  std::int64_t closest = INT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    std::uint64_t stamp = 0;
    const std::int64_t before = steady_now_ns();
    check(call, call.cuptiGetTimestamp(&stamp), "read its clock");
    const std::int64_t after = steady_now_ns();
    if (after - before >= closest) continue;
    closest = after - before;
    offset = before + closest / 2 - static_cast<std::int64_t>(stamp);
  }
  return offset;
}

class CuptiRecorder : public ActivityRecorder {
 public:
  explicit CuptiRecorder(CudaContext& context) : context_(context) {}

  void start(std::size_t launches) override {
    const CudaContext::Scope scope(context_);
    launches_.clear();
    launches_.reserve(launches);
    nodes_.forget();
    run_ = kNoRun;
    call_ = &cupti();
    subscription_.emplace(nodes_);
    clock_offset_ns_ = clock_offset_ns(*call_);
    discard_old_records();
  }

  ActivityLog stop() override {
    context_.synchronize();
    CuptiRecords records(clock_offset_ns_);
    read_complete(records);
    subscription_->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    subscription_.reset();
    read_buffers(records);
    ActivityLog log;
    log.activities = records.activities(launches_, nodes_.launches());
    log.dropped = CuptiBuffers::instance().take_dropped() + records.untimed();
    return log;
  }

  void run_begins() override { ++run_; }

  bool capture_begins() override {
    if (refuses_captures_ || !subscription_->sees_graph_nodes()) return false;
    nodes_.forget();
    is_capturing_ = true;
    context_.keep_launches_apart(true);
    context_.graph_edits().set_listener([this](CUgraphNode node, CUgraphNode replacement) {
      const std::optional<std::uint64_t> original = id_of_graph_node(node), made = id_of_graph_node(replacement);
      if (original && made) nodes_.copied(*original, *made);
    });
    return true;
  }
  void capture_ends() override {
    nodes_.end_launch();
    is_capturing_ = false;
    context_.keep_launches_apart(false);
    context_.graph_edits().set_listener({});
  }
  void refuse_captures() override { refuses_captures_ = true; }

  void before_launch(std::uint32_t launch) override {
    if (is_capturing_) return nodes_.begin_launch(launch);
    call_->cuptiActivityPushExternalCorrelationId(kOurs, launches_.size());
    is_pushed_ = true;
    launches_.push_back({run_, launch, steady_now_ns(), 0});
  }
  void after_launch(std::uint32_t) override {
    if (is_capturing_) return nodes_.end_launch();
    launches_.back().end_ns = steady_now_ns();
    pop();
  }
  // A launch that threw did not pop its id.
  void run_ends() override {
    if (is_pushed_) pop();
  }

 private:
  void pop() {
    std::uint64_t last = 0;
    call_->cuptiActivityPopExternalCorrelationId(kOurs, &last);
    is_pushed_ = false;
  }

  // Discards the records of an earlier recording that was aborted.
  static void discard_old_records() {
    CuptiBuffers& buffers = CuptiBuffers::instance();
    buffers.give_back(buffers.take());
    buffers.take_dropped();
  }

  // The GPU has finished, but its times may not have reached the records yet.
  void read_complete(CuptiRecords& records) const {
    constexpr int kTries = 50;
    constexpr std::chrono::milliseconds kPause{2};
    for (int i = 0; i < kTries; ++i) {
      subscription_->flush(0);
      read_buffers(records);
      const std::size_t heard = records.launches_heard_of(launches_, nodes_.launches());
      if (heard == 0 || heard == expected_launches()) return;
      std::this_thread::sleep_for(kPause);
    }
  }

  // A captured run counts once for each launch that made a node.
  std::size_t expected_launches() const {
    const auto captured = static_cast<std::size_t>(std::ranges::count(launches_, kNoLaunch, &HostLaunch::launch));
    return launches_.size() - captured + captured * nodes_.launch_count();
  }

  void read_buffers(CuptiRecords& records) const {
    CuptiBuffers& buffers = CuptiBuffers::instance();
    std::vector<CuptiBuffers::Filled> filled = buffers.take();
    for (const CuptiBuffers::Filled& buffer : filled) {
      auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.memory.get());
      CUpti_Activity* record = nullptr;
      while (call_->cuptiActivityGetNextRecord(bytes, buffer.bytes, &record) == CUPTI_SUCCESS) records.add(*record);
    }
    buffers.give_back(std::move(filled));
  }

  CudaContext& context_;
  const Cupti* call_ = nullptr;  // once started
  CapturedNodes nodes_;          // it outlives the subscription, whose callbacks fill it
  std::optional<CuptiSubscription> subscription_;
  std::vector<HostLaunch> launches_;
  std::int64_t clock_offset_ns_ = 0;
  std::uint32_t run_ = kNoRun;
  bool is_pushed_ = false;
  bool is_capturing_ = false;
  bool refuses_captures_ = false;
};

}  // namespace

std::unique_ptr<ActivityRecorder> make_cupti_recorder(CudaContext& context) {
  return std::make_unique<CuptiRecorder>(context);
}

}  // namespace ridgepoint::cuda
