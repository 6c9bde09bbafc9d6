// --graph FILE: a graph in the text form that graph --text prints.
#pragma once

#include <string>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint::cli {

// Throws Error that names the file.
Graph read_graph_file(const std::string& path);

}  // namespace ridgepoint::cli
