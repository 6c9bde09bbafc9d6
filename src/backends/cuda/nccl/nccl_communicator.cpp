#include "backends/cuda/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/nccl/collective_watch.h"
#include "backends/cuda/nccl/nccl.h"
#include "ridgepoint/error.h"
#include "runtime/process_group.h"

namespace ridgepoint::cuda {
namespace {

// A point of one stream for which another can wait. In a capture both become edges of the graph.
class StreamPoint {
 public:
  explicit StreamPoint(const CudaContext& context) : context_(context) {
    const CudaContext::Scope scope(context);
    check(context.driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "create an event");
  }
  ~StreamPoint() {
    const CudaContext::Scope scope(context_, std::nothrow);
    context_.driver().cuEventDestroy(event_);
  }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  void record(CUstream stream) {
    check(context_.driver().cuEventRecordWithFlags(event_, stream, CU_EVENT_RECORD_DEFAULT), "record an event");
  }
  void make_wait(CUstream stream) {
    check(context_.driver().cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT), "wait for an event");
  }

 private:
  const CudaContext& context_;
  CUevent event_ = nullptr;
};

// A plan is made for one card: on others the ranks would make different graphs, whose collectives wait for ever.
void require_same_card(const CardFacts& card, ProcessGroup& group) {
  const std::vector<std::string> names = group.all_gather(card.name, "names of cards");
  const auto other = std::ranges::find_if(names, [&](const std::string& name) { return name != names.front(); });
  if (other == names.end()) return;
  throw Error(
      fmt::format("the ranks have different cards: rank 0 has {}, rank {} has {}; choose cards of one kind with "
                  "CUDA_VISIBLE_DEVICES, or run on machines of one kind",
                  names.front(), other - names.begin(), *other),
      ErrorKind::usage);
}

// The NCCL communicator of this rank on a GPU, and the stream on which its collectives run, one after another. Joining
// takes a second, so it is kept like the context until the process ends.
class Channel {
 public:
  static Channel& of_card(CudaContext& context, const std::shared_ptr<ProcessGroup>& group) {
    static std::map<int, std::unique_ptr<Channel>>& channels = *new std::map<int, std::unique_ptr<Channel>>();
    std::unique_ptr<Channel>& channel = channels[context.card().ordinal];
    if (channel == nullptr) channel = std::unique_ptr<Channel>(new Channel(context, group));
    return *channel;
  }

  CudaContext& context() { return context_; }
  CUstream stream() const { return stream_; }
  NcclHandle handle() const { return handle_; }
  CollectiveWatch& watch() { return *watch_; }

 private:
  Channel(CudaContext& context, const std::shared_ptr<ProcessGroup>& group) : context_(context) {
    require_same_card(context.card(), *group);
    const CudaContext::Scope scope(context);
    const NcclId id = prepare(*group);
    check(nccl().ncclCommInitRank(&handle_, group->ranks(), id, group->rank()), "join the ranks");
    watch_.emplace(context, handle_, stream_, std::chrono::duration<double>(group->collective_limit_seconds()));
  }

  // Loads NCCL and makes the stream, on all ranks or on none. Returns the id that rank 0 has made.
  NcclId prepare(ProcessGroup& group) {
    NcclId id{};
    std::exception_ptr failure;
    std::string problem;
    try {
      nccl();
      if (group.rank() == 0) check(nccl().ncclGetUniqueId(&id), "make an id");
      make_stream();
    } catch (const Error& error) {
      failure = std::current_exception();
      problem = error.what();
    }
    problem = ridgepoint::problem_of_ranks(&group, problem, "whether NCCL is ready");
    if (failure) std::rethrow_exception(failure);
    if (!problem.empty()) throw Error("another rank: " + problem, ErrorKind::unsupported);
    const std::string first = group.all_gather(std::string_view(id.bytes, sizeof id.bytes), "the id of NCCL").front();
    std::memcpy(id.bytes, first.data(), sizeof id.bytes);
    return id;
  }

  void make_stream() {
    int least = 0;
    int greatest = 0;
    check(context_.driver().cuCtxGetStreamPriorityRange(&least, &greatest), "read the priorities of streams");
    // A collective that waits for a free multiprocessor holds up all ranks.
    check(context_.driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest), "create a stream");
  }

  CudaContext& context_;
  CUstream stream_ = nullptr;
  NcclHandle handle_ = nullptr;
  std::optional<CollectiveWatch> watch_;
};

