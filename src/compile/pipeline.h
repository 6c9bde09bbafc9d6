// The list of passes (src/passes/pass_list.def) and its runner.
#pragma once

#include <span>
#include <vector>

#include "passes/pass.h"

namespace ridgepoint {

std::span<const Pass> pipeline();
// The first of them, which make a training graph of a forward graph.
std::span<const Pass> training_passes();

// Runs `passes` but those in options.skip, up to options.until. Throws Error (usage) for a name in either that no pass
// has, and whatever a pass or the verifier throws, naming the pass.
void run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options);

}  // namespace ridgepoint
