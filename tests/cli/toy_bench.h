// Options of bench, of a model small enough for any machine and sanitizer.
#pragma once

#include <string>
#include <vector>

#include "support/run_program.h"

namespace ridgepoint {

inline std::vector<std::string> toy_bench(const std::vector<std::string>& more) {
  return with_options(
      {"bench", "--device",  "cpu", "--layers", "1", "--d-model", "16", "--d-ff",  "24", "--heads", "2", "--vocab",
       "50",    "--context", "8",   "--batch",  "2", "--warmup",  "1",  "--steps", "3"},
      more);
}

}  // namespace ridgepoint
