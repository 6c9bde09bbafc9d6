#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "backends/mpi/mpi_group.h"
#include "core/text/units.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

MpiLibrary::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return MpiLibrary::Type::fp64;
    case DType::fp32:
      return MpiLibrary::Type::fp32;
    case DType::bf16:
      return MpiLibrary::Type::bf16;
    case DType::fp16:
      return MpiLibrary::Type::fp16;
    default:
      throw Error("a sum over ranks of " + std::string(name(dtype)) + " is not possible", ErrorKind::unsupported);
  }
}

// One tensor of a collective.
struct Part {
  DType dtype;
  std::size_t in_bytes, out_bytes;
  const void* in = nullptr;
  void* out = nullptr;
};

void begin(MpiLibrary& mpi, const Node& node, const Part& part) {
  const std::size_t count = part.out_bytes / size_bytes(part.dtype);
  switch (node.op) {
    case Op::all_reduce:
      return mpi.begin_all_reduce(part.in, part.out, count, type_of(part.dtype));
    case Op::reduce_scatter:
      return mpi.begin_reduce_scatter(part.in, part.out, count, type_of(part.dtype));
    case Op::all_gather:
      return mpi.begin_all_gather(part.in, part.out, part.in_bytes);
    default: {
      if (part.in != part.out) std::memcpy(part.out, part.in, part.in_bytes);
      const auto root = static_cast<int>(node.attributes.get<std::int64_t>("root"));
      return mpi.begin_broadcast(part.out, part.in_bytes, root);
    }
  }
}

class MpiKernel : public Kernel {
 public:
  MpiKernel(CommunicationThread& thread, const KernelSpec& spec) : thread_(thread), node_(spec.node) {
    first_sent_ = spec.inputs.size() - spec.outputs.size();
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      const TensorLayout& sent = spec.inputs[first_sent_ + i];
      const DType dtype = sent.dtype;
      parts_.push_back(
          {dtype, TensorType{dtype, sent.shape}.bytes(), TensorType{dtype, spec.outputs[i].shape}.bytes()});
      const std::size_t bytes = std::max(parts_.back().in_bytes, parts_.back().out_bytes);
      if (node_.op != Op::all_reduce && bytes > INT_MAX) {
        throw Error(fmt::format("{} of {} in one tensor is more than MPI takes", ridgepoint::name(node_.op),
                                format_bytes(bytes)),
                    ErrorKind::unsupported);
      }
    }
    name_ = "mpi_" + std::string(ridgepoint::name(node_.op));
    description_ = describe_collective(spec);
  }

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    wait();  // for the launch before, which reads the same parts
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].in = arguments.inputs[first_sent_ + i];
      parts_[i].out = arguments.outputs[i];
    }
    ticket_ = thread_.start(
        [this](MpiLibrary& mpi) {
          for (const Part& part : parts_) begin(mpi, node_, part);
        },
        description_, CommunicationThread::Purpose::collective);
  }

  void wait() override {
    if (ticket_ > 0) thread_.wait(std::exchange(ticket_, 0));
  }

 private:
  CommunicationThread& thread_;
  Node node_;
  std::size_t first_sent_ = 0;  // of the operands (ops/collectives.h)
  std::vector<Part> parts_;
  std::string name_, description_;
  CommunicationThread::Ticket ticket_ = 0;  // of the collective that runs; 0: none
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(CommunicationThread& thread) : thread_(thread) {}
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<MpiKernel>(thread_, spec);
  }

 private:
  CommunicationThread& thread_;
};

}  // namespace

std::shared_ptr<Communicator> make_mpi_communicator(CommunicationThread& thread) {
  return std::make_shared<MpiCommunicator>(thread);
}

}  // namespace ridgepoint
