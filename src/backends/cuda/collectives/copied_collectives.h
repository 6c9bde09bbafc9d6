// Collectives whose bytes the GPUs' copy engines move, so that kernels beside them keep all multiprocessors:
//   all_gather       each GPU writes its part into the memory of the others; then a kernel copies the parts that stay
//   reduce_scatter   each GPU writes what the others sum into their staging memory; then a kernel adds the parts
//   all_reduce       reduce_scatter in place, then all_gather of the sums
// NCCL makes the copies (ncclAlltoAll and ncclAllGather without blocks of kernels). Each waits for the other ranks at
// its begin and end, which takes some 15 us, so small tensors are not worth it. A sum that is not captured
// gathers the parts by NCCL's kernels, and the same kernel adds them, so that it has the same bits.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/collectives/channel.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint::cuda {

class CopiedCollectives {
 public:
  // Of a channel with direct memory, in which all operands and results lie.
  explicit CopiedCollectives(Channel& channel) : channel_(channel), memory_(*channel.direct_memory()) {}

  // The bytes at the begin of a tensor that can be summed: whole vectors of 16 bytes for each rank.
  std::size_t divisible(std::size_t bytes) const;
  // Whether a reduce_scatter of a tensor of `bytes` is possible.
  bool can_scatter(std::size_t bytes) const;

  struct Tensor {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::size_t bytes = 0;  // of `in`
  };
  // In a captured run.
  void all_gather(const std::vector<Tensor>& parts);

  // The sums of tensors of one type over all ranks; their bytes are divisible().
  void reduce_scatter(const std::vector<Tensor>& tensors, DType dtype) { sum(tensors, dtype, false); }
  void all_reduce(const std::vector<Tensor>& tensors, DType dtype) { sum(tensors, dtype, true); }
  // The sum of one tensor, on all ranks if `is_gathered`, without copies between windows.
  void sum_by_kernels(const Tensor& tensor, DType dtype, bool is_gathered);

 private:
  void sum(const std::vector<Tensor>& tensors, DType dtype, bool is_gathered);
  void sum_pieces(const std::vector<Tensor>& pieces, DType dtype, bool is_gathered);

  Channel& channel_;
  DirectMemory& memory_;
};

}  // namespace ridgepoint::cuda
