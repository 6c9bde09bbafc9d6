// The order of collectives that are not captured, and their marks (collective_watch.h).
//
//   compute      a b c |                         | d      d reads what the collective writes
//   collectives        | begin? A A A A end      |
//   marks                begin            end
//
// What stands between two collectives on their stream holds up the second: a wait takes 1 us and an event another, and
// NCCL's all_gather of 1 MiB takes 10 us. So launches of one collective, one after another, are marked as one, and a
// collective does not wait for a stream that has nothing to do.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/nccl/collective_watch.h"
#include "backends/cuda/nccl/stream_point.h"

namespace ridgepoint::cuda {

class EagerLaunches {
 public:
  // What is marked as one has at most these bytes, so that the time limit of a collective stays that of a few.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

  // Collectives run on `stream`. The watch stays with this object.
  EagerLaunches(const CudaContext& context, CUstream stream, CollectiveWatch& watch);

  // The context is current in all calls.
  //
  // Before a launch of collective `number`, which moves `bytes`: it begins after what the compute stream has so far.
  // `begin` and `end` are points of this collective alone.
  void before(CollectiveWatch::Number number, std::size_t bytes, StreamPoint& begin, StreamPoint& end);
  // Records `end` behind the launches of collective `number`, unless something has done so since.
  void finish(CollectiveWatch::Number number);
  // The same for whichever collective was launched last.
  void finish();

 private:
  struct Launches {
    CollectiveWatch::Number number;
    StreamPoint* end;
    std::size_t bytes;
  };
  bool computes() const;

  const CudaContext& context_;
  CUstream stream_, marks_ = nullptr;
  CollectiveWatch& watch_;
  std::optional<Launches> last_;  // those that no mark ends yet
};

}  // namespace ridgepoint::cuda
