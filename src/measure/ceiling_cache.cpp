#include "measure/ceiling_cache.h"

#include "measure/ceilings.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

std::optional<double> CeilingCache::matmul(const std::string& device, int threads, DType dtype) {
  const std::tuple key(device, threads, dtype);
  const auto found = matmul_.find(key);
  if (found != matmul_.end()) return found->second;
  std::optional<double>& rate = matmul_[key];
  try {
    const std::shared_ptr<Device> opened =
        open_device(device, {.threads = threads, .memory_limit_bytes = std::nullopt});
    if (const std::optional<MatmulCeiling> ceiling = measure_matmul(*opened, dtype)) rate = ceiling->flops_per_second;
  } catch (const Error&) {
    rate = std::nullopt;
  }
  return rate;
}

}  // namespace ridgepoint
