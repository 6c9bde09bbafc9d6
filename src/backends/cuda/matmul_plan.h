// A matmul with its cuBLASLt descriptors made: what remains is an algorithm and the addresses.
#pragma once

#include <vector>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/matmul_mapping.h"

namespace ridgepoint::cuda {

// fp32 computes in IEEE single precision, fp64 in double; bf16 and fp16 multiply in their own precision and
// accumulate in fp32.
class MatmulPlan {
 public:
  MatmulPlan(CudaContext& context, const LtProblem& problem);

  // The library's own ranking, best first, none of which needs more than problem.workspace_bytes().
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const;
  // Whether an algorithm read from disk still runs here within the workspace.
  bool accepts(const cublasLtMatmulAlgo_t& algorithm) const;

  // One launch of problem.batch matrices on the context's stream.
  cublasStatus_t launch(const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, void* c,
                        void* workspace) const {
    return library_.cublasLtMatmul(handle_, operation_.get(), &one_, a, a_.get(), b, b_.get(), &zero_, c, c_.get(), c,
                                   c_.get(), &algorithm, workspace, workspace_bytes_, stream_);
  }

 private:
  union Scalar {
    float single;
    double twice;
  };

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
