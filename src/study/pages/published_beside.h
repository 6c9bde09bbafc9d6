// Published figures that can stand beside the rows of a study (inspect/published/compare.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridgepoint/record.h"

namespace ridgepoint::views {

struct PublishedBeside {
  std::size_t record = 0;  // the first record that it stands beside
  std::string study;
  std::string label;  // what compares, and what the source leaves open
  bool is_out_of_memory = false;
  std::optional<double> time_ms, forward_ms, backward_ms;
  // Only where the source's unit is certain.
  std::optional<double> before_backward_bytes, peak_bytes;
};

// Each row once. Rows without warm-up and rows under a profiler are left out: their times are not those of an
// iteration.
std::vector<PublishedBeside> published_beside(std::span<const Record> records);

}  // namespace ridgepoint::views
