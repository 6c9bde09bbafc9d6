#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/mpi/communication_thread.h"
#include "backends/mpi/library.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "runtime/device/communicator.h"

namespace ridgepoint {
namespace {

MpiLibrary::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return MpiLibrary::Type::fp64;
    case DType::fp32: return MpiLibrary::Type::fp32;
    case DType::bf16: return MpiLibrary::Type::bf16;
    case DType::fp16: return MpiLibrary::Type::fp16;
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
    case Op::all_reduce: return mpi.begin_all_reduce(part.in, part.out, count, type_of(part.dtype));
    case Op::reduce_scatter: return mpi.begin_reduce_scatter(part.in, part.out, count, type_of(part.dtype));
    case Op::all_gather: return mpi.begin_all_gather(part.in, part.out, part.in_bytes);
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
      if (node_.op != Op::all_reduce && bytes > INT_MAX)
        throw_error(ErrorKind::unsupported, "{} of {} in one tensor is more than MPI takes", ridgepoint::name(node_.op),
                    format_bytes(bytes));
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

// The processes that mpirun or a scheduler started, by MPI.
class MpiGroup : public ProcessGroup {
 public:
  // Loads the library and initialises MPI, which a process can do once. Throws Error (unsupported) where this build or
  // machine has no MPI.
  explicit MpiGroup(std::chrono::duration<double> collective_limit);

  int rank() const override { return thread_.place().rank; }
  int ranks() const override { return thread_.place().ranks; }
  int rank_on_host() const override { return thread_.place().rank_on_host; }
  int ranks_on_host() const override { return thread_.place().ranks_on_host; }
  double collective_limit_seconds() const override { return thread_.limit_seconds(); }
  std::shared_ptr<Communicator> make_host_communicator() override { return std::make_shared<MpiCommunicator>(thread_); }
  void note_collectives() override { thread_.note(); }
  std::vector<CollectiveSpan> take_collectives() override { return thread_.take(); }
  [[noreturn]] void abort(int exit_code) override;

 protected:
  std::vector<std::string> exchange(const std::string& mine, std::string_view what, TimeLimit limit) override;

 private:
  void gather(const void* in, void* out, std::size_t bytes, std::string_view what, TimeLimit limit);

  MpiLibrary& library_;
  CommunicationThread thread_;
};

constexpr const char* kLibraryFile = "libridgepoint_mpi.so";
// Of a text that are exchanged at a time: MPI counts with int, and the logits of all ranks may be more.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

// Beside the program, as in a build folder, or where an installation has it.
std::vector<std::filesystem::path> library_places() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {program / kLibraryFile, program.parent_path() / kLibraryFile,
          program.parent_path() / RIDGEPOINT_LIBRARY_FOLDER / kLibraryFile};
}

MpiLibrary& load_library() {
  std::string problem;
  for (const std::filesystem::path& place : library_places()) {
    if (!std::filesystem::exists(place)) continue;
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);  // Open MPI opens parts of itself by name
    if (handle == nullptr) {
      problem = dlerror();
      continue;
    }
    const auto function = reinterpret_cast<MpiLibraryFunction>(dlsym(handle, kMpiLibraryFunction));
    if (function != nullptr) return *function();
    problem = place.string() + " has another interface";
  }
  if (problem.empty()) {
    throw Error(
        "this build has no MPI, which several ranks need; build it on a machine with MPI (Debian: "
        "libopenmpi-dev)",
        ErrorKind::unsupported);
  }
  throw Error(
      "MPI cannot be loaded, and several ranks need it (" + problem + "); install its libraries (Debian: openmpi-bin)",
      ErrorKind::unsupported);
}

MpiGroup::MpiGroup(std::chrono::duration<double> collective_limit)
    : library_(load_library()), thread_(library_, collective_limit) {}

std::vector<std::string> MpiGroup::exchange(const std::string& mine, std::string_view what, TimeLimit limit) {
  const auto count = static_cast<std::size_t>(ranks());
  const std::size_t size = mine.size();
  std::vector<std::size_t> sizes(count);
  gather(&size, sizes.data(), sizeof size, what, limit);
  const std::size_t longest = *std::ranges::max_element(sizes);
  std::string padded = mine;
  padded.resize(longest);
  std::vector<std::string> texts(count);
  for (std::size_t begin = 0; begin < longest; begin += kMostBytes) {
    const std::size_t bytes = std::min(longest - begin, kMostBytes);
    std::string all(bytes * count, '\0');
    gather(padded.data() + begin, all.data(), bytes, what, TimeLimit::of_collectives);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const std::size_t left = sizes[rank] - std::min(begin, sizes[rank]);
      texts[rank].append(all, rank * bytes, std::min(bytes, left));
    }
  }
  return texts;
}

void MpiGroup::gather(const void* in, void* out, std::size_t bytes, std::string_view what, TimeLimit limit) {
  thread_.wait(thread_.start([=](MpiLibrary& mpi) { mpi.begin_all_gather(in, out, bytes); },
                             "the exchange of " + std::string(what), CommunicationThread::Purpose::exchange, limit));
}

void MpiGroup::abort(int exit_code) {
  thread_.abandon();
  library_.abort(exit_code);
  std::_Exit(exit_code);
}

}  // namespace

std::shared_ptr<ProcessGroup> join_process_group(double collective_limit_seconds) {
  return std::make_shared<MpiGroup>(std::chrono::duration<double>(collective_limit_seconds));
}

}  // namespace ridgepoint
