#include "backends/cuda/collectives/nccl_communicator.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/collectives/channel.h"
#include "backends/cuda/collectives/copied_collectives.h"
#include "backends/cuda/collectives/nccl.h"
#include "backends/cuda/driver/event.h"
#include "backends/cuda/kernels/rank_sums/rank_sums.h"
#include "core/rounding.h"
#include "ops/collectives.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::cuda {
namespace {

NcclType type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return NcclType::fp64;
    case DType::fp32: return NcclType::fp32;
    case DType::bf16: return NcclType::bf16;
    case DType::fp16: return NcclType::fp16;
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
      const TensorLayout& result = spec.outputs[i];
      // Of the smaller side; what only moves is counted in bytes.
      const Shape& shape = node_.op == Op::all_gather ? sent.shape : result.shape;
      const TensorType type{sent.dtype, shape};
      Part part{sent.dtype, NcclType::int8, type.bytes(), TensorType{sent.dtype, sent.shape}.bytes(),
                TensorType{sent.dtype, result.shape}.bytes()};
      if (sums) {
        part.type = type_of(sent.dtype);
        part.count = static_cast<std::size_t>(type.elements());
      }
      bytes_ += std::max(part.sent_bytes, part.result_bytes);
      parts_.push_back(part);
      order_.push_back(i);
    }
    // The arena has the sums of one type one behind another (plan/arena.h).
    if (node_.op == Op::all_reduce)
      std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return parts_[i].dtype; });
  }

  ~NcclKernel() override {
    const CudaContext::Scope scope(channel_.context(), std::nothrow);
    try {
      channel_.eager_launches().finish(number_);
    } catch (const Error&) {  // the card has failed
    }
    channel_.watch().remove(number_);
    set_copied(false);
  }
  NcclKernel(const NcclKernel&) = delete;
  NcclKernel& operator=(const NcclKernel&) = delete;

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    CudaContext& context = channel_.context();
    const CudaContext::Scope scope(context);
    context.require_working();
    if (!context.is_capturing()) return launch_eagerly(arguments);
    channel_.eager_launches().settle();
    begin_captured();
    try {
      send(arguments.inputs + first_sent_, arguments.outputs, true);
    } catch (...) {
      end_captured();  // a part of it may run
      throw;
    }
    end_captured();
  }

  void wait() override {
    // The context's own stream may still wait for it after a side stream has.
    if (!std::exchange(is_running_, is_running_ && channel_.context().is_on_side_stream())) return;
    const CudaContext::Scope scope(channel_.context());
    channel_.eager_launches().finish(number_);
    end_.make_wait(channel_.context().stream());
  }

 private:
  struct Part {
    DType dtype;
    NcclType type;
    std::size_t count;
    std::size_t sent_bytes, result_bytes;
  };

  void launch_eagerly(const LaunchArguments& arguments) {
    channel_.eager_launches().before(number_, bytes_, begin_, end_);
    is_running_ = true;
    send(arguments.inputs + first_sent_, arguments.outputs, false);
    channel_.eager_launches().after();
  }

  void begin_captured() {
    begin_.record(channel_.context().stream());
    begin_.make_wait(channel_.stream());
    channel_.watch().mark_begin(number_, channel_.stream());
  }

  void end_captured() {
    channel_.watch().mark_end(number_, channel_.stream());
    end_.record(channel_.stream());
    is_running_ = true;
  }

  // In a captured run copy engines send what is large. Only there: NCCL's copies count themselves, and ranks whose
  // counts differ, because one of them could not capture, would wait for ever. In the other runs the same parts of the
  // same messages are summed in the same order, because a sum of more than two ranks depends on it, and a run that goes
  // on from a checkpoint captures later than the run before it did.
  void send(void* const* in, void* const* out, bool is_captured) {
    const bool may_copy = channel_.direct_memory() != nullptr && node_.phase != Phase::optimizer;
    if (may_copy) find_messages(in, out, is_captured);
    set_copied(is_captured && may_copy && std::ranges::any_of(messages_, &Message::is_copied));
    if (!may_copy) return send_by_kernels(in, out);
    launch_kernels();
    launch_copies(is_captured);
  }

  void set_copied(bool is_copied) {
    if (is_copied != std::exchange(is_copied_, is_copied)) channel_.count_copied(is_copied ? 1 : -1);
  }

  // All tensors as one kernel of NCCL.
  void send_by_kernels(void* const* in, void* const* out) {
    NcclGroup group;
    for (std::size_t i = 0; i < parts_.size(); ++i) send_part(parts_[i], parts_[i].count, in[i], out[i]);
    group.launch();
  }

  // What is sent as one: a tensor, or several sums in place that lie one behind another.
  struct Message {
    const Part* part;  // of the first tensor
    const std::byte* in;
    std::byte* out;
    std::size_t sent_bytes, result_bytes;
    std::size_t count;  // as NCCL counts
    bool is_copied;
  };

  void find_messages(void* const* in, void* const* out, bool is_captured) {
    messages_.clear();
    for (const std::size_t i : order_) {
      const Part& part = parts_[i];
      const Message message{.part = &part,
                            .in = static_cast<const std::byte*>(in[i]),
                            .out = static_cast<std::byte*>(out[i]),
                            .sent_bytes = part.sent_bytes,
                            .result_bytes = part.result_bytes,
                            .count = part.count,
                            .is_copied = false};
      if (!append_to_last(message)) messages_.push_back(message);
    }
    for (Message& message : messages_) {
      // A sum in place has its whole blocks, whose ends may be summed too: then nothing is left of most messages.
      if (node_.op == Op::all_reduce && message.in == message.out)
        message.sent_bytes = message.result_bytes = block_bytes(message.sent_bytes);
      message.is_copied = may_copy(message, is_captured);
    }
  }

  bool append_to_last(const Message& next) {
    if (node_.op != Op::all_reduce || messages_.empty()) return false;
    Message& last = messages_.back();
    if (last.in != last.out || next.in != next.out || last.part->dtype != next.part->dtype) return false;
    if (next.in != last.in + block_bytes(last.sent_bytes)) return false;
    last.sent_bytes = last.result_bytes = static_cast<std::size_t>(next.in - last.in) + next.sent_bytes;
    last.count = last.sent_bytes / size_bytes(next.part->dtype);
    return true;
  }

  bool may_copy(const Message& message, bool is_captured) {
    const DirectMemory& memory = *channel_.direct_memory();
    if (!are_sent_by_copies(node_, std::max(message.sent_bytes, message.result_bytes))) return false;
    if (!memory.holds(message.in, message.sent_bytes) || !memory.holds(message.out, message.result_bytes)) return false;
    if (node_.op == Op::all_gather) return is_captured;
    const CopiedCollectives copied(channel_);
    const bool is_whole = node_.op == Op::all_reduce || copied.can_scatter(message.sent_bytes);
    return is_whole && has_rank_sums(message.part->dtype);
  }

  // What is not copied, and what copies leave of a sum, as one kernel of NCCL.
  void launch_kernels() {
    const CopiedCollectives copied(channel_);
    NcclGroup group;
    for (const Message& message : messages_) {
      if (!message.is_copied) {
        send_part(*message.part, message.count, message.in, message.out);
      } else if (node_.op == Op::all_reduce) {
        const std::size_t copied_bytes = copied.divisible(message.sent_bytes);
        const std::size_t left = (message.sent_bytes - copied_bytes) / size_bytes(message.part->dtype);
        if (left > 0) send_part(*message.part, left, message.in + copied_bytes, message.out + copied_bytes);
      }
    }
    group.launch();
  }

  void launch_copies(bool is_captured) {
    CopiedCollectives copied(channel_);
    std::vector<CopiedCollectives::Tensor> parts;
    std::map<DType, std::vector<CopiedCollectives::Tensor>> sums;
    for (const Message& message : messages_) {
      if (!message.is_copied) continue;
      if (node_.op == Op::all_gather) {
        parts.push_back({message.in, message.out, message.sent_bytes});
      } else {
        sums[message.part->dtype].push_back({message.in, message.out, copied.divisible(message.sent_bytes)});
      }
    }
    copied.all_gather(parts);
    for (const auto& [dtype, tensors] : sums) {
      if (!is_captured) {
        for (const CopiedCollectives::Tensor& tensor : tensors)
          copied.sum_by_kernels(tensor, dtype, node_.op == Op::all_reduce);
        continue;
      }
      if (node_.op == Op::all_reduce) copied.all_reduce(tensors, dtype);
      if (node_.op == Op::reduce_scatter) copied.reduce_scatter(tensors, dtype);
    }
  }

  void send_part(const Part& part, std::size_t count, const void* in, void* out) {
    const NcclHandle handle = channel_.handle();
    const CUstream stream = channel_.stream();
    switch (node_.op) {
      case Op::all_reduce:
        return check(nccl().ncclAllReduce(in, out, count, part.type, NcclSum::sum, handle, stream), "all-reduce");
      case Op::reduce_scatter:
        return check(nccl().ncclReduceScatter(in, out, count, part.type, NcclSum::sum, handle, stream),
                     "reduce-scatter");
      case Op::all_gather: return check(nccl().ncclAllGather(in, out, count, part.type, handle, stream), "all-gather");
      default: {
        const auto root = static_cast<int>(node_.attributes.get<std::int64_t>("root"));
        return check(nccl().ncclBroadcast(in, out, count, part.type, root, handle, stream), "broadcast");
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
  std::size_t bytes_ = 0;           // of a launch
  std::vector<std::size_t> order_;  // of the parts in messages
  std::vector<Message> messages_;   // of the last launch with direct memory
  bool is_copied_ = false;          // something of the last launch
  bool is_running_ = false;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(CudaContext& context, const std::shared_ptr<ProcessGroup>& group)
      : channel_(Channel::of_card(context, group)), group_(group) {}
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<NcclKernel>(channel_, spec);
  }
  bool reaches_memory() const override { return channel_.direct_memory() != nullptr; }
  std::unique_ptr<SharedMemory> share_memory(const FixedMemory& memory) override {
    DirectMemory* direct = channel_.direct_memory();
    return direct == nullptr ? nullptr : direct->share(*group_, memory);
  }
  int copied_collectives() const override { return channel_.copied(); }
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
