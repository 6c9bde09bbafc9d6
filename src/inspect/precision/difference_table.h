// Compares results with a reference file: one row for each tensor, and a sentence on the one that differs most.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
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

// Sizes that a wrong factor may come from: {"the head size", 64}.
using NamedSizes = std::vector<std::pair<std::string, double>>;

struct Comparison {
  std::vector<NamedDifference> differences;    // in the order of the results
  std::map<std::string, std::string> remarks;  // on tensors beyond tolerance, by name (difference_remarks.h)
  std::vector<std::string> causes;             // sentences on tensors that have no remark, without their full stops
  std::vector<std::string> problems;           // one line for each missing or mis-shaped tensor
  std::vector<std::string> notes;              // one line for each tensor that is not compared
  bool within_tolerance() const;               // false if there are problems
  const NamedDifference* worst() const;        // null when nothing was compared
};

// Every result must be in the reference, except `loss.K` and `lse`, and except all `grad.NAME` together, all
// `param.NAME`, and all of dq, dk and dv. For `param.NAME` the update is compared, the difference from initial(NAME),
// with update_tolerance(); elements whose gradient in the reference is 0 but for rounding do not count, and a note says
// so. `known` are names that the reference may have without being results.
Comparison compare_with_file(const std::map<std::string, HostTensor>& results, const SafetensorsFile& reference,
                             const Tolerance& tolerance,
                             const std::function<HostTensor(const std::string& parameter)>& initial,
                             const NamedSizes& sizes, const std::set<std::string>& known = {});

Page comparison_page(const Comparison& comparison);

}  // namespace ridgepoint::tables
