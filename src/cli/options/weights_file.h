// --weights PATH: reads the parameters from files instead of making random ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options/run_options.h"
#include "ridgepoint/models/run_config.h"

namespace ridgepoint::cli {

// Makes every configuration read its parameters from a safetensors file with this program's names, or from those of a
// Hugging Face model: a file, an index of shards, or the folder of either; or the folder of PEFT's low-rank adapters,
// which are added to the weights of the model that they change. Throws Error (usage) for the null device,
// and Error if a file is not a safetensors file, if a parameter is missing or has another shape or an integer type, or
// if a tensor is not a parameter. Prints these problems first.
void use_weights(const std::string& path, std::span<RunConfig> configs);

// Makes the model that of the config.json beside the files, or in their folder, where there is one and the options name
// no model and give no sizes; says so. Does nothing for an empty path.
void take_model_beside(const std::string& path, RunOptions& options);

// Prints the problems, then throws Error with their number. Does nothing if there are none.
void fail_with(const std::vector<std::string>& problems);

}  // namespace ridgepoint::cli
