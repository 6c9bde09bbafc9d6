// Reads the sums by kernel that `nsys stats --report cuda_gpu_kern_sum` prints, as text or as CSV.
#pragma once

#include <string_view>

#include "interchange/trace/trace.h"

namespace ridgepoint {

// Whether the beginning of a file has the headings of this report.
bool begins_nsys_stats(std::string_view begin);

// The rows of all such tables in the text; lines that are no rows are passed over.
Trace read_nsys_stats(std::string_view text);

}  // namespace ridgepoint
