// Ranks of a parallel run as threads of this process, for tests of what several ranks compute together. Collectives are
// computed by their definition.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ridgepoint/ir/tensor.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::testing {

// When a collective reads its operands and writes its results. A plan is right for both, because a real one does so at
// any time between.
enum class CollectiveRuns : std::uint8_t { in_launch, in_wait };

class RankThreads {
 public:
  explicit RankThreads(std::size_t ranks, CollectiveRuns runs = CollectiveRuns::in_launch);

  using Body = std::function<void(std::size_t rank, const std::shared_ptr<Communicator>& communicator)>;
  // Calls `body` in a thread for each rank and waits for all. Rethrows the exception of the first rank that has one.
  void run(const Body& body);

  // The ranks as the processes of one machine; call it in the thread of the rank. It must not outlive the object.
  std::shared_ptr<ProcessGroup> process_group(std::size_t rank);

  // For groups: the texts of all ranks, in their order.
  std::vector<std::string> exchange(std::size_t rank, std::string text);
  // For kernels: leaves the operands of a rank, waits for those of all, and returns the results of this rank.
  std::vector<HostTensor> exchange(std::size_t rank, const Node& node, std::vector<HostTensor> operands);
  CollectiveRuns runs() const { return runs_; }
  std::size_t ranks() const { return ranks_; }

 private:
  std::size_t ranks_;
  CollectiveRuns runs_;
  std::barrier<> barrier_;
  std::vector<std::vector<HostTensor>> operands_;  // by rank
  std::vector<std::string> texts_;                 // by rank
};

// What collectives mean, the oracle of every communicator: the result of each rank for one operand of each rank, all of
// one type. Sums are made in double, from rank 0 on, and rounded once. `root` is that of collective_broadcast.
std::vector<HostTensor> collective_results(Op op, std::span<const HostTensor> operands, std::size_t root = 0);

}  // namespace ridgepoint::testing
