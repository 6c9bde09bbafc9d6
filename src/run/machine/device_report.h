// The report of `ridgepoint devices`: facts, datasheet rates and measured rates of each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "predict/cards/datasheet.h"
#include "run/machine/ceilings.h"
#include "run/machine/host.h"
#include "runtime/device/device.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct DeviceReport {
  std::string kind;  // the name for --device
  std::string name;
  std::string purpose;
  std::string problem;  // why the device cannot be used; empty if it can
  std::size_t memory_bytes = 0;
  std::optional<std::int64_t> capacity_bytes;  // of a card by its datasheet: what a run may take
  std::optional<Host> host;                    // for the CPU
  int threads = 0;
  DeviceFacts facts;
  const Datasheet* datasheet = nullptr;  // null if unknown
  Ceilings ceilings;
};

// One table for each device. JSON has nested objects; CSV has names with dots.
Page devices_page(std::span<const DeviceReport> reports, Format format);

}  // namespace ridgepoint::tables
