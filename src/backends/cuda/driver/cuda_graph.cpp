#include "backends/cuda/driver/cuda_graph.h"

#include "ridgepoint/core/error.h"

namespace ridgepoint::cuda {
namespace {

// An error of `call` says that the run cannot be captured.
template <typename Call>
void in_capture(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    throw Error(error.what(), ErrorKind::unsupported);
  }
}

void check_capture(CUresult result, const char* doing) {
  in_capture([&] { check(result, doing); });
}

// Kernels of a captured run are not timed one by one, so they may overlap.
class OverlappedLaunches {
 public:
  explicit OverlappedLaunches(CudaContext& context) : context_(context) { context_.set_overlaps_launches(true); }
  ~OverlappedLaunches() { context_.set_overlaps_launches(false); }
  OverlappedLaunches(const OverlappedLaunches&) = delete;
  OverlappedLaunches& operator=(const OverlappedLaunches&) = delete;

 private:
  CudaContext& context_;
};

// A captured graph before its instantiation.
class Recording {
 public:
  explicit Recording(const CudaContext& context) : context_(context) {
    // Relaxed: a body may load a kernel or allocate memory, which are not work on the stream.
    check_capture(context.driver().cuStreamBeginCapture_v2(context.stream(), CU_STREAM_CAPTURE_MODE_RELAXED),
                  "begin to capture a run");
  }
  ~Recording() {
    if (!has_ended_) context_.driver().cuStreamEndCapture(context_.stream(), &graph_);
    if (graph_ != nullptr) context_.driver().cuGraphDestroy(graph_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  CUgraph end() {
    has_ended_ = true;
    check_capture(context_.driver().cuStreamEndCapture(context_.stream(), &graph_), "capture a run");
    return graph_;
  }

 private:
  const CudaContext& context_;
  CUgraph graph_ = nullptr;
  bool has_ended_ = false;
};

}  // namespace

CudaGraph::CudaGraph(CudaContext& context, const std::function<void()>& body) : context_(context) {
  const CudaContext::Scope scope(context);
  const OverlappedLaunches overlapped(context);
  context.graph_edits().begin();
  Recording recording(context);
  body();
  const CUgraph captured = recording.end();
  in_capture([&] { context.graph_edits().apply(context, captured); });
  // Each kernel keeps the priority of the stream on which it was captured, not that of the one on which the graph runs.
  check_capture(
      context.driver().cuGraphInstantiateWithFlags(&graph_, captured, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
      "prepare a captured run");
}

CudaGraph::~CudaGraph() {
  const CudaContext::Scope scope(context_, std::nothrow);
  context_.driver().cuGraphExecDestroy(graph_);
}

void CudaGraph::run() {
  const CudaContext::Scope scope(context_);
  check(context_.driver().cuGraphLaunch(graph_, context_.stream()), "launch a captured run");
}

}  // namespace ridgepoint::cuda
