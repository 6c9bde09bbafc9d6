// A matmul with its cuBLASLt descriptors made: what remains is an algorithm and the addresses.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/driver/cublaslt.h"
#include "backends/cuda/matmul/mapping.h"

namespace ridgepoint::cuda {

// fp32 computes in IEEE single precision, or in TF32 where the problem says so, fp64 in double; bf16 and fp16 multiply
// in their own precision and accumulate in fp32.
class MatmulPlan {
 public:
  MatmulPlan(CudaContext& context, const LtProblem& problem);

  // The library's own ranking, best first, none of which needs more than problem.workspace_bytes().
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const;
  // What the ranking leaves out: each seed's kernel with every output tile it offers and, where `splits` says so, the
  // inner dimension split 2 to 16 ways (partial sums are added in a fixed order, so results repeat). Small products
  // need them to occupy the card. The library takes some 30 microseconds to check one.
  std::vector<cublasLtMatmulAlgo_t> variants(std::span<const cublasLtMatmulAlgo_t> seeds, bool splits) const;
  // Whether an algorithm read from disk still runs here within the workspace.
  bool accepts(const cublasLtMatmulAlgo_t& algorithm) const;

  // One launch of problem.batch matrices on the context's stream.
  cublasStatus_t launch(const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, void* c,
                        void* workspace) const {
    return library_.cublasLtMatmul(handle_, operation_.get(), &one_, a, a_.get(), b, b_.get(), &zero_, c, c_.get(), c,
                                   c_.get(), &algorithm, workspace, workspace_bytes_, stream_);
  }

  // All of problem.launches.
  cublasStatus_t launch_all(const cublasLtMatmulAlgo_t& algorithm, const LtProblem& problem, const void* a,
                            const void* b, void* c, void* workspace) const;

 private:
  union Scalar {
    float single;
    double twice;
  };

  template <typename T>
  T configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) const;
  template <typename T>
  void configure(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which, T value) const;
  std::vector<std::uint32_t> tiles(const cublasLtMatmulAlgo_t& algorithm) const;

  const CublasLt& library_;
  cublasLtHandle_t handle_;
  CUstream stream_;
  LtObject<cublasLtMatmulDesc_t> operation_;
  LtObject<cublasLtMatrixLayout_t> a_, b_, c_;
  std::size_t workspace_bytes_;
  std::uint32_t alignment_bytes_;
  Scalar one_{};
  Scalar zero_{};
};

}  // namespace ridgepoint::cuda
