#include <fmt/format.h>

#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/memory/allocator_kind.h"

namespace ridgepoint {
namespace {

constexpr auto kAllocatorNames = enum_names<AllocatorKind>("caching", "arena");

// The message of OutOfMemory. It prints the missing bytes as a separate figure, because the size of the segment and the
// free bytes may be equal after rounding.
std::string room(const MemoryShortage& shortage) {
  const std::string free = shortage.free_bytes == 0 ? "none" : format_bytes(shortage.free_bytes);
  std::string text = fmt::format("{} of {} is free", free, format_bytes(shortage.capacity_bytes));
  text += shortage.short_bytes() == 0 ? ", but not contiguous"
                                      : fmt::format(", {} too little", format_bytes(shortage.short_bytes()));
  return text + (shortage.is_held_elsewhere ? " (libraries and other processes hold some of the rest)" : "");
}

// "12 x 64.0 MiB (activation, first in forward at matmul of layers.0.attn.scores)"
std::string description(const MemoryShortage::Blocks& blocks) {
  return fmt::format("{}{} ({}, {}{})", blocks.count > 1 ? fmt::format("{} x ", blocks.count) : "",
                     format_bytes(blocks.bytes), blocks.category, blocks.count > 1 ? "first " : "", blocks.place);
}

}  // namespace

std::string_view name(AllocatorKind kind) { return kAllocatorNames[kind]; }
AllocatorKind allocator_kind_from_name(std::string_view text) {
  return kAllocatorNames.parse(text, "unknown allocator '{}'");
}
AllocatorKind default_allocator(Compile level) {
  return level == Compile::full ? AllocatorKind::arena : AllocatorKind::caching;
}

std::string out_of_memory_sentence(const MemoryShortage& shortage) {
  std::string text = "out of memory";
  if (!shortage.device.empty()) text += " on " + shortage.device;
  if (!shortage.place.empty()) text += " " + shortage.place;
  text += fmt::format(": asked for {}", format_bytes(shortage.requested_bytes));
  if (!shortage.category.empty()) text += fmt::format(" ({})", shortage.category);
  const bool is_arena = !shortage.largest.empty();  // its segment is as large as the request, and is the whole run
  if (!is_arena) text += fmt::format(", which takes a segment of {}", format_bytes(shortage.segment_bytes));
  text += "; " + room(shortage);
  if (shortage.fragmented_bytes > 0) {
    text += fmt::format("; {} of the {} reserved is free in blocks too small for the request",
                        format_bytes(shortage.fragmented_bytes), format_bytes(shortage.reserved_bytes));
  }
  for (std::size_t i = 0; i < shortage.largest.size(); ++i)
    text += (i == 0 ? "; most of it at its peak: " : ", ") + description(shortage.largest[i]);
  if (!is_arena && shortage.needed_bytes && *shortage.needed_bytes > shortage.capacity_bytes)
    text += fmt::format("; the whole run needs {}", format_bytes(*shortage.needed_bytes));
  return text + "; use a smaller batch or context, a narrower dtype or more memory";
}

}  // namespace ridgepoint
