// The order of collectives that are not captured, and their marks (collective_watch.h).
//
//   compute      a b c |                            | d      d reads what the collective writes
//   collectives        | wait A end    A A A A end  |
//   marks               begin   end   begin     end
//
// What stands between two collectives on their stream holds up the second: a wait takes 1 us and an event another, and
// NCCL's all_gather of 1 MiB takes 10 us. So a collective does not wait for a stream that has nothing to do, and where
// one is launched again and again, and nothing waits for it, the launches behind the first are marked together.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/cuda/collectives/collective_watch.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/event.h"

namespace ridgepoint::cuda {

class EagerLaunches {
 public:
  // What is marked together shares the time limit of one collective.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  static constexpr int kMostLaunches = 64;

  // Collectives run on `stream`, and the marks are work of `marks`. The watch stays with this object.
  EagerLaunches(const CudaContext& context, CUstream stream, CUstream marks, CollectiveWatch& watch)
      : context_(context), stream_(stream), marks_(marks), watch_(watch) {}

  // The context is current in all calls.
  //
  // Before a launch of collective `number`, which moves `bytes`: it begins after what the compute stream has so far.
  // `begin` and `end` are points of this collective alone.
  void before(CollectiveWatch::Number number, std::size_t bytes, StreamPoint& begin, StreamPoint& end);
  // After the launch.
  void after();
  // Before something waits for `end` of collective `number`, which is behind all of its launches then.
  void finish(CollectiveWatch::Number number);
  // The same for whichever collective was launched last.
  void finish();
  // Before a run is captured: also waits until all marks are made. A captured run has no order with the stream of
  // marks, so the end of an earlier collective could be marked after the begin of a captured one, and hide a hang.
  void settle();

 private:
  // Launches that have no end yet.
  struct Open {
    CollectiveWatch::Number number;
    StreamPoint* end;
    std::size_t bytes = 0;
    int launches = 0;
  };
  bool computes() const;
  void end();

  const CudaContext& context_;
  CUstream stream_, marks_;
  CollectiveWatch& watch_;
  std::optional<Open> open_;
  std::optional<CollectiveWatch::Number> last_;  // launched, and nothing waits for it yet
  bool is_repeated_ = false;                     // the last launch
};

}  // namespace ridgepoint::cuda
