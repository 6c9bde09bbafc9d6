// Runs the collectives of a graph; a device runs every other node. Device::make_communicator() makes it.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgepoint {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // The kernel of a collective. Its launch() begins once the device has finished the launches before it, and runs
  // beside those that follow; Kernel::wait() makes later launches wait for its end. All ranks launch the same
  // collectives in the same order. Operands and results are dense.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;
};

}  // namespace ridgepoint
