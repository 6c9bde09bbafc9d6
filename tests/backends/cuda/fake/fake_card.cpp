// A fake driver with one GPU that computes nothing, so that a machine without a GPU can run the host side of a model:
// every allocation, copy, module and launch. With FAKE_CARD_KERNELS, the path of a module of kernels for the processor
// (host/host_kernels.cmake), it runs their launches outside of graphs, and fills and copies change memory; a launch of
// another kernel is then an error. Its memory is host memory, untouched until written. Environment variables:
// FAKE_CARD_CAPABILITY is ten times the compute capability (90 without it); FAKE_CARD_HELD_BYTES is the memory of other
// processes; FAKE_CARD_MODULE_BYTES that of each loaded module; after the launch FAKE_CARD_FAILS_AFTER every call
// returns an error, as after an illegal access of a kernel; with FAKE_CARD_REFUSES_STREAMS no stream can be created,
// with FAKE_CARD_LOCKS_NO_PAGES no memory of the host can be locked, with FAKE_CARD_REFUSES_IMAGES no code loaded, with
// FAKE_CARD_REFUSES_TOGETHER no launches can be cooperative, and with FAKE_CARD_REFUSES_CAPTURE none can be captured,
// by any process or, where that is R, by rank R - 1; with FAKE_CARD_RANDOM_TIMES events have other times on each rank;
// with FAKE_CARD_TAKES_NO_LAUNCHES a GPU that hangs takes no launches, as where the driver's queue is full;
// FAKE_CARD_OF_RANK_1 is the name of the GPU of that rank, and with FAKE_CARD_FOR_EACH_RANK each sees one of its own.
// Each piece of work takes a fixed time, and synchronising waits for it. A call that needs the GPU's context fails, and
// is counted, if the calling thread has none or another one.
#include "backends/cuda/fake/fake_card.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/host/block.h"
#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kTotalBytes = std::size_t{16} << 30;
constexpr std::size_t kContextBytes = std::size_t{500} << 20;

