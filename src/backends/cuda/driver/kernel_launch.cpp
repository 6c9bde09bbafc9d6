#include "backends/cuda/driver/kernel_launch.h"

#include <map>
#include <mutex>

namespace ridgepoint::cuda {

unsigned* block_flags(CudaContext& context) {
  static std::mutex mutex;
  static std::map<int, void*> flags;
  const std::lock_guard lock(mutex);
  void*& kept = flags[context.card().ordinal];
  if (kept == nullptr) {
    constexpr std::size_t kBytes = 2 * kMostBlocks * sizeof(unsigned);
    void* address = context.allocate(kBytes);
    if (address == nullptr)
      throw Error("the GPU has no memory left for the flags of a matmul", ErrorKind::out_of_memory);
    context.fill_zero(address, kBytes);
    kept = address;  // only after it is filled with zeros
  }
  return static_cast<unsigned*>(kept);
}

}  // namespace ridgepoint::cuda
