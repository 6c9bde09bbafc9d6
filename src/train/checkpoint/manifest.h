// manifest.json of a checkpoint: read as hostile, and with a checksum of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "ridgepoint/ir/graph.h"
#include "train/checkpoint/checkpoint.h"

namespace ridgepoint::train {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kAdapterFile = "adapters.safetensors";
inline constexpr std::string_view kPeftFolder = "adapter";
inline constexpr std::string_view kOptimizerStem = "optimizer";

struct CheckpointFile {
  std::string name;  // in the folder of the checkpoint, or of a folder in it
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH64
};

Json files_json(const std::vector<CheckpointFile>& files);
// Throws Error for JSON that is no list of files, and for a name that leads out of the folder.
std::vector<CheckpointFile> files_from_json(const Json& json);

// The contents of the file.
struct ManifestContents {
  Manifest manifest;
  std::vector<CheckpointFile> files;          // of each kind, in the order of ranks
  std::map<std::string, TensorType> tensors;  // by name; whole, in the type in which it is stored
};

std::string manifest_text(const ManifestContents& contents);
// Throws Error that says what is wrong.
ManifestContents read_manifest(const std::filesystem::path& checkpoint);

// step-000000100, and the reverse; -1 for any other name.
std::string step_folder(std::int64_t step);
std::int64_t step_of_folder(std::string_view name);
// The checkpoints in a folder, whole or not, the newest first.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpoints_in(const std::filesystem::path& folder);

// How the files of a checkpoint differ from its manifest, empty if they agree; by their sizes alone, or with their
// checksums.
std::string problem_of_files(const std::filesystem::path& checkpoint, const std::vector<CheckpointFile>& files,
                             bool reads);

}  // namespace ridgepoint::train
