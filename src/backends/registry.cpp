// Opens a back end by the name a person types.
#include <fmt/format.h>

#include <array>

#include "backends/cpu/device.h"
#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "core/nearest.h"
#include "ridgepoint/error.h"
#include "ridgepoint/program.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

struct Backend {
  std::string_view name;
  std::shared_ptr<Device> (*open)(const DeviceOptions&);
};

// The null device stands in for this machine's CPU. Its memory has no end unless limited: that is what it is for.
std::shared_ptr<Device> open_null(const DeviceOptions& options) {
  return make_null_device(make_cpu_device(options), options.memory_limit_bytes);
}

constexpr std::array kBackends = {Backend{"cpu", make_cpu_device}, Backend{"reference", make_reference_device},
                                  Backend{"null", open_null}};

}  // namespace

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  std::array<std::string_view, kBackends.size()> names;
  for (std::size_t i = 0; i < kBackends.size(); ++i) {
    if (kBackends[i].name == name) return kBackends[i].open(options);
    names[i] = kBackends[i].name;
  }
  throw Error(fmt::format("unknown device '{}'; did you mean '{}'? This build has {}", name, nearest(name, names),
                          fmt::join(names, ", ")),
              ErrorKind::usage);
}

}  // namespace ridgepoint
