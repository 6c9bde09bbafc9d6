// Checks that a resumed run has the same bits as a run without interruption.
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

// Trains all steps; then half of them with a checkpoint in a temporary folder, and the other half in a new program from
// that checkpoint. Compares the loss of every step, and every parameter and state after the last one. All ranks call
// it. Throws Error as train() does; empty if the watcher, or a request to stop, ended it.
std::optional<ResumeVerdict> verify_resume(TrainingOptions options, const StepWatcher& watch,
                                           const std::function<bool()>& is_asked_to_stop);

}  // namespace ridgepoint::train
