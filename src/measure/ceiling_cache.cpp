#include "measure/ceiling_cache.h"

#include "measure/ceilings.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

// What `measure` finds of a device opened for it alone; empty where it fails.
template <typename Measure>
std::optional<double> measured(const std::string& device, int threads, const Measure& measure) {
  try {
    return measure(*open_device(device, {.threads = threads, .memory_limit_bytes = std::nullopt}));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<double> CeilingCache::matmul(const std::string& device, int threads, Precision precision) {
  const auto [entry, is_new] = matmul_.try_emplace({device, threads, precision});
  if (is_new) {
    entry->second = measured(device, threads, [&](Device& opened) -> std::optional<double> {
      const std::optional<MatmulCeiling> ceiling = measure_matmul(opened, precision);
      return ceiling ? std::optional(ceiling->flops_per_second) : std::nullopt;
    });
  }
  return entry->second;
}

std::optional<double> CeilingCache::copy(const std::string& device, int threads) {
  const auto [entry, is_new] = copy_.try_emplace({device, threads});
  if (is_new) {
    entry->second = measured(device, threads, [](Device& opened) -> std::optional<double> {
      const std::optional<CopyCeiling> ceiling = measure_copy(opened);
      return ceiling ? std::optional(ceiling->bytes_per_second) : std::nullopt;
    });
  }
  return entry->second;
}

}  // namespace ridgepoint
