// The work of the fake GPU (fake_card.cpp): its time, streams and events, and captured graphs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/fake/fake_state.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::int64_t kWorkNs = 2000;
constexpr std::int64_t kLaunchLatencyNs = 500;
std::atomic<FakeWatcher> watcher{nullptr};
std::atomic<std::int64_t> busy_until_ns{0};
std::atomic<bool> hangs{false};

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// An event is the time at which the GPU reaches it.
using EventTime = std::atomic<std::int64_t>;

using Captured = std::list<FakeGraphNode>;
Captured* capturing = nullptr;  // the graph under construction
std::atomic<int> captured_runs{0};
std::atomic<FakeNodeWatcher> node_watcher{nullptr};
std::atomic<FakeStreamWatcher> stream_watcher{nullptr};
std::atomic<std::uint64_t> last_call{0};

FakeGraphNode& insert_node(Captured& graph, Captured::iterator behind, FakeGraphNode node) {
  static std::uint64_t last_id = 0;
  node.id = ++last_id;
  node.graph = &graph;
  FakeGraphNode& added = *graph.insert(behind, node);
  if (const FakeNodeWatcher told = node_watcher) told(&added, nullptr);
  return added;
}

void add_node(Captured& graph, const FakeGraphNode& node) { insert_node(graph, graph.end(), node); }

FakeGraphNode& fake_node(CUgraphNode node) { return *reinterpret_cast<FakeGraphNode*>(node); }

Captured::iterator place_of(CUgraphNode node) {
  Captured& graph = *static_cast<Captured*>(fake_node(node).graph);
  return std::ranges::find_if(graph, [&](const FakeGraphNode& other) { return &other == &fake_node(node); });
}

// As the driver gives nodes: their number, and as many as there is room for.
CUresult give_nodes(const std::vector<FakeGraphNode*>& found, CUgraphNode* nodes, std::size_t* count) {
  if (nodes != nullptr) {
    if (*count < found.size()) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < found.size(); ++i) nodes[i] = reinterpret_cast<CUgraphNode>(found[i]);
  }
  *count = found.size();
  return state();
}

// Queues work behind earlier work.
void queue_work(FakeWork work) {
  const bool computes = host_kernels() != nullptr;
  if (computes && work.kind == FakeWork::Kind::fill && work.to != nullptr)
    std::memset(work.to, static_cast<int>(work.value), work.bytes);
  if (computes && work.kind == FakeWork::Kind::copy) std::memmove(work.to, work.from, work.bytes);
  if (work.call_back != nullptr) return work.call_back();
  if (work.host_function != nullptr) return work.host_function(work.data);
  if (work.is_of_host) return static_cast<void>(std::memcpy(work.to, work.from, work.bytes));
  if (work.word != nullptr && !hangs) std::atomic_ref(*work.word) = work.value;
  work.begin_ns = std::max(work.call_begin_ns + kLaunchLatencyNs, busy_until_ns.load());
  work.end_ns = work.begin_ns + kWorkNs;
  busy_until_ns = work.end_ns;
  work.call_end_ns = now_ns();
  if (const FakeWatcher told = watcher) told(work);
}

// The GPU reaches the event behind earlier work, however late the host comes to the event within the call.
void record(EventTime& event, std::int64_t call_begin_ns) {
  event = std::max(call_begin_ns + kLaunchLatencyNs, busy_until_ns.load());
}

// A factor from 1 to 2.
float random_factor() {
  static std::uint32_t bits = 1 + 7919 * static_cast<std::uint32_t>(from_environment("OMPI_COMM_WORLD_RANK", 0));
  bits = bits * 1664525 + 1013904223;
  return 1 + static_cast<float>(bits >> 8) / static_cast<float>(1 << 24);
}

CUresult ask_for_work() { return hangs || now_ns() < busy_until_ns ? CUDA_ERROR_NOT_READY : state(); }

}  // namespace

// Queues work, or appends it to the graph under construction.
void do_work(FakeWork work) {
  if (capturing != nullptr) return add_node(*capturing, {.work = work});
  work.call = ++last_call;
  work.call_begin_ns = now_ns();
  queue_work(work);
}
bool is_capturing() { return capturing != nullptr; }
bool is_hanging() { return hangs; }

