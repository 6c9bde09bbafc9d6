// The list of passes (src/passes/pass_list.def) and its runner.
#pragma once

#include <span>
#include <vector>

#include "passes/pass.h"

namespace ridgepoint {

std::span<const Pass> pipeline();
// The passes at the beginning of the list, from the forward graph to the training graph.
std::span<const Pass> training_passes();

// Runs `passes` up to options.until, except those in options.skip. Throws Error (usage) for an unknown name in either,
// the errors of the passes, and those of verify() with the name of the pass. Without options.verify those of
// verify_operands() after the last pass.
void run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options);

}  // namespace ridgepoint
