// For tests that start several ranks.
#pragma once

namespace ridgepoint::testing {

// Sets the environment in which mpirun starts more ranks than there are cores, for root too, and in which the leak
// sanitizer is off: Open MPI keeps memory when it unloads its libraries. False where mpirun is not installed.
bool prepare_mpirun();

}  // namespace ridgepoint::testing
