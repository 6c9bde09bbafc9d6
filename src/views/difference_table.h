// Results held against a reference file: a row a tensor, and the one that differs most.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "interchange/safetensors.h"
#include "measure/precision/compare_tensors.h"
#include "views/table/table.h"

namespace ridgepoint::views {

struct NamedDifference {
  std::string name;
  Shape shape;
  TensorDifference difference;
  Tolerance tolerance;  // what it was held to
};

struct Comparison {
  std::vector<NamedDifference> differences;  // in the order of the results
  std::vector<std::string> problems;         // one line for each missing or mis-shaped tensor
  std::vector<std::string> notes;            // one line for each tensor of the reference that nothing here answers to
  bool within_tolerance() const;             // no problems either
  const NamedDifference* worst() const;      // null when nothing was compared
};

// Every result must be in the reference but for `loss.K`, which is compared where it is there. Of `param.NAME` the
// update is compared (update_tolerance()): what it is beyond initial(NAME).
Comparison compare_with_file(const std::map<std::string, HostTensor>& results, const SafetensorsFile& reference,
                             const Tolerance& tolerance,
                             const std::function<HostTensor(const std::string& parameter)>& initial);

// A row a tensor, and a sentence on the one that differs most.
Page comparison_page(const Comparison& comparison);

}  // namespace ridgepoint::views
