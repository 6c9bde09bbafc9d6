#include "backends/cuda/nccl/eager_launches.h"

#include <utility>

namespace ridgepoint::cuda {

EagerLaunches::EagerLaunches(const CudaContext& context, CUstream stream, CollectiveWatch& watch)
    : context_(context), stream_(stream), watch_(watch) {
  const CudaContext::Scope scope(context);
  check(context.driver().cuStreamCreate(&marks_, CU_STREAM_NON_BLOCKING), "create a stream");
}

void EagerLaunches::before(CollectiveWatch::Number number, std::size_t bytes, StreamPoint& begin, StreamPoint& end) {
  if (last_ && (last_->number != number || last_->bytes + bytes > kMostBytes)) finish();
  const bool waits = computes();
  if (waits) {
    begin.record(context_.stream());
    begin.make_wait(stream_);
  }
  if (!last_) {
    if (waits) begin.make_wait(marks_);
    watch_.mark_begin(number, marks_);
    last_ = Launches{number, &end, 0};
  }
  last_->bytes += bytes;
}

void EagerLaunches::finish(CollectiveWatch::Number number) {
  if (last_ && last_->number == number) finish();
}

void EagerLaunches::finish() {
  if (!last_) return;
  const Launches launches = *std::exchange(last_, std::nullopt);
  launches.end->record(stream_);
  launches.end->make_wait(marks_);
  watch_.mark_end(launches.number, marks_);
}

// An error is that of earlier work, which waiting for the stream reports.
bool EagerLaunches::computes() const { return context_.driver().cuStreamQuery(context_.stream()) != CUDA_SUCCESS; }

}  // namespace ridgepoint::cuda
