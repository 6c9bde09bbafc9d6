// The names of fields that the reader knows. All other fields are counted and left out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types/enum_names.h"

namespace ridgepoint {

enum class SnapshotKey : std::uint8_t {
  segments,
  device_traces,
  allocator_settings,
  external_annotations,
  device,
  address,
  total_size,
  allocated_size,
  active_size,
  requested_size,
  stream,
  segment_type,
  segment_pool_id,
  is_expandable,
  frames,
  blocks,
  size,
  state,
  history,
  real_size,
  action,
  addr,
  device_free,
  time_us,
  compile_context,
  user_metadata,
  pool_id,
  category,
  block_size,
  filename,
  line,
  name,
  stage,
  configuration,
  max_split_size,
  expandable_segments,
  overflowed,
  max_entries,
  counted_from,
  has_clock,
  unknown
};

inline constexpr std::size_t kSnapshotKeyCount = static_cast<std::size_t>(SnapshotKey::unknown);

inline constexpr auto kSnapshotKeyNames = enum_names<SnapshotKey>(
    "segments", "device_traces", "allocator_settings", "external_annotations", "device", "address", "total_size",
    "allocated_size", "active_size", "requested_size", "stream", "segment_type", "segment_pool_id", "is_expandable",
    "frames", "blocks", "size", "state", "history", "real_size", "action", "addr", "device_free", "time_us",
    "compile_context", "user_metadata", "pool_id", "category", "block_size", "filename", "line", "name", "stage",
    "PYTORCH_CUDA_ALLOC_CONF", "max_split_size", "expandable_segments", "trace_alloc_overflowed",
    "trace_alloc_max_entries", "ridgepoint_counted_from_us", "ridgepoint_has_clock");

inline SnapshotKey find_snapshot_key(std::string_view name) {
  return kSnapshotKeyNames.find(name).value_or(SnapshotKey::unknown);
}

}  // namespace ridgepoint
