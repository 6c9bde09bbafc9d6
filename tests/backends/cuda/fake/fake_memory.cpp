// The memory of the fake GPU (fake_card.cpp). What is allocated stays used until nothing maps it, in this process or
// another one.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/fake/fake_state.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kTotalBytes = std::size_t{16} << 30;
constexpr std::size_t kContextBytes = std::size_t{500} << 20;

// What mappings of a block share.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) { used_bytes() += bytes; }
  ~Memory() { used_bytes() -= bytes_; }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
};

std::mutex mutex;
std::map<CUdeviceptr, std::shared_ptr<Memory>> blocks;  // by address
std::map<std::uint64_t, std::shared_ptr<Memory>> mapped_elsewhere;
std::atomic<FakeHostCopyWatcher> host_copy_watcher{nullptr};

// With the mutex. Null where nothing is allocated.
std::shared_ptr<Memory> memory_at(CUdeviceptr address) {
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  const auto& [begin, memory] = *std::prev(after);
  return address < begin + memory->bytes() ? memory : nullptr;
}

CUresult copy_with_host(void* to, const void* from, std::size_t bytes) {
  return on_card([&] {
    do_work({.kind = FakeWork::Kind::copy, .to = to, .from = from, .bytes = bytes, .is_of_host = true});
    return CUDA_SUCCESS;
  });
}

}  // namespace

std::atomic<std::size_t>& used_bytes() {
  static std::atomic<std::size_t> bytes{kContextBytes + from_environment("FAKE_CARD_HELD_BYTES", 0)};
  return bytes;
}

extern "C" {

void fake_card_watch_host_copies(FakeHostCopyWatcher told) { host_copy_watcher = told; }
std::uint64_t fake_card_map_elsewhere(const void* address) {
  static std::uint64_t last = 0;
  const std::lock_guard lock(mutex);
  mapped_elsewhere[++last] = memory_at(reinterpret_cast<CUdeviceptr>(address));
  return last;
}
void fake_card_unmap_elsewhere(std::uint64_t mapping) {
  const std::lock_guard lock(mutex);
  mapped_elsewhere.erase(mapping);
}

CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return say(bytes, kTotalBytes); }
CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return on_card([&] {
    *free_bytes = kTotalBytes - used_bytes();
    *total_bytes = kTotalBytes;
    return CUDA_SUCCESS;
  });
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return on_card([&] {
    const std::lock_guard lock(mutex);
    if (bytes > kTotalBytes - used_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(pages);
    blocks[*address] = std::make_shared<Memory>(bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  return on_card([&] {
    const std::lock_guard lock(mutex);
    const auto block = blocks.find(address);
    if (block == blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void*>(address), block->second->bytes());
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
  if (which != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || memory_at(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return say(static_cast<CUmemorytype*>(value), CU_MEMORYTYPE_DEVICE);
}

}  // extern "C"

}  // namespace ridgepoint::cuda
