// Writes a profile as a trace file in the JSON object form of Chrome's trace events, which Perfetto and
// chrome://tracing open.
//
// The trace has two processes. The host has a track of steps and one of launches. The device has a track of phases, one
// of modules (nested slices, one for each level) and one for each stream. A flow leads from each launch to each of its
// kernels. Times are microseconds from the start of the profile. The resolution of the clocks can make a slice begin
// before the previous slice of its track ends; such a slice begins where the previous one ends, so that slices nest or
// follow one another.
#pragma once

#include <filesystem>

#include "measure/profile/profile.h"

namespace ridgepoint {

// Writes the whole file, or none if it fails. Throws Error with the file's name.
void write_trace(const std::filesystem::path& path, const Profile& profile);

}  // namespace ridgepoint
