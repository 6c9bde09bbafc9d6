// --weights FILE: parameters read from a safetensors file instead of made from the seed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ridgepoint/run_config.h"

namespace ridgepoint::cli {

// Has every configuration read its parameters from the file. Throws Error (usage) when a device computes nothing; Error
// when the file is no safetensors file, when it lacks a parameter of one of the models or has one in another shape or
// of integers, and when it has a tensor that is no parameter: all such problems but the last are printed first.
void use_weights(const std::string& path, std::span<RunConfig> configs);

// Throws Error that counts the problems when there are any, after printing them.
void fail_with(const std::vector<std::string>& problems);

}  // namespace ridgepoint::cli
