#include "measure/machine/ceiling_cache.h"

#include "measure/machine/ceilings.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

// Opens a device and measures it. Empty if that fails: a finished run must not fail for its ceiling.
template <typename Measure>
std::optional<double> measured(const std::string& device, int threads, const Measure& measure) {
  try {
    return measure(*open_device(device, {.threads = threads, .memory_limit_bytes = std::nullopt}));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<double> CeilingCache::matmul(const std::string& device, int threads, Precision precision,
                                           const StopPoint& stop_point) {
  const std::tuple key(device, threads, precision);
  const auto known = matmul_.find(key);
  if (known != matmul_.end()) return known->second;
  return matmul_[key] = measured(device, threads, [&](Device& opened) -> std::optional<double> {
           const std::optional<MatmulCeiling> ceiling = measure_matmul(opened, precision, stop_point);
           return ceiling ? std::optional(ceiling->flops_per_second) : std::nullopt;
         });
}

std::optional<double> CeilingCache::copy(const std::string& device, int threads, const StopPoint& stop_point) {
  const std::pair key(device, threads);
  const auto known = copy_.find(key);
  if (known != copy_.end()) return known->second;
  return copy_[key] = measured(device, threads, [&](Device& opened) -> std::optional<double> {
           const std::optional<CopyCeiling> ceiling = measure_copy(opened, stop_point);
           return ceiling ? std::optional(ceiling->bytes_per_second) : std::nullopt;
         });
}

}  // namespace ridgepoint
