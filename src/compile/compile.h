// Compilation of a graph for a device: the one list of passes (pipeline.h), from the forward graph to what is planned.
#pragma once

#include "passes/pass.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// All passes, up to options.until. A graph that has a backward phase was differentiated before: it goes through the
// passes from the training graph on, and options that ask for more are refused. Throws Error.
Graph compile(Graph graph, const PassTarget& target, const CompileOptions& options);

}  // namespace ridgepoint
