#include "backends/cuda/kernels/random/random.h"

#include <algorithm>
#include <string>

#include "backends/cuda/driver/kernel_launch.h"

namespace ridgepoint::cuda {

void fill_random(CudaContext& context, void* address, DType dtype, std::int64_t count,
                 const TruncatedNormal& distribution, std::uint64_t stream) {
  if (count == 0) return;
  constexpr int kThreads = 256;
  constexpr std::int64_t kMostBlocks = 1 << 16;
  const std::string entry = "fill_random_" + std::string(name(dtype));
  const LaunchShape shape{.grid_x = static_cast<unsigned>(std::min(ceil_divide(count, kThreads), kMostBlocks)),
                          .block_x = kThreads};
  double mean = distribution.mean;
  double deviation = distribution.deviation;
  void* arguments[] = {&address, &count, &mean, &deviation, &stream};
  context.launch(context.kernel("random", entry.c_str()), shape, arguments, entry.c_str());
}

}  // namespace ridgepoint::cuda