extern "C" {

void fake_card_watch(FakeWatcher told) { watcher = told; }
void fake_card_watch_nodes(FakeNodeWatcher told) { node_watcher = told; }
void fake_card_watch_streams(FakeStreamWatcher told) { stream_watcher = told; }
int fake_card_captured_runs() { return captured_runs; }
void fake_card_run(const char* name) { do_work({.name = name, .grid = {8, 1, 1}, .block = {128, 1, 1}}); }
void fake_card_call(void (*function)(), std::shared_ptr<void> kept) {
  do_work({.call_back = function, .kept = std::move(kept)});
}
void fake_card_hang(bool hangs_now) { hangs = hangs_now; }

CUresult cuLaunchHostFunc(CUstream, void (*function)(void*), void* data) {
  return on_card([&] { return do_work({.host_function = function, .data = data}), CUDA_SUCCESS; });
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  return from_environment("FAKE_CARD_REFUSES_STREAMS", 0) != 0 ? CUDA_ERROR_OUT_OF_MEMORY : give(stream);
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return state();
}
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  return on_card([] { return capturing = new Captured, CUDA_SUCCESS; });
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = capturing != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return state();
}
CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(std::exchange(capturing, nullptr));
  const std::size_t refused = from_environment("FAKE_CARD_REFUSES_CAPTURE", 0);
  const bool refuses = refused != 0 && refused == from_environment("OMPI_COMM_WORLD_RANK", refused - 1) + 1;
  return refuses ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : state();
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* runnable, CUgraph graph, unsigned long long) {
  auto* const copy = new Captured;
  for (FakeGraphNode& node : *reinterpret_cast<Captured*>(graph)) {
    add_node(*copy, node);
    if (const FakeNodeWatcher told = node_watcher) told(&copy->back(), &node);
  }
  *runnable = reinterpret_cast<CUgraphExec>(copy);
  return state();
}
CUresult cuGraphLaunch(CUgraphExec runnable, CUstream) {
  ++captured_runs;
  const std::uint64_t call = ++last_call;
  const std::int64_t begin_ns = now_ns();
  for (const FakeGraphNode& node : *reinterpret_cast<Captured*>(runnable)) {
    FakeWork work = node.work;
    work.call = call;
    work.call_begin_ns = begin_ns;
    work.graph_node = node.id;
    if (node.event == nullptr) queue_work(work);
    if (node.event != nullptr) record(*static_cast<EventTime*>(node.event), begin_ns);
  }
  return state();
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  std::vector<FakeGraphNode*> all;
  for (FakeGraphNode& node : *reinterpret_cast<Captured*>(graph)) all.push_back(&node);
  return give_nodes(all, nodes, count);
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMSET,
                                        CU_GRAPH_NODE_TYPE_MEMCPY};
  *type = fake_node(node).event != nullptr ? CU_GRAPH_NODE_TYPE_EVENT_RECORD
                                           : kTypes[static_cast<int>(fake_node(node).work.kind)];
  return state();
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*, std::size_t* count) {
  const Captured::iterator place = place_of(node);
  const bool is_first = &*place == &static_cast<Captured*>(place->graph)->front();
  return give_nodes(is_first ? std::vector<FakeGraphNode*>{} : std::vector{&*std::prev(place)}, nodes, count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*, std::size_t* count) {
  const Captured::iterator place = place_of(node);
  const bool is_last = &*place == &static_cast<Captured*>(place->graph)->back();
  return give_nodes(is_last ? std::vector<FakeGraphNode*>{} : std::vector{&*std::next(place)}, nodes, count);
}
CUresult cuGraphAddDependencies_v2(CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*,
                                   std::size_t) {
  return state();  // the order of nodes has the edges already
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* behind, std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* kernel) {
  auto& captured = *reinterpret_cast<Captured*>(graph);
  const Captured::iterator place = count == 0 ? captured.begin() : std::next(place_of(behind[0]));
  const FakeWork work{.name = reinterpret_cast<const char*>(kernel->func),
                      .grid = {kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ},
                      .block = {kernel->blockDimX, kernel->blockDimY, kernel->blockDimZ}};
  *node = reinterpret_cast<CUgraphNode>(&insert_node(captured, place, {.work = work}));
  return state();
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode, CUlaunchAttributeID, const CUlaunchAttributeValue*) {
  return state();
}
CUresult cuGraphDestroyNode(CUgraphNode node) {
  static_cast<Captured*>(fake_node(node).graph)->erase(place_of(node));
  return state();
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy) {
  const FakeWork& work = fake_node(node).work;
  copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy->srcDevice = reinterpret_cast<CUdeviceptr>(work.from);
  copy->dstDevice = reinterpret_cast<CUdeviceptr>(work.to);
  copy->WidthInBytes = work.bytes;
  return state();
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* fill) {
  const FakeWork& work = fake_node(node).work;
  *fill = {
      .dst = work.word != nullptr ? reinterpret_cast<CUdeviceptr>(work.word) : reinterpret_cast<CUdeviceptr>(work.to),
      .pitch = 0,
      .value = work.value,
      .elementSize = work.word != nullptr ? 4U : 1U,
      .width = work.word != nullptr ? 1 : work.bytes,
      .height = 1};
  return state();
}
CUresult cuGraphDestroy(CUgraph graph) { return destroy<Captured>(graph); }
CUresult cuGraphExecDestroy(CUgraphExec runnable) { return destroy<Captured>(runnable); }
CUresult cuStreamQuery(CUstream) { return ask_for_work(); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent, unsigned) {
  if (const FakeStreamWatcher told = stream_watcher) told(stream, true);
  return state();
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  return on_card([&] { return *event = reinterpret_cast<CUevent>(new EventTime(0)), CUDA_SUCCESS; });
}
CUresult cuEventDestroy_v2(CUevent event) { return destroy<EventTime>(event); }
// As the driver does, it refuses an external record outside of a capture, and a plain one within a capture does not set
// the time of the event.
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  if (const FakeStreamWatcher told = stream_watcher) told(stream, false);
  return on_card([&] {
    auto& time = *reinterpret_cast<EventTime*>(event);
    if (flags == CU_EVENT_RECORD_EXTERNAL) {
      if (capturing == nullptr) return CUDA_ERROR_INVALID_VALUE;
      add_node(*capturing, {.event = &time});
    } else if (capturing == nullptr) {
      record(time, now_ns());
    }
    return CUDA_SUCCESS;
  });
}
CUresult cuEventQuery(CUevent event) {
  return *reinterpret_cast<EventTime*>(event) == 0 ? state() : ask_for_work();  // 0: nothing to wait for
}
CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent stop) {
  const std::int64_t begin_ns = *reinterpret_cast<EventTime*>(start), end_ns = *reinterpret_cast<EventTime*>(stop);
  if (begin_ns == 0 || end_ns == 0) return CUDA_ERROR_INVALID_HANDLE;  // not recorded yet
  *ms = static_cast<float>(end_ns - begin_ns) / 1e6F;
  if (from_environment("FAKE_CARD_RANDOM_TIMES", 0) != 0) *ms *= random_factor();
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace ridgepoint::cuda
