// Runs the collectives of a graph; a device runs every other node. Device::make_communicator() makes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "memory/allocator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// Memory of this rank that the collectives of other ranks reach until this object is destroyed, which must be after
// their end.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // The kernel of a collective. Its launch() begins once the device has finished the launches before it, and runs
  // beside those that follow; Kernel::wait() makes later launches wait for its end. All ranks launch the same
  // collectives in the same order. Operands and results are dense.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;

  // Whether share_memory() may do anything.
  virtual bool reaches_memory() const { return false; }
  // Lets the collectives of all ranks read and write the memory where it lies, if that is possible, and if it has the
  // same layout on all of them. All ranks call this at once, with memory of the device. By default, and where it is not
  // possible, null: collectives then move bytes through memory of their own.
  virtual std::unique_ptr<SharedMemory> share_memory(const FixedMemory& /*memory*/) { return nullptr; }

  // Of the collectives whose kernels exist, those of which copy engines sent something in their last launch.
  virtual int copied_collectives() const { return 0; }

  // The first problem of a rank, on all of them, which call this at once; empty if none has one. By default `mine`:
  // where a device captures nothing, no rank has a problem with that.
  virtual std::string problem_of_ranks(const std::string& mine, std::string_view /*what*/) { return mine; }
};

// A collective for messages: "all_reduce of 64.0 MiB (bucket 3)".
std::string describe_collective(const KernelSpec& spec);
// The message where it has not ended within the time limit.
std::string describe_hang(std::string_view collective, double limit_seconds);

}  // namespace ridgepoint
