// make_cupti_recorder(): each launch is pushed to CUPTI as an external correlation id; the records are read at the end.
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/profiling/cupti.h"
#include "backends/cuda/profiling/cupti_buffers.h"
#include "backends/cuda/profiling/cupti_records.h"
#include "backends/cuda/profiling/observers.h"
#include "ridgepoint/error.h"
#include "runtime/host_activity.h"

namespace ridgepoint::cuda {
namespace {

// Concurrent kernels, because the plain kind serialises kernels. External correlation needs the records of API calls.
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                               CUPTI_ACTIVITY_KIND_DRIVER,
                               CUPTI_ACTIVITY_KIND_RUNTIME,
                               CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMSET,
                               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
constexpr auto kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

void CUPTIAPI ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// While an object exists, this process is CUPTI's only subscriber and all kinds of records are enabled.
class Subscription {
 public:
  Subscription() : call_(cupti()) {
    CuptiBuffers::instance();
    // The callback is not needed, but only a subscription shows whether another tool uses CUPTI.
    check(call_, call_.cuptiSubscribe(&subscriber_, ignore_callback, nullptr), "start recording");
    try {
      for (const CUpti_ActivityKind kind : kKinds) {
        check(call_, call_.cuptiActivityEnable(kind), "record kernels");
        ++enabled_;
      }
    } catch (...) {
      end();
      throw;
    }
  }
  ~Subscription() { end(); }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Moves complete records to the buffers; with CUPTI_ACTIVITY_FLAG_FLUSH_FORCED all other records too.
  void flush(std::uint32_t flags) const { check(call_, call_.cuptiActivityFlushAll(flags), "flush its records"); }

 private:
  void end() noexcept {
    while (enabled_ > 0) call_.cuptiActivityDisable(kKinds[--enabled_]);
    call_.cuptiUnsubscribe(subscriber_);
  }

  const Cupti& call_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::size_t enabled_ = 0;
};

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
  explicit CuptiRecorder(const CudaContext& context) : context_(context) {}

  void start(std::size_t launches) override {
    const CudaContext::Scope scope(context_);
    launches_.clear();
    launches_.reserve(launches);
    run_ = kNoRun;
    call_ = &cupti();
    subscription_.emplace();
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
    log.activities = records.activities(launches_);
    log.dropped = CuptiBuffers::instance().take_dropped() + records.untimed();
    return log;
  }

  void run_begins() override { ++run_; }

  void before_launch(std::uint32_t launch) override {
    call_->cuptiActivityPushExternalCorrelationId(kOurs, launches_.size());
    is_pushed_ = true;
    launches_.push_back({run_, launch, steady_now_ns(), 0});
  }
  void after_launch(std::uint32_t) override {
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
      const std::size_t heard = records.launches_heard_of(launches_);
      if (heard == 0 || heard == launches_.size()) return;
      std::this_thread::sleep_for(kPause);
    }
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

  const CudaContext& context_;
  const Cupti* call_ = nullptr;  // once started
  std::optional<Subscription> subscription_;
  std::vector<HostLaunch> launches_;
  std::int64_t clock_offset_ns_ = 0;
  std::uint32_t run_ = kNoRun;
  bool is_pushed_ = false;
};

}  // namespace

std::unique_ptr<ActivityRecorder> make_cupti_recorder(const CudaContext& context) {
  return std::make_unique<CuptiRecorder>(context);
}

}  // namespace ridgepoint::cuda
