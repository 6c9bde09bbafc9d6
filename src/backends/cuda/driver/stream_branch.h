// Work of another stream beside that of the context's stream. In a capture it becomes a branch of the graph.
#pragma once

#include <memory>
#include <utility>

#include "backends/cuda/driver/event.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

class StreamBranch {
 public:
  StreamBranch(CudaContext& context, CUstream stream)
      : context_(context), stream_(stream), begin_(context), end_(context) {}

  // Calls `work`, which puts work on the branch's stream. It begins once the launches before it have ended.
  template <typename Work>
  void run(const Work& work) {
    const CudaContext::Scope scope(context_);
    begin_.record(context_.stream());
    begin_.make_wait(stream_);
    is_running_ = true;
    try {
      work(stream_);
    } catch (...) {  // what it has put on the stream before runs all the same
      end_.try_record(stream_);
      throw;
    }
    end_.record(stream_);
  }
  // Later launches wait for the end of the work. Does nothing where none runs.
  void join() {
    if (!std::exchange(is_running_, false)) return;
    const CudaContext::Scope scope(context_);
    end_.make_wait(context_.stream());
  }

 private:
  CudaContext& context_;
  CUstream stream_;
  StreamPoint begin_, end_;
  bool is_running_ = false;
};

// The same kernel, which needs no workspace, on a stream of lower priority: its blocks run where those of the context's
// stream leave room.
std::unique_ptr<Kernel> make_kernel_beside(CudaContext& context, std::unique_ptr<Kernel> kernel);

}  // namespace ridgepoint::cuda
