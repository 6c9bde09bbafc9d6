// What `ridgepoint devices` finds out of each device, in five forms.
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

namespace ridgepoint::cli {

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

// Tables of at most `width` columns; JSON nests where CSV has names with dots.
std::string render(Format format, std::span<const DeviceReport> reports, std::size_t width);

}  // namespace ridgepoint::cli
