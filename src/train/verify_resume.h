// Whether a run that goes on from a checkpoint has the bits of one that was not interrupted.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/trainer.h"

namespace ridgepoint::train {

struct ResumeVerdict {
  bool is_equal = false;
  std::string sentence;  // with the first difference
};

// Trains all steps; then half of them with a checkpoint in a temporary folder, and the others in a new program from
// there. Compares the loss of every step, and every parameter and state after the last one. All ranks call it. Throws
// Error as train() does; empty if the watcher, or the request to stop, ended it.
std::optional<ResumeVerdict> verify_resume(TrainingOptions options, const StepWatcher& watch,
                                           const std::function<bool()>& is_asked_to_stop);

}  // namespace ridgepoint::train