NcclType type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return NcclType::fp64;
    case DType::fp32:
      return NcclType::fp32;
    case DType::bf16:
      return NcclType::bf16;
    case DType::fp16:
      return NcclType::fp16;
    default:
      throw Error("a sum over ranks of " + std::string(name(dtype)) + " is not possible", ErrorKind::unsupported);
  }
}

class NcclKernel : public Kernel {
 public:
  NcclKernel(Channel& channel, const KernelSpec& spec)
      : channel_(channel),
        node_(spec.node),
        name_("nccl_" + std::string(ridgepoint::name(spec.node.op))),
        begin_(channel.context()),
        end_(channel.context()) {
    const bool sums = node_.op == Op::all_reduce || node_.op == Op::reduce_scatter;
    number_ = channel.watch().add(describe_collective(spec));
    first_sent_ = spec.inputs.size() - spec.outputs.size();
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      const TensorLayout& sent = spec.inputs[first_sent_ + i];
      const DType dtype = sent.dtype;
      // Of the smaller side; what only moves is counted in bytes.
      const Shape& shape = node_.op == Op::all_gather ? sent.shape : spec.outputs[i].shape;
      const TensorType type{dtype, shape};
      parts_.push_back(sums ? Part{type_of(dtype), static_cast<std::size_t>(type.elements())}
                            : Part{NcclType::int8, type.bytes()});
    }
  }

  ~NcclKernel() override { channel_.watch().remove(number_); }
  NcclKernel(const NcclKernel&) = delete;
  NcclKernel& operator=(const NcclKernel&) = delete;

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    CudaContext& context = channel_.context();
    const CudaContext::Scope scope(context);
    context.require_working();
    begin_.record(context.stream());
    begin_.make_wait(channel_.stream());
    channel_.watch().mark_begin(number_);
    check(nccl().ncclGroupStart(), "begin a group");  // all tensors as one kernel
    for (std::size_t i = 0; i < parts_.size(); ++i)
      begin(parts_[i], arguments.inputs[first_sent_ + i], arguments.outputs[i]);
    check(nccl().ncclGroupEnd(), "launch a collective");
    channel_.watch().mark_end(number_);
    end_.record(channel_.stream());
    is_running_ = true;
  }

  void wait() override {
    if (!std::exchange(is_running_, false)) return;
    const CudaContext::Scope scope(channel_.context());
    end_.make_wait(channel_.context().stream());
  }

 private:
  struct Part {
    NcclType type;
    std::size_t count;
  };

  void begin(const Part& part, const void* in, void* out) {
    const NcclHandle handle = channel_.handle();
    const CUstream stream = channel_.stream();
    switch (node_.op) {
      case Op::all_reduce:
        return check(nccl().ncclAllReduce(in, out, part.count, part.type, NcclSum::sum, handle, stream), "all-reduce");
      case Op::reduce_scatter:
        return check(nccl().ncclReduceScatter(in, out, part.count, part.type, NcclSum::sum, handle, stream),
                     "reduce-scatter");
      case Op::all_gather:
        return check(nccl().ncclAllGather(in, out, part.count, part.type, handle, stream), "all-gather");
      default: {
        const auto root = static_cast<int>(node_.attributes.get<std::int64_t>("root"));
        return check(nccl().ncclBroadcast(in, out, part.count, part.type, root, handle, stream), "broadcast");
      }
    }
  }

  Channel& channel_;
  Node node_;
  std::string name_;
  CollectiveWatch::Number number_ = 0;
  StreamPoint begin_, end_;
  std::size_t first_sent_ = 0;  // of the operands (ops/collectives.h)
  std::vector<Part> parts_;
  bool is_running_ = false;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(CudaContext& context, const std::shared_ptr<ProcessGroup>& group)
      : channel_(Channel::of_card(context, group)), group_(group) {}
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<NcclKernel>(channel_, spec);
  }
  std::string problem_of_ranks(const std::string& mine, std::string_view what) override {
    return ridgepoint::problem_of_ranks(group_.get(), mine, what);
  }

 private:
  Channel& channel_;
  const std::shared_ptr<ProcessGroup> group_;
};

}  // namespace

std::shared_ptr<Communicator> make_nccl_communicator(CudaContext& context, const std::shared_ptr<ProcessGroup>& group) {
  return std::make_shared<NcclCommunicator>(context, group);
}

}  // namespace ridgepoint::cuda
