#include "support/program/mpirun.h"

#include <cstdlib>
#include <string>

#include "backends/mpi/mpirun.h"

namespace ridgepoint::testing {

bool prepare_mpirun() {
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) return false;
  ridgepoint::prepare_mpirun();
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string before = options == nullptr ? "" : std::string(options) + ":";
  ::setenv("ASAN_OPTIONS", (before + "detect_leaks=0").c_str(), 1);
  return true;
}

}  // namespace ridgepoint::testing
