#include "backends/cuda/kernels/rank_sums/rank_sums.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

void launch(CudaContext& context, CUstream stream, const std::string& entry, const RankSums& sums) {
  constexpr std::int64_t kBlocksForEachMultiprocessor = 4;
  std::int64_t longest = 0;
  for (int i = 0; i < sums.count; ++i) longest = std::max(longest, sums.sums[i].vectors);
  const std::int64_t blocks = ceil_divide(kBlocksForEachMultiprocessor * context.card().multiprocessors, sums.count);
  const auto grid_x = static_cast<unsigned>(std::min(ceil_divide(longest, RankSums::kThreads), blocks));
  RankSums parameters = sums;
  void* arguments[] = {&parameters};
  const CudaContext::Scope scope(context);
  check(context.driver().cuLaunchKernel(context.kernel("rank_sums", entry.c_str()), grid_x,
                                        static_cast<unsigned>(sums.count), 1, RankSums::kThreads, 1, 1, 0, stream,
                                        arguments, nullptr),
        "launch the kernel", entry.c_str());
}

}  // namespace

bool has_rank_sums(DType dtype) { return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16; }

void launch_rank_sums(CudaContext& context, CUstream stream, DType dtype, const RankSums& sums) {
  launch(context, stream, "rank_sums_" + std::string(name(dtype)), sums);
}

void launch_copies_of_own_parts(CudaContext& context, CUstream stream, const RankSums& copies) {
  launch(context, stream, "copy_own_parts", copies);
}

}  // namespace ridgepoint::cuda
