// make_cupti_recorder(): each launch, or captured run, is pushed to CUPTI as an external correlation id; the records
// are read at the end.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/driver/kernel_cache.h"
#include "backends/cuda/profiling/cupti.h"
#include "backends/cuda/profiling/cupti_records.h"
#include "backends/cuda/profiling/observers.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/activity.h"
#include "runtime/device/host_device.h"

namespace ridgepoint::cuda {
namespace {

// The buffers to which CUPTI writes its records, 4 MiB each, requested and completed on any thread. CUPTI's callbacks
// have no user pointer, so a process has one such object.
class CuptiBuffers {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  // Allocated before recording begins, so that a step rarely waits for memory: 1,000 launches fill a quarter of one.
  static constexpr std::size_t kReady = 4;

  struct Filled {
    std::unique_ptr<std::uint64_t[]> memory;  // records are aligned to 8 bytes
    std::size_t bytes = 0;
  };

  // Made and registered with CUPTI at first use. Throws Error.
  static CuptiBuffers& instance();

  // The buffers filled since the last call, and the number of records for which CUPTI had no buffer.
  std::vector<Filled> take();
  std::uint64_t take_dropped();
  void give_back(std::vector<Filled> buffers);

 private:
  CuptiBuffers();

  static void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  static void completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                        std::size_t valid_bytes);

  // Never deleted, because CUPTI's thread may outlive static objects.
  static CuptiBuffers& only_one();

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::uint64_t[]>> spare_;
  std::vector<Filled> filled_;
  std::uint64_t dropped_ = 0;
};

CuptiBuffers::CuptiBuffers() {
  for (std::size_t i = 0; i < kReady; ++i)
    spare_.push_back(std::make_unique<std::uint64_t[]>(kBytes / sizeof(std::uint64_t)));
}

CuptiBuffers& CuptiBuffers::only_one() {
  static auto* const buffers = new CuptiBuffers;
  return *buffers;
}

CuptiBuffers& CuptiBuffers::instance() {
  static const bool registered = [] {
    check(cupti(), cupti().cuptiActivityRegisterCallbacks(requested, completed), "register callbacks for its buffers");
    return true;
  }();
  static_cast<void>(registered);
  return only_one();
}

// CUPTI calls this, so nothing may be thrown. Without a buffer CUPTI drops records and counts them.
void CuptiBuffers::requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  CuptiBuffers& self = only_one();
  *most_records = 0;  // no limit but the buffer's size
  *size = kBytes;
  const std::lock_guard lock(self.mutex_);
  if (self.spare_.empty()) {
    *buffer = reinterpret_cast<std::uint8_t*>(new (std::nothrow) std::uint64_t[kBytes / sizeof(std::uint64_t)]());
  } else {
    *buffer = reinterpret_cast<std::uint8_t*>(self.spare_.back().release());
    self.spare_.pop_back();
  }
}

void CuptiBuffers::completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  CuptiBuffers& self = only_one();
  std::size_t dropped = 0;
  if (cupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
  std::unique_ptr<std::uint64_t[]> memory(reinterpret_cast<std::uint64_t*>(buffer));
  const std::lock_guard lock(self.mutex_);
  self.dropped_ += dropped;
  if (valid_bytes > 0) {
    self.filled_.push_back({std::move(memory), valid_bytes});
  } else {
    self.spare_.push_back(std::move(memory));
  }
}

std::vector<CuptiBuffers::Filled> CuptiBuffers::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(filled_, {});
}

std::uint64_t CuptiBuffers::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

void CuptiBuffers::give_back(std::vector<Filled> buffers) {
  const std::lock_guard lock(mutex_);
  for (Filled& buffer : buffers) spare_.push_back(std::move(buffer.memory));
}

// Concurrent kernels, because the plain kind serialises kernels. External correlation needs the records of API calls.
// Without the kind of whole graphs, each node of a graph has a record.
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                               CUPTI_ACTIVITY_KIND_DRIVER,
                               CUPTI_ACTIVITY_KIND_RUNTIME,
                               CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMCPY2,
                               CUPTI_ACTIVITY_KIND_MEMSET,
                               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

constexpr std::array kGraphNodes = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

