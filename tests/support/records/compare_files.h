// Compares the tensors of two files.
#pragma once

#include <algorithm>
#include <string>

#include "interchange/safetensors.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

// The largest relative L2 error of a tensor of the reference, all of which the file must have.
inline double largest_difference(const std::string& file, const std::string& reference) {
  const SafetensorsFile ours(file), theirs(reference);
  double largest = 0;
  for (const std::string& name : theirs.names())
    largest = std::max(largest, relative_error(ours.read(name), theirs.read(name)));
  return largest;
}

}  // namespace ridgepoint::testing
