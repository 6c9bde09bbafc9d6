#include "inspect/snapshot/names.h"

#include <fmt/format.h>

#include <string_view>

namespace ridgepoint {
namespace {

// The last two parts of a path.
std::string_view short_path(std::string_view path) {
  const std::size_t last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return path;
  const std::size_t before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

std::string frame_name(const Snapshot& snapshot, std::uint32_t number) {
  const SnapshotFrame& frame = snapshot.frames[number];
  const std::string& filename = snapshot.texts[frame.filename];
  const std::string& name = snapshot.texts[frame.name];
  if (filename.empty() || filename == "??") return name.empty() ? "(unnamed)" : name;
  return fmt::format("{} ({}:{})", name.empty() ? "(unnamed)" : name, short_path(filename), frame.line);
}

}  // namespace

OriginNames origin_names(const Snapshot& snapshot, std::uint32_t number) {
  const SnapshotOrigin& origin = snapshot.origins[number];
  OriginNames names;
  names.name = origin.frame == kNoFrame ? "(no frames)" : frame_name(snapshot, origin.frame);
  if (origin.caller != kNoFrame && origin.caller != origin.frame) names.caller = frame_name(snapshot, origin.caller);
  return names;
}

}  // namespace ridgepoint
