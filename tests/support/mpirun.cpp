#include "support/mpirun.h"

#include <cstdlib>
#include <string>

namespace ridgepoint::testing {

bool prepare_mpirun() {
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) return false;
  for (const char* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
    ::setenv(name, "1", 1);
  ::setenv("OMPI_MCA_plm", "isolated", 1);
  const char* options = std::getenv("ASAN_OPTIONS");
  const std::string before = options == nullptr ? "" : std::string(options) + ":";
  ::setenv("ASAN_OPTIONS", (before + "detect_leaks=0").c_str(), 1);
  return true;
}

}  // namespace ridgepoint::testing
