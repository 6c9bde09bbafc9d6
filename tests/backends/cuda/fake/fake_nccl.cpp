// A fake NCCL whose collectives compute nothing. It checks that calls come as NCCL takes them: within a group, with the
// communicator, on a stream that is not the default one. Environment variables: FAKE_NCCL_FAILS: the function of this
// name fails; FAKE_NCCL_VERSION: 22807 unless set; FAKE_NCCL_HANGS_AT: the collective of this number, from 1, does not
// end, captured or not; with FAKE_NCCL_NOTES_ERROR NCCL notes an error meanwhile. FAKE_NCCL_REACHES_NOTHING: the cards
// do not reach each other's memory. A gather by kernels that is captured registers the memory which it writes, as in
// NCCL 2.28: the other rank maps it until a later collective finds that the graph has ended. NCCL_GRAPH_REGISTER=0: it
// does not. FAKE_NCCL_JOINS_NOBODY: joining does not end. FAKE_NCCL_LOG: the beginning of the name of a file for each
// rank, with a line for each tensor of a collective: the function, the elements, their type, and whether copy engines
// do it and whether it is captured.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/libraries/driver.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kSuccess = 0, kInvalid = 4, kRemoteError = 6;
int depth = 0;
int joined = 0;
int copies = 0;                        // whose address is the communicator without blocks of kernels
std::map<char*, std::size_t> windows;  // of that communicator

