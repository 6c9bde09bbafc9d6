#include "measure/ceiling_cache.h"

#include "measure/ceilings.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

std::optional<double> CeilingCache::matmul(const std::string& device, int threads, DType dtype) {
  const std::tuple key(device, threads, dtype);
  const auto found = matmul_.find(key);
  if (found != matmul_.end()) return found->second;
  const std::shared_ptr<Device> opened = open_device(device, {.threads = threads, .memory_limit_bytes = std::nullopt});
  const std::optional<MatmulCeiling> ceiling = measure_matmul(*opened, dtype);
  return matmul_[key] = ceiling ? std::optional(ceiling->flops_per_second) : std::nullopt;
}

}  // namespace ridgepoint
