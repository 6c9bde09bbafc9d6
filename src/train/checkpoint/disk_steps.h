// The changes to the disk that make a checkpoint appear and disappear as a whole.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/files/system_call.h"
#include "train/checkpoint/checkpoint.h"

namespace ridgepoint::train {

// A folder of checkpoints that this run alone writes to.
class CheckpointFolder {
 public:
  // Makes the folder, and removes what a killed run left in it. Throws Error if another run writes to it.
  explicit CheckpointFolder(const std::filesystem::path& folder);

 private:
  Descriptor lock_;
};

// The hidden folder in which a checkpoint is written; `attempt` tells those of one writer apart.
std::filesystem::path partial_folder(const std::filesystem::path& folder, std::int64_t step, int attempt);

// Gives a written checkpoint its name. One that is there already, damaged or not, is replaced.
void publish(const std::filesystem::path& partial, const std::filesystem::path& final_path);

// Removes the checkpoints up to `step` that the rule does not keep. Damaged ones count for nothing and stay.
void remove_old(const std::filesystem::path& folder, std::int64_t step, const KeepRule& keep,
                const std::function<void(const std::string&)>& before_change);

}  // namespace ridgepoint::train