std::size_t from_environment(const char* name, std::size_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

std::mutex mutex;
std::map<CUdeviceptr, std::size_t> blocks;
std::size_t used_bytes = kContextBytes + from_environment("FAKE_CARD_HELD_BYTES", 0);
const std::size_t kModuleBytes = from_environment("FAKE_CARD_MODULE_BYTES", 0);
std::atomic<std::size_t> launches{0};
thread_local std::vector<CUcontext> contexts;  // of this thread; the last is current
std::atomic<int> retained{0};
std::atomic<int> calls_elsewhere{0};
std::atomic<int> context_calls{0};

CUcontext current() { return contexts.empty() ? nullptr : contexts.back(); }
CUcontext primary() {
  static char object;
  return reinterpret_cast<CUcontext>(&object);
}

// The status of a call that needs the GPU's context.
CUresult state() {
  static const std::size_t last = from_environment("FAKE_CARD_FAILS_AFTER", SIZE_MAX);
  if (launches > last) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (current() == primary()) return CUDA_SUCCESS;
  ++calls_elsewhere;
  return CUDA_ERROR_INVALID_CONTEXT;
}

template <typename Body>
CUresult on_card(const Body& body) {
  if (const CUresult failed = state(); failed != CUDA_SUCCESS) return failed;
  return body();
}

template <typename T>
CUresult say(T* to, std::type_identity_t<T> answer) {
  *to = answer;
  return CUDA_SUCCESS;
}

template <typename T, typename Handle>
CUresult destroy(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  return state();
}

// Any distinct non-null handle.
template <typename Handle>
CUresult give(Handle* handle) {
  static char object;
  return on_card([&] { return say(handle, reinterpret_cast<Handle>(&object)); });
}

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
std::atomic<int> early_launches{0};
std::atomic<FakeNodeWatcher> node_watcher{nullptr};
std::atomic<FakeStreamWatcher> stream_watcher{nullptr};
std::atomic<FakeHostCopyWatcher> host_copy_watcher{nullptr};
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

// Null where the GPU computes nothing.
void* host_kernels() {
  static void* const opened = [] {
    const char* path = std::getenv("FAKE_CARD_KERNELS");
    void* const module = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (path != nullptr && module == nullptr) std::fprintf(stderr, "FAKE_CARD_KERNELS: %s\n", dlerror());
    if (path != nullptr && module == nullptr) std::_Exit(1);
    return module;
  }();
  return opened;
}

CUresult run_on_host(const FakeWork& work, unsigned shared_bytes) {
  if (host_kernels() == nullptr) return CUDA_SUCCESS;
  if (capturing != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  using Run = void(const emulated::Launch&, void**);
  const auto run = reinterpret_cast<Run*>(dlsym(host_kernels(), (std::string("run_") + work.name).c_str()));
  if (run == nullptr) {
    std::fprintf(stderr, "%s has no code for the processor\n", work.name);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const auto index = [](const unsigned(&sizes)[3]) { return emulated::Index{sizes[0], sizes[1], sizes[2]}; };
  run({index(work.grid), index(work.block), shared_bytes}, work.parameters);
  return CUDA_SUCCESS;
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

// Queues work, or appends it to the graph under construction.
void do_work(FakeWork work) {
  if (capturing != nullptr) return add_node(*capturing, {.work = work});
  work.call = ++last_call;
  work.call_begin_ns = now_ns();
  queue_work(work);
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

CUresult copy_with_host(void* to, const void* from, std::size_t bytes) {
  return on_card([&] {
    do_work({.kind = FakeWork::Kind::copy, .to = to, .from = from, .bytes = bytes, .is_of_host = true});
    return CUDA_SUCCESS;
  });
}

CUresult ask_for_work() { return hangs || now_ns() < busy_until_ns ? CUDA_ERROR_NOT_READY : state(); }

}  // namespace

extern "C" {

void fake_card_watch(FakeWatcher told) { watcher = told; }
void fake_card_watch_nodes(FakeNodeWatcher told) { node_watcher = told; }
void fake_card_watch_streams(FakeStreamWatcher told) { stream_watcher = told; }
void fake_card_watch_host_copies(FakeHostCopyWatcher told) { host_copy_watcher = told; }
int fake_card_calls_elsewhere() { return calls_elsewhere; }
int fake_card_context_calls() { return context_calls; }
int fake_card_retained() { return retained; }
int fake_card_captured_runs() { return captured_runs; }
int fake_card_early_launches() { return early_launches; }
int fake_card_launches() { return static_cast<int>(launches); }
void fake_card_run(const char* name) { do_work({.name = name, .grid = {8, 1, 1}, .block = {128, 1, 1}}); }
void fake_card_call(void (*function)()) { do_work({.call_back = function}); }
void fake_card_hang(bool hangs_now) { hangs = hangs_now; }

// NVRTC initialises the driver too, for tables that do not exist here, so it finds no GPU.
CUresult cuInit(unsigned) {
  static std::atomic<int> calls{0};
  return calls++ == 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
CUresult cuDriverGetVersion(int* version) { return say(version, 13000); }
CUresult cuGetErrorName(CUresult error, const char** name) {
  return say(name, error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_TEST");
}
CUresult cuGetErrorString(CUresult, const char** text) { return say(text, "the driver's own words"); }
CUresult cuDeviceGetCount(int* count) { return say(count, 1); }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return say(device, ordinal); }
CUresult cuDeviceGetName(char* name, int, CUdevice) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* other = rank != nullptr && std::strcmp(rank, "1") == 0 ? std::getenv("FAKE_CARD_OF_RANK_1") : nullptr;
  std::strcpy(name, other != nullptr ? other : "NVIDIA H200");
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return say(bytes, kTotalBytes); }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  const auto capability = static_cast<int>(from_environment("FAKE_CARD_CAPABILITY", 90));
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return say(value, capability / 10);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return say(value, capability % 10);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return say(value, 132);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return say(value, 2048);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return say(value, 227 * 1024);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      if (from_environment("FAKE_CARD_FOR_EACH_RANK", 0) == 0) break;
      return say(value, static_cast<int>(from_environment("OMPI_COMM_WORLD_RANK", 0)));
    default: break;
  }
  return say(value, 1 << 16);
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++retained;
  return say(context, primary());
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  --retained;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  ++context_calls;
  return say(context, current());
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  ++context_calls;
  contexts.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  ++context_calls;
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return on_card([&] {
    const std::lock_guard lock(mutex);
    *free_bytes = kTotalBytes - used_bytes;
    *total_bytes = kTotalBytes;
    return CUDA_SUCCESS;
  });
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return on_card([&] {
    const std::lock_guard lock(mutex);
    if (bytes > kTotalBytes - used_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(pages);
    blocks[*address] = bytes;
    used_bytes += bytes;
    return CUDA_SUCCESS;
  });
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  return on_card([&] {
    const std::lock_guard lock(mutex);
    const auto block = blocks.find(address);
    if (block == blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void*>(address), block->second);
    used_bytes -= block->second;
    blocks.erase(block);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostRegister_v2(void*, std::size_t, unsigned) {
  return from_environment("FAKE_CARD_LOCKS_NO_PAGES", 0) != 0 ? CUDA_ERROR_OUT_OF_MEMORY : state();
}
CUresult cuMemHostUnregister(void*) { return state(); }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return state();
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  return copy_with_host(reinterpret_cast<void*>(to), from, bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  if (const FakeHostCopyWatcher told = host_copy_watcher) told(bytes);
  return copy_with_host(to, reinterpret_cast<void*>(from), bytes);
}
CUresult cuLaunchHostFunc(CUstream, void (*function)(void*), void* data) {
  return on_card([&] { return do_work({.host_function = function, .data = data}), CUDA_SUCCESS; });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return on_card([&] {
    do_work({.kind = FakeWork::Kind::copy,
             .name = "copy",
             .to = reinterpret_cast<void*>(to),
             .from = reinterpret_cast<const void*>(from),
             .bytes = bytes});
    return CUDA_SUCCESS;
  });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  return on_card([&] {
    do_work({.kind = FakeWork::Kind::fill,
             .name = "fill",
             .value = value,
             .to = reinterpret_cast<void*>(to),
             .bytes = bytes});
    return CUDA_SUCCESS;
  });
}
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, std::size_t count, CUstream) {
  return on_card([&] {
    if (count != 1) return CUDA_ERROR_INVALID_VALUE;
    do_work({.kind = FakeWork::Kind::fill,
             .name = "fill",
             .word = reinterpret_cast<std::uint32_t*>(address),
             .value = value});
    return CUDA_SUCCESS;
  });
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  const auto after = blocks.upper_bound(address);
  if (which != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || after == blocks.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto [begin, bytes] = *std::prev(after);
  if (address >= begin + bytes) return CUDA_ERROR_INVALID_VALUE;
  return say(static_cast<CUmemorytype*>(value), CU_MEMORYTYPE_DEVICE);
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
// A map of rank R has the address, R sizes and R - 1 strides in bytes.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, std::uint32_t rank, void* data,
                                const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t*,
                                const std::uint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return on_card([&] {
    *map = {};
    map->opaque[0] = reinterpret_cast<std::uintptr_t>(data);
    std::copy_n(sizes, rank, map->opaque + 1);
    std::copy_n(strides, rank - 1, map->opaque + 1 + rank);
    return CUDA_SUCCESS;
  });
}
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

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const auto begins_with = [&](const char* text) {
    return std::strncmp(static_cast<const char*>(image), text, std::strlen(text)) == 0;
  };
  // A cubin, a fatbin or PTX.
  const bool is_image = begins_with("\177ELF") || begins_with("\x50\xed\x55\xba") || begins_with("//");
  if (!is_image || from_environment("FAKE_CARD_REFUSES_IMAGES", 0) != 0) return CUDA_ERROR_INVALID_IMAGE;
  const std::lock_guard lock(mutex);
  used_bytes += kModuleBytes;
  return give(module);
}
CUresult cuModuleUnload(CUmodule) {
  const std::lock_guard lock(mutex);
  used_bytes -= kModuleBytes;
  return state();
}
// A function's handle is its name.
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return on_card([&] {
    static std::set<std::string> names;
    const std::lock_guard lock(mutex);
    *function = reinterpret_cast<CUfunction>(const_cast<char*>(names.insert(name).first->c_str()));
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return state(); }
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream, void** parameters,
                        void**) {
  ++launches;
  while (hangs && from_environment("FAKE_CARD_TAKES_NO_LAUNCHES", 0) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return on_card([&] {
    const bool is_shape = grid_x > 0 && grid_y > 0 && grid_y < 65536 && grid_z > 0 && grid_z < 65536 &&
                          block_x * block_y * block_z > 0 && block_x * block_y * block_z <= 1024;
    if (!is_shape) return CUDA_ERROR_INVALID_VALUE;
    const FakeWork work{.name = reinterpret_cast<const char*>(function),
                        .grid = {grid_x, grid_y, grid_z},
                        .block = {block_x, block_y, block_z},
                        .parameters = parameters};
    do_work(work);
    return run_on_host(work, shared_bytes);
  });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      early_launches += attribute.value.programmaticStreamSerializationAllowed;
  }
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                        extra);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  if (from_environment("FAKE_CARD_REFUSES_TOGETHER", 0) != 0) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                        nullptr);
}

}  // extern "C"

// It has every function, as the engine calls it.
#define CHECK_FUNCTION(name, ...) static_assert(std::is_same_v<decltype(name), CUresult(__VA_ARGS__)>);
RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(CHECK_FUNCTION)

}  // namespace ridgepoint::cuda
