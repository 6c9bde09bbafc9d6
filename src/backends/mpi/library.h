// The functions of MPI that the engine calls. They are in a shared library of their own, ridgepoint_mpi, which is
// loaded when a run has several ranks: the program starts without MPI, and its other parts know nothing of it. This
// header is all that both sides share.
#pragma once

#include <cstddef>

namespace ridgepoint {

class MpiLibrary {
 public:
  enum class Type : unsigned char { fp64, fp32, bf16, fp16 };
  // sum[i] += operand[i]: MPI has no sums of 16-bit floating types.
  using Sum = void (*)(const void* operand, void* sum, std::size_t count);

  struct Place {
    int rank = 0;
    int ranks = 1;
    int rank_on_host = 0;
    int ranks_on_host = 1;
  };

  virtual ~MpiLibrary() = default;

  // All members are called from the thread that calls this. MPI ends the process where it fails.
  virtual Place initialise(Sum bf16, Sum fp16) = 0;

  // Each begins a collective; `in` may be `out`. Counts are of elements of a rank's result or, for gather, of bytes of
  // a rank's operand. Only all_reduce takes more than INT_MAX.
  virtual void begin_all_reduce(const void* in, void* out, std::size_t count, Type type) = 0;
  virtual void begin_reduce_scatter(const void* in, void* out, std::size_t count, Type type) = 0;
  virtual void begin_all_gather(const void* in, void* out, std::size_t bytes) = 0;
  virtual void begin_broadcast(void* data, std::size_t bytes, int root) = 0;
  // Whether every collective that was begun has ended.
  virtual bool test() = 0;

  virtual void finalise() = 0;
  virtual void abort(int exit_code) = 0;  // ends the processes of all ranks
};

// The name of the function of the shared library that returns its MpiLibrary, which lives as long as the process.
inline constexpr const char* kMpiLibraryFunction = "ridgepoint_mpi_library";
using MpiLibraryFunction = MpiLibrary* (*)();

}  // namespace ridgepoint
