#include "backends/cuda/collectives/eager_launches.h"

#include <thread>
#include <utility>

namespace ridgepoint::cuda {

void EagerLaunches::before(CollectiveWatch::Number number, std::size_t bytes, StreamPoint& begin, StreamPoint& end) {
  is_repeated_ = last_ == number;
  const bool continues = open_ && is_repeated_ && open_->bytes + bytes <= kMostBytes && open_->launches < kMostLaunches;
  if (!continues) this->end();
  const bool waits = computes();
  if (waits) {
    begin.record(context_.stream());
    begin.make_wait(stream_);
  }
  if (!continues) {
    if (waits) begin.make_wait(marks_);
    watch_.mark_begin(number, marks_);
    open_ = Open{.number = number, .end = &end};
  }
  open_->bytes += bytes;
  ++open_->launches;
  last_ = number;
}

// Nothing says yet that another launch follows the first, and the host may have other things to do.
void EagerLaunches::after() {
  if (!is_repeated_) end();
}

void EagerLaunches::finish(CollectiveWatch::Number number) {
  if (last_ == number) finish();
}

void EagerLaunches::finish() {
  last_.reset();
  end();
}

void EagerLaunches::settle() {
  finish();
  while (context_.driver().cuStreamQuery(marks_) == CUDA_ERROR_NOT_READY) {
    context_.require_working();
    std::this_thread::yield();
  }
}

// A card that has failed may take no more work.
void EagerLaunches::end() {
  if (!open_) return;
  const Open launches = *std::exchange(open_, std::nullopt);
  if (context_.has_failed()) return;
  launches.end->record(stream_);
  launches.end->make_wait(marks_);
  watch_.mark_end(launches.number, marks_);
}

// An error is that of earlier work, which waiting for the stream reports.
bool EagerLaunches::computes() const { return context_.driver().cuStreamQuery(context_.stream()) != CUDA_SUCCESS; }

}  // namespace ridgepoint::cuda
