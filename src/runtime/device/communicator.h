// The ranks of a parallel run: their processes, and the collectives between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memory/allocator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

class Communicator;

// When a collective ran, by std::chrono::steady_clock.
struct CollectiveSpan {
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Thrown where this rank cannot go on with the others, or they not with it: no further row can be measured. It is no
// std::exception, so that it is not taken for the failure of one row.
struct LostRanks {
  std::string message;
};

// The processes of a parallel run, and what they tell one another outside of a run of the graph: their options, times
// and failures. Every member is called by all ranks, in the same order.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual int rank_on_host() const = 0;  // among the ranks of this machine
  virtual int ranks_on_host() const = 0;

  // After this time a collective has failed.
  virtual double collective_limit_seconds() const = 0;

  // The texts of all ranks, in their order. `what` names them in messages. Throws Error after the time limit, if it has
  // one, and LostRanks where another rank exchanges something else: it has taken another way through the program.
  enum class TimeLimit : std::uint8_t { of_collectives, none };
  std::vector<std::string> all_gather(std::string_view mine, std::string_view what,
                                      TimeLimit limit = TimeLimit::of_collectives);
  void barrier() { all_gather({}, "a barrier"); }

  // Collectives between the ranks, for devices whose memory is the host's. It must not outlive the group.
  virtual std::shared_ptr<Communicator> make_host_communicator() = 0;

  // Notes when the collectives of the host communicator run, until take_collectives() returns that in their order.
  virtual void note_collectives() {}
  virtual std::vector<CollectiveSpan> take_collectives() { return {}; }

  // Ends the processes of all ranks.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  // The texts of all ranks, in their order. Throws Error after the time limit, which names `what`.
  virtual std::vector<std::string> exchange(const std::string& mine, std::string_view what, TimeLimit limit) = 0;
};

// The problem of the first rank that has one, on all of them; empty if none has. The group may be null.
std::string problem_of_ranks(ProcessGroup* group, const std::string& mine, std::string_view what);

// Joins the processes that mpirun or a scheduler started, of which this is one, by MPI; once a process. A collective
// that takes longer than the limit fails. Throws Error (unsupported) where this build or machine has no MPI.
std::shared_ptr<ProcessGroup> join_process_group(double collective_limit_seconds);

// Memory of this rank that the collectives of other ranks reach until this object is destroyed, which must be after
// their end.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
};

// Runs the collectives of a graph; a device runs every other node. Device::make_communicator() makes it.
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
