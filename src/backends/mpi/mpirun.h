// How mpirun starts the ranks of one machine.
#pragma once

namespace ridgepoint {

// Sets variables of the environment that Open MPI 4 and 5 read, where they are not set: more ranks than there are cores
// if need be, each on all cores, by shared memory, without ssh, and also for root, as in a container. Variables,
// because another mpirun would refuse Open MPI's options.
void prepare_mpirun();

}  // namespace ridgepoint
