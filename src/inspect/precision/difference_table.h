// Compares results with a reference file: one row for each tensor, and a sentence on the one that differs most.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "interchange/safetensors.h"
#include "run/session/steps/compare_tensors.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct NamedDifference {
  std::string name;
  Shape shape;
  TensorDifference difference;
  Tolerance tolerance;  // the tolerance that applied
};

struct Comparison {
  std::vector<NamedDifference> differences;  // in the order of the results
  std::vector<std::string> problems;         // one line for each missing or mis-shaped tensor
  std::vector<std::string> notes;            // one line for each tensor that only the reference has
  bool within_tolerance() const;             // false if there are problems
  const NamedDifference* worst() const;      // null when nothing was compared
};

// Every result must be in the reference, except `loss.K`, which is optional. For `param.NAME` the update is compared,
// the difference from initial(NAME), with update_tolerance().
Comparison compare_with_file(const std::map<std::string, HostTensor>& results, const SafetensorsFile& reference,
                             const Tolerance& tolerance,
                             const std::function<HostTensor(const std::string& parameter)>& initial);

Page comparison_page(const Comparison& comparison);

}  // namespace ridgepoint::tables
