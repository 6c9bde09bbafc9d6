// A fake CUPTI for the GPU of fake_card.cpp: it makes the records of the real one, with a clock of its own, in small
// buffers, and returns the last ones only when flushed twice. Environment variables: FAKE_CUPTI_TAKEN: another tool
// uses CUPTI; FAKE_CUPTI_DROPS: the number of kernels that are dropped without a buffer; FAKE_CUPTI_UNLINKED: calls
// have no external correlation; FAKE_CUPTI_NO_CALLBACKS: it tells nobody of graph nodes; FAKE_CUPTI_OTHER_NODES:
// kernels have ids of graph nodes that nobody was told of.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/profiling/cupti.h"

namespace ridgepoint::cuda {
namespace {

// The offset from the steady clock to this library's clock.
constexpr std::int64_t kClockOffsetNs = 1'000'000'000'000'000;
constexpr std::size_t kRecordsABuffer = 100;

std::mutex mutex;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
bool subscribed = false;
std::set<CUpti_ActivityKind> enabled;
std::vector<std::vector<std::uint8_t>> records;
std::vector<std::uint64_t> external_ids;
std::uint32_t last_correlation = 0;
std::uint64_t last_call = 0;
CUpti_CallbackFunc callback = nullptr;
void* callback_data = nullptr;
std::set<CUpti_CallbackId> called_back;
std::size_t dropped = 0;

std::size_t from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::uint64_t stamp(std::int64_t steady_ns) { return static_cast<std::uint64_t>(steady_ns + kClockOffsetNs); }

template <typename Record>
void keep(const Record& record) {
  static_assert(sizeof(Record) % 8 == 0);
  if (!enabled.contains(record.kind)) return;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
  records.emplace_back(bytes, bytes + sizeof record);
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    default: return sizeof(CUpti_ActivityAPI);
  }
}

void keep_call(const FakeWork& work) {
  if (!external_ids.empty() && from_environment("FAKE_CUPTI_UNLINKED") == 0) {
    CUpti_ActivityExternalCorrelation link{};
    link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    link.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    link.externalId = external_ids.back();
    link.correlationId = last_correlation;
    keep(link);
  }
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  call.start = stamp(work.call_begin_ns);
  call.end = stamp(work.call_end_ns);
  call.correlationId = last_correlation;
  keep(call);
}

std::uint64_t shown_node(const FakeWork& work) {
  const bool is_other = work.graph_node != 0 && from_environment("FAKE_CUPTI_OTHER_NODES") > 0;
  return work.graph_node + (is_other ? 1'000'000 : 0);
}

void keep_kernel(const FakeWork& work) {
  static std::size_t to_drop = from_environment("FAKE_CUPTI_DROPS");
  if (to_drop > 0) {
    --to_drop;
    ++dropped;
    return;
  }
  CUpti_ActivityKernel9 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = stamp(work.begin_ns);
  kernel.end = stamp(work.end_ns);
  kernel.name = work.name;
  kernel.streamId = 7;
  kernel.gridX = static_cast<int>(work.grid[0]);
  kernel.gridY = static_cast<int>(work.grid[1]);
  kernel.gridZ = static_cast<int>(work.grid[2]);
  kernel.blockX = static_cast<int>(work.block[0]);
  kernel.blockY = static_cast<int>(work.block[1]);
  kernel.blockZ = static_cast<int>(work.block[2]);
  kernel.registersPerThread = 42;
  kernel.staticSharedMemory = 1024;
  kernel.dynamicSharedMemory = 512;
  kernel.correlationId = last_correlation;
  kernel.graphNodeId = shown_node(work);
  keep(kernel);
}

// Many kernels of one call share its record.
void watch(const FakeWork& work) {
  if (work.kind == FakeWork::Kind::copy) return;
  const std::lock_guard lock(mutex);
  if (work.call != last_call) {
    last_call = work.call;
    ++last_correlation;
    keep_call(work);
  }
  if (work.kind == FakeWork::Kind::kernel) return keep_kernel(work);
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.start = stamp(work.begin_ns);
  fill.end = stamp(work.end_ns);
  fill.streamId = 7;
  fill.correlationId = last_correlation;
  fill.graphNodeId = shown_node(work);
  keep(fill);
}

// As CUPTI does, first for a new node, then for a copy.
void watch_nodes(FakeGraphNode* node, FakeGraphNode* original) {
  const CUpti_CallbackId id =
      original == nullptr ? CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED : CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  if (callback == nullptr || !called_back.contains(id)) return;
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(node);
  graph.originalNode = reinterpret_cast<CUgraphNode>(original);
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  callback(callback_data, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

void watch_card(FakeWatcher watcher) {
  const auto set = fake_function<decltype(fake_card_watch)>("fake_card_watch");
  const auto set_nodes = fake_function<decltype(fake_card_watch_nodes)>("fake_card_watch_nodes");
  if (set != nullptr) set(watcher);
  if (set_nodes != nullptr) set_nodes(watcher == nullptr ? nullptr : watch_nodes);
}

// Passes up to kRecordsABuffer records; false if none are left.
bool hand_over_buffer() {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, most = 0, used = 0, count = 0;
  request(&buffer, &size, &most);
  if (buffer == nullptr) return false;
  std::unique_lock lock(mutex);
  while (count < std::min(records.size(), kRecordsABuffer) && used + records[count].size() <= size) {
    std::memcpy(buffer + used, records[count].data(), records[count].size());
    used += records[count++].size();
  }
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(count));
  const bool more = !records.empty();
  lock.unlock();
  complete(nullptr, 0, buffer, size, used);
  return more;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "the library's own words";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  *timestamp = stamp(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc function, void* data) {
  const bool taken = subscribed || from_environment("FAKE_CUPTI_TAKEN") > 0;
  if (taken) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed = true;
  callback = function;
  callback_data = data;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  const bool refuses =
      enable == 0 || domain != CUPTI_CB_DOMAIN_RESOURCE || from_environment("FAKE_CUPTI_NO_CALLBACKS") > 0;
  if (refuses) return CUPTI_ERROR_INVALID_PARAMETER;
  called_back.insert(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* id) {
  if (node == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *id = reinterpret_cast<const FakeGraphNode*>(node)->id;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  subscribed = false;
  callback = nullptr;
  called_back.clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc asks,
                                           CUpti_BuffersCallbackCompleteFunc gives) {
  request = asks;
  complete = gives;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(mutex);
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL) return CUPTI_ERROR_NOT_COMPATIBLE;  // would serialise kernels
  enabled.insert(kind);
  watch_card(watch);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(mutex);
  enabled.erase(kind);
  if (enabled.empty()) watch_card(nullptr);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t flags) {
  if (request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  static bool held_back = false;
  std::vector<std::uint8_t> late;
  if (flags == 0 && !held_back && !records.empty()) {
    late = std::move(records.back());
    records.pop_back();
    held_back = true;
  }
  while (hand_over_buffer()) {
  }
  if (!late.empty()) records.push_back(std::move(late));
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
  auto* next = reinterpret_cast<std::uint8_t*>(*record);
  next = next == nullptr ? buffer : next + size_of((*record)->kind);
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* count) {
  const std::lock_guard lock(mutex);
  *count = dropped;
  dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  const std::lock_guard lock(mutex);
  external_ids.push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* last) {
  const std::lock_guard lock(mutex);
  if (external_ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = external_ids.back();
  external_ids.pop_back();
  return CUPTI_SUCCESS;
}

}  // extern "C"

// It has every function, as the engine calls it.
#define CHECK_FUNCTION(name, ...) static_assert(std::is_same_v<decltype(name), CUptiResult(__VA_ARGS__)>);
RIDGEPOINT_CUPTI_FUNCTIONS(CHECK_FUNCTION)

}  // namespace ridgepoint::cuda
