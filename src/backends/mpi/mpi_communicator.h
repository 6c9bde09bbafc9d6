// Collectives by MPI, for devices whose memory is the host's. They run in a thread of their own.
#pragma once

#include <memory>

#include "backends/mpi/communication_thread.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {

std::shared_ptr<Communicator> make_mpi_communicator(CommunicationThread& thread);

}  // namespace ridgepoint