// Which launch made each node of a captured CUDA graph. A graph is instantiated as a copy of the captured one, whose
// nodes have ids of their own, and the kernels of its launches have the ids of these.
class CapturedNodes {
 public:
  // Nodes that are created from here to end_launch() belong to the launch.
  void begin_launch(std::uint32_t launch) { launch_ = launch; }
  void end_launch() { launch_ = kNoLaunch; }

  void created(std::uint64_t node) {
    if (launch_ == kNoLaunch) return;
    launches_[node] = launch_;
    if (launch_ != last_counted_) ++launch_count_;
    last_counted_ = launch_;
  }
  void copied(std::uint64_t original, std::uint64_t copy) {
    if (const auto known = launches_.find(original); known != launches_.end()) launches_[copy] = known->second;
  }
  void forget() { *this = {}; }

  const GraphNodes& launches() const { return launches_; }
  // The number of launches that made a node.
  std::size_t launch_count() const { return launch_count_; }

 private:
  GraphNodes launches_;
  std::uint32_t launch_ = kNoLaunch;
  std::uint32_t last_counted_ = kNoLaunch;
  std::size_t launch_count_ = 0;
};

// CUPTI's id of a node of a CUDA graph; nothing where it knows none.
std::optional<std::uint64_t> id_of_graph_node(CUgraphNode node) {
  std::uint64_t id = 0;
  if (cupti().cuptiGetGraphNodeId(node, &id) != CUPTI_SUCCESS) return std::nullopt;
  return id;
}

// While an object exists, this process is CUPTI's only subscriber, all kinds of records are enabled, and CUPTI tells
// `nodes`, on the thread that captures, of every graph node.
class CuptiSubscription {
 public:
  // Throws Error if recording is not possible.
  explicit CuptiSubscription(CapturedNodes& nodes);
  ~CuptiSubscription() { end(); }
  CuptiSubscription(const CuptiSubscription&) = delete;
  CuptiSubscription& operator=(const CuptiSubscription&) = delete;

  // Whether CUPTI tells of graph nodes.
  bool sees_graph_nodes() const { return sees_graph_nodes_; }

  // Moves complete records to the buffers; with CUPTI_ACTIVITY_FLAG_FLUSH_FORCED all other records too.
  void flush(std::uint32_t flags) const { check(call_, call_.cuptiActivityFlushAll(flags), "flush its records"); }

 private:
  static void on_callback(void* nodes, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
  void end() noexcept;

  const Cupti& call_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::size_t enabled_ = 0;  // kinds of records
  bool sees_graph_nodes_ = false;
};

// The subscription also shows whether another tool uses CUPTI.
CuptiSubscription::CuptiSubscription(CapturedNodes& nodes) : call_(cupti()) {
  CuptiBuffers::instance();
  check(call_, call_.cuptiSubscribe(&subscriber_, on_callback, &nodes), "start recording");
  try {
    for (const CUpti_ActivityKind kind : kKinds) {
      check(call_, call_.cuptiActivityEnable(kind), "record kernels");
      ++enabled_;
    }
  } catch (...) {
    end();
    throw;
  }
  sees_graph_nodes_ = true;
  for (const CUpti_CallbackId id : kGraphNodes) {
    if (call_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id) != CUPTI_SUCCESS)
      sees_graph_nodes_ = false;
  }
}

// CUPTI knows a kernel by the address of its CUfunction, and reports the old name where the driver gives this address
// to a kernel that is loaded later (seen with CUDA 13.0). So the kernels at the end of a recording are never unloaded.
void CuptiSubscription::end() noexcept {
  try {
    LoadedSource::keep_loaded();
  } catch (const std::bad_alloc&) {  // later names may be wrong
  }
  while (enabled_ > 0) call_.cuptiActivityDisable(kKinds[--enabled_]);
  call_.cuptiUnsubscribe(subscriber_);
}

// CUPTI calls this, so nothing may be thrown. A node whose id cannot be read stays unknown.
void CuptiSubscription::on_callback(void* nodes, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE || data == nullptr) return;
  const auto* graph =
      static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
  if (graph == nullptr) return;
  auto& known = *static_cast<CapturedNodes*>(nodes);
  try {
    const std::optional<std::uint64_t> node = id_of_graph_node(graph->node);
    if (!node) return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) known.created(*node);
    if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
    if (const std::optional<std::uint64_t> original = id_of_graph_node(graph->originalNode))
      known.copied(*original, *node);
  } catch (...) {  // no memory: the node stays unknown
  }
}

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
