// A matmul with its cuBLASLt descriptors; a launch then needs an algorithm and addresses only.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/products/choice/cublaslt.h"
#include "backends/cuda/products/operands/mapping.h"

namespace ridgepoint::cuda {

// fp32 is computed in IEEE single precision, or in TF32 if the problem asks for it, and fp64 in double; bf16, fp16 and
// 8-bit codes are multiplied in their own precision with fp32 sums, which are rounded to the dtype of the result.
class MatmulPlan {
 public:
  MatmulPlan(CudaContext& context, const LtProblem& problem);

  // The candidates of the library's heuristic, best first; none needs more than problem.workspace_bytes().
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const;
  // Algorithms that the heuristic omits: the kernels of seeds with other output tiles and, if `splits`, with split-K by
  // 2 to 16 (partial sums are added in a fixed order, so results are reproducible), of operands in 16 bits the most
  // promising ones by expected_cycles(). Small products need them to occupy the GPU. Each may be a kernel that is not
  // loaded yet, which takes 2 ms.
  std::vector<cublasLtMatmulAlgo_t> variants(std::span<const cublasLtMatmulAlgo_t> seeds, const LtProblem& problem,
                                             bool splits, int multiprocessors) const;
  // Whether an algorithm that was read from disk can run here within the workspace.
  bool supports(const cublasLtMatmulAlgo_t& algorithm) const;

  // The operands of a launch in the library's order. `addend` is read only if the problem adds; it may be `c`.
  struct Addresses {
    const void* a;
    const void* b;
    const void* addend;
    void* c;
    void* workspace;
    const void* a_scale = nullptr;  // of 8-bit codes, fp32 on the GPU; null: 1, unless rows have scales
    const void* b_scale = nullptr;
  };

  // Launches all of problem.launches on the context's stream.
  cublasStatus_t launch_all(const cublasLtMatmulAlgo_t& algorithm, const LtProblem& problem, const Addresses& at) const;

 private:
  union Scalar {
    float single;
    double twice;
  };

  // Changes the factors of the operands of later launches.
  void set_scales(const Addresses& at) const;

  // Launches problem.batch products.
  cublasStatus_t launch(const cublasLtMatmulAlgo_t& algorithm, const Addresses& at) const {
    return library_.cublasLtMatmul(handle_, operation_.get(), &one_, at.a, a_.get(), at.b, b_.get(), &beta_, at.addend,
                                   c_.get(), at.c, c_.get(), &algorithm, at.workspace, workspace_bytes_, stream_);
  }

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
  mutable const void* a_scale_ = nullptr;  // those in operation_
  mutable const void* b_scale_ = nullptr;
  Scalar one_{};
  Scalar beta_{};  // 1 if the problem adds, else 0
};

}  // namespace ridgepoint::cuda
