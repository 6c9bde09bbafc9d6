// Finds a Python interpreter that can import PyTorch.
#pragma once

#include <string>

#include "ridgepoint/stop_point.h"

namespace ridgepoint {

struct Python {
  std::string path;           // as it was named; looked up in PATH without a slash
  std::string torch_version;  // "2.11.0+cu130"
};

// `named`, if it is not empty; otherwise the environment variable RIDGEPOINT_PYTHON, if it is set; otherwise the first
// of python3 in PATH and /usr/bin/python3 that can import torch. Importing takes seconds; `stop_point` is called
// meanwhile. Throws Error with the interpreters that were tried, why each failed, and what to do.
Python find_python(const std::string& named, const StopPoint& stop_point = {});

}  // namespace ridgepoint
