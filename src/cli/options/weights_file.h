// --weights FILE: reads the parameters from a safetensors file instead of making random ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ridgepoint/run_config.h"

namespace ridgepoint::cli {

// Makes every configuration read its parameters from the file. Throws Error (usage) for the null device, and Error if
// the file is not a safetensors file, if a parameter is missing or has another shape or an integer type, or if a tensor
// is not a parameter. Prints these problems first.
void use_weights(const std::string& path, std::span<RunConfig> configs);

// Prints the problems, then throws Error with their number. Does nothing if there are none.
void fail_with(const std::vector<std::string>& problems);

}  // namespace ridgepoint::cli
