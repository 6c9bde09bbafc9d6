// A profile as a trace file: the JSON object form of Chrome's trace events, which Perfetto and chrome://tracing open.
//
// Two processes: the host, with a track of steps and one of launches; and the device, with tracks of phases, of modules
// (a slice within a slice for each level), and one for each stream. A flow leads from each launch to each kernel it
// asked for. Times are microseconds since the profile began; a slice that begins before the one ahead of it on its
// track has ended (by the clocks' grain) begins where that one ends, so that slices nest or follow one another.
#pragma once

#include <filesystem>

#include "measure/profile/profile.h"

namespace ridgepoint {

// Whole or not at all. Throws Error naming the file.
void write_trace(const std::filesystem::path& path, const Profile& profile);

}  // namespace ridgepoint