bool is_in_window(const void* address) {
  const auto after = windows.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  return after != windows.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

struct Id {
  char bytes[128];
};

int result_of(const char* function, bool is_valid) {
  const char* fails = std::getenv("FAKE_NCCL_FAILS");
  return is_valid && (fails == nullptr || std::strcmp(fails, function) != 0) ? kSuccess : kInvalid;
}

bool is_valid(const void* in, const void* out, std::size_t count, const void* handle, const void* stream) {
  return depth == 1 && in != nullptr && out != nullptr && count > 0 && handle == &joined && stream != nullptr;
}

// Copy engines work only between windows.
bool is_valid_copy(const void* in, const void* out, std::size_t count, const void* handle, const void* stream) {
  return depth == 0 && is_in_window(in) && is_in_window(out) && count > 0 && handle == &copies && stream != nullptr;
}

bool is_capturing() {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  fake_function<std::remove_pointer_t<decltype(Driver::cuStreamIsCapturing)>>("cuStreamIsCapturing")(nullptr, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Memory that a captured collective has registered.
std::vector<std::uint64_t> of_ended_graphs;  // which the other rank still maps
class Registration {
 public:
  explicit Registration(const void* address)
      : mapping_(fake_function<decltype(fake_card_map_elsewhere)>("fake_card_map_elsewhere")(address)) {}
  ~Registration() { of_ended_graphs.push_back(mapping_); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  std::uint64_t mapping_;
};
using Registrations = std::list<Registration>;
std::shared_ptr<Registrations> registered;  // by the group under construction

void register_captured(const void* address) {
  const char* registers = std::getenv("NCCL_GRAPH_REGISTER");
  if (!is_capturing() || (registers != nullptr && std::strcmp(registers, "0") == 0)) return;
  if (registered == nullptr) registered = std::make_shared<Registrations>();
  registered->emplace_back(address);
}

std::size_t rank_of_process() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::strtoull(rank, nullptr, 10);
}

// Where copy engines send the parts, NCCL also copies the one that stays, unless it lies in its place.
void copy_own_part(const void* part, void* whole, std::size_t bytes) {
  char* const place = static_cast<char*>(whole) + rank_of_process() * bytes;
  if (part == place) return;
  fake_function<std::remove_pointer_t<decltype(Driver::cuMemcpyDtoDAsync_v2)>>("cuMemcpyDtoDAsync_v2")(
      reinterpret_cast<CUdeviceptr>(place), reinterpret_cast<CUdeviceptr>(part), bytes, nullptr);
}

// NCCL looks at what has ended in one of 11 groups of collectives.
void reclaim() {
  static int groups = 0;
  if (++groups % 11 != 0) return;
  for (const std::uint64_t mapping : of_ended_graphs)
    fake_function<decltype(fake_card_unmap_elsewhere)>("fake_card_unmap_elsewhere")(mapping);
  of_ended_graphs.clear();
}

void log(const char* function, std::size_t count, int type, const void* handle = &joined) {
  const char* path = std::getenv("FAKE_NCCL_LOG");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (path == nullptr || rank == nullptr) return;
  static std::FILE* file = std::fopen((std::string(path) + rank).c_str(), "w");
  const char* captured = is_capturing() ? " captured" : "";
  std::fprintf(file, "%s %zu %d%s%s\n", function, count, type, handle == &copies ? " copied" : "", captured);
  std::fflush(file);
}

void set_hangs(bool hangs) { fake_function<decltype(fake_card_hang)>("fake_card_hang")(hangs); }

void run_collective() {
  static int runs = 0;
  const char* hangs_at = std::getenv("FAKE_NCCL_HANGS_AT");
  if (hangs_at != nullptr && ++runs == std::atoi(hangs_at)) set_hangs(true);
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* text = std::getenv("FAKE_NCCL_VERSION");
  *version = text == nullptr ? 22807 : std::atoi(text);
  return kSuccess;
}
int ncclGetUniqueId(Id* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return result_of("ncclGetUniqueId", true);
}
// The id is that which rank 0 made, on every rank.
int ncclCommInitRank(void** handle, int ranks, Id id, int rank) {
  *handle = &joined;
  ++joined;
  while (std::getenv("FAKE_NCCL_JOINS_NOBODY") != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return result_of("ncclCommInitRank", ranks > rank && id.bytes[0] == 7 && id.bytes[127] == 7 && joined == 1);
}
int ncclCommGetAsyncError(void*, int* status) {
  *status = std::getenv("FAKE_NCCL_NOTES_ERROR") != nullptr ? kRemoteError : kSuccess;
  return kSuccess;
}
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share, traffic_class;
  const char* name;
  int collnet_enable, cta_policy;
};
int ncclCommSplit(void* handle, int, int, void** part, const Config* config) {
  *part = &copies;
  return result_of("ncclCommSplit", handle == &joined && config->magic == 0xcafebeef && config->cta_policy == 2);
}
int ncclMemAlloc(void** address, std::size_t bytes) {
  CUdeviceptr made = 0;
  const int result =
      fake_function<std::remove_pointer_t<decltype(Driver::cuMemAlloc_v2)>>("cuMemAlloc_v2")(&made, bytes);
  *address = reinterpret_cast<void*>(made);
  return result_of("ncclMemAlloc", result == CUDA_SUCCESS);
}
int ncclMemFree(void* address) {
  if (windows.contains(static_cast<char*>(address))) return kInvalid;
  return fake_function<std::remove_pointer_t<decltype(Driver::cuMemFree_v2)>>("cuMemFree_v2")(
      reinterpret_cast<CUdeviceptr>(address));
}
int ncclCommWindowRegister(void* handle, char* address, std::size_t bytes, void** window, int flags) {
  *window = std::getenv("FAKE_NCCL_REACHES_NOTHING") == nullptr ? address : nullptr;
  if (*window != nullptr) windows[address] = bytes;
  return result_of("ncclCommWindowRegister", handle == &copies && flags == 1);
}
int ncclCommWindowDeregister(void* handle, char* window) {
  return handle == &copies && windows.erase(window) == 1 ? kSuccess : kInvalid;
}
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  --depth;
  fake_function<decltype(fake_card_call)>("fake_card_call")(run_collective, std::exchange(registered, nullptr));
  reclaim();
  return kSuccess;
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int, void* handle, void* stream) {
  log("ncclAllReduce", count, type);
  return result_of("ncclAllReduce", is_valid(in, out, count, handle, stream));
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int, void* handle, void* stream) {
  log("ncclReduceScatter", count, type);
  return result_of("ncclReduceScatter", is_valid(in, out, count, handle, stream));
}
int ncclAllGather(const void* in, void* out, std::size_t count, int type, void* handle, void* stream) {
  log("ncclAllGather", count, type, handle);
  if (handle == &joined) register_captured(out);
  if (handle == &copies) copy_own_part(in, out, count);
  const bool takes = is_valid(in, out, count, handle, stream) || is_valid_copy(in, out, count, handle, stream);
  return result_of("ncclAllGather", takes);
}
int ncclAlltoAll(const void* in, void* out, std::size_t count, int type, void* handle, void* stream) {
  copy_own_part(static_cast<const char*>(in) + rank_of_process() * count, out, count);
  log("ncclAlltoAll", count, type, handle);
  return result_of("ncclAlltoAll", is_valid_copy(in, out, count, handle, stream));
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int, int, void* handle, void* stream) {
  return result_of("ncclBroadcast", is_valid(in, out, count, handle, stream));
}
const char* ncclGetErrorString(int status) {
  return status == kRemoteError ? "remote process error" : "invalid argument";
}
const char* ncclGetLastError(void*) { return "of a test"; }

}  // extern "C"

}  // namespace ridgepoint::cuda
