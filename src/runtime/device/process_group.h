// The processes of a parallel run, and what they tell one another outside of a run of the graph: their options, times
// and failures. Every member is called by all ranks, in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace ridgepoint
