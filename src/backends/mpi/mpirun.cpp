#include "backends/mpi/mpirun.h"

#include <array>
#include <cstdlib>
#include <utility>

namespace ridgepoint {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 8> kSettings = {{
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    // TCP would look for a way between the machine's network interfaces, and warns where it finds none.
    {"OMPI_MCA_btl", "^tcp"},
    // Open MPI 4.
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_plm", "isolated"},
    // Open MPI 5, whose mpirun is PRRTE's.
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
}};

}  // namespace

void prepare_mpirun() {
  for (const auto& [name, value] : kSettings) setenv(name, value, 0);
}

}  // namespace ridgepoint
