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
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/fake/fake_state.h"
#include "backends/cuda/host/block.h"

namespace ridgepoint::cuda {
namespace {

const std::size_t kModuleBytes = from_environment("FAKE_CARD_MODULE_BYTES", 0);
std::atomic<std::size_t> launches{0};
std::atomic<int> early_launches{0};
thread_local std::vector<CUcontext> contexts;  // of this thread; the last is current
std::atomic<int> retained{0};
std::atomic<int> calls_elsewhere{0};
std::atomic<int> context_calls{0};

CUcontext current() { return contexts.empty() ? nullptr : contexts.back(); }
CUcontext primary() {
  static char object;
  return reinterpret_cast<CUcontext>(&object);
}

CUresult run_on_host(const FakeWork& work, unsigned shared_bytes) {
  if (host_kernels() == nullptr) return CUDA_SUCCESS;
  if (is_capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
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

}  // namespace

std::size_t from_environment(const char* name, std::size_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

CUresult state() {
  static const std::size_t last = from_environment("FAKE_CARD_FAILS_AFTER", SIZE_MAX);
  if (launches > last) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (current() == primary()) return CUDA_SUCCESS;
  ++calls_elsewhere;
  return CUDA_ERROR_INVALID_CONTEXT;
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

extern "C" {

int fake_card_calls_elsewhere() { return calls_elsewhere; }
int fake_card_context_calls() { return context_calls; }
int fake_card_retained() { return retained; }
int fake_card_early_launches() { return early_launches; }
int fake_card_launches() { return static_cast<int>(launches); }

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
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const auto begins_with = [&](const char* text) {
    return std::strncmp(static_cast<const char*>(image), text, std::strlen(text)) == 0;
  };
  // A cubin, a fatbin or PTX.
  const bool is_image = begins_with("\177ELF") || begins_with("\x50\xed\x55\xba") || begins_with("//");
  if (!is_image || from_environment("FAKE_CARD_REFUSES_IMAGES", 0) != 0) return CUDA_ERROR_INVALID_IMAGE;
  used_bytes() += kModuleBytes;
  return give(module);
}
CUresult cuModuleUnload(CUmodule) {
  used_bytes() -= kModuleBytes;
  return state();
}
// A function's handle is its name.
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return on_card([&] {
    static std::mutex mutex;
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
  while (is_hanging() && from_environment("FAKE_CARD_TAKES_NO_LAUNCHES", 0) != 0)
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

}  // namespace ridgepoint::cuda
