// The shared library ridgepoint_mpi.
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "backends/mpi/library.h"

namespace ridgepoint {
namespace {

MpiLibrary::Sum sum_bf16 = nullptr;
MpiLibrary::Sum sum_fp16 = nullptr;

template <MpiLibrary::Sum* kSum>
void add(void* operand, void* result, int* count, MPI_Datatype*) {
  (*kSum)(operand, result, static_cast<std::size_t>(*count));
}

class Mpi : public MpiLibrary {
 public:
  Place initialise(Sum bf16, Sum fp16) override {
    sum_bf16 = bf16;
    sum_fp16 = fp16;
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Op_create(add<&sum_bf16>, 1, &add_bf16_);
    MPI_Op_create(add<&sum_fp16>, 1, &add_fp16_);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_);
    Place place;
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
    MPI_Comm_rank(host_, &place.rank_on_host);
    MPI_Comm_size(host_, &place.ranks_on_host);
    return place;
  }

  void begin_all_reduce(const void* in, void* out, std::size_t count, Type type) override {
    for (std::size_t begun = 0; begun < count;) {
      const std::size_t part = std::min<std::size_t>(count - begun, std::size_t{1} << 30);
      const std::size_t offset = begun * size_of(type);
      void* to = static_cast<char*>(out) + offset;
      const void* from = in == out ? MPI_IN_PLACE : static_cast<const char*>(in) + offset;
      MPI_Iallreduce(from, to, static_cast<int>(part), type_of(type), sum_of(type), MPI_COMM_WORLD, next());
      begun += part;
    }
  }
  void begin_reduce_scatter(const void* in, void* out, std::size_t count, Type type) override {
    MPI_Ireduce_scatter_block(in, out, static_cast<int>(count), type_of(type), sum_of(type), MPI_COMM_WORLD, next());
  }
  void begin_all_gather(const void* in, void* out, std::size_t bytes) override {
    const int count = static_cast<int>(bytes);
    MPI_Iallgather(in, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD, next());
  }
  void begin_broadcast(void* data, std::size_t bytes, int root) override {
    MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD, next());
  }

  bool test() override {
    int is_done = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_done, MPI_STATUSES_IGNORE);
    if (is_done != 0) requests_.clear();
    return is_done != 0;
  }

  void finalise() override { MPI_Finalize(); }
  void abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  static std::size_t size_of(Type type) { return type == Type::fp64 ? 8 : type == Type::fp32 ? 4 : 2; }
  static MPI_Datatype type_of(Type type) {
    return type == Type::fp64 ? MPI_DOUBLE : type == Type::fp32 ? MPI_FLOAT : MPI_UINT16_T;
  }
  MPI_Op sum_of(Type type) const { return type == Type::bf16 ? add_bf16_ : type == Type::fp16 ? add_fp16_ : MPI_SUM; }

  MPI_Op add_bf16_ = MPI_OP_NULL;
  MPI_Op add_fp16_ = MPI_OP_NULL;
  MPI_Comm host_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
};

}  // namespace
}  // namespace ridgepoint

extern "C" ridgepoint::MpiLibrary* ridgepoint_mpi_library() {
  static ridgepoint::Mpi library;
  return &library;
}
