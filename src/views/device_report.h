// What `ridgepoint devices` finds out of each device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "measure/machine/ceilings.h"
#include "measure/machine/datasheet.h"
#include "measure/machine/host.h"
#include "runtime/device.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

struct DeviceReport {
  std::string kind;  // as --device takes it
  std::string name;
  std::string purpose;
  std::string problem;  // why it cannot be used
  std::size_t memory_bytes = 0;
  std::optional<Host> host;  // the cpu's
  int threads = 0;
  DeviceFacts facts;
  const Datasheet* datasheet = nullptr;  // null where there is none
  Ceilings ceilings;
};

// For people a table a device; JSON nests where CSV has names with dots.
Page devices_page(std::span<const DeviceReport> reports, Format format);

}  // namespace ridgepoint::views
