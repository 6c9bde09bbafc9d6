#include "backends/cuda/matmul_plan.h"

#include <fmt/format.h>

#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

cudaDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return CUDA_R_64F;
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    default:
      throw Error(fmt::format("matmul of {} is not defined", name(dtype)));
  }
}

LtObject<cublasLtMatmulDesc_t> make_operation(const LtProblem& problem) {
  const bool twice = problem.dtype == DType::fp64;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublaslt().cublasLtMatmulDescCreate(&made, twice ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                            twice ? CUDA_R_64F : CUDA_R_32F),
        "describe a matmul");
  LtObject<cublasLtMatmulDesc_t> operation(made);
  const auto set = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublaslt().cublasLtMatmulDescSetAttribute(made, which, &value, sizeof value), "describe a matmul");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, problem.a.transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, problem.b.transposed);
  return operation;
}

LtObject<cublasLtMatrixLayout_t> make_layout(const LtProblem& problem, const LtMatrix& matrix) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublaslt().cublasLtMatrixLayoutCreate(&made, data_type(problem.dtype), static_cast<std::uint64_t>(matrix.rows),
                                              static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "describe a matrix");
  LtObject<cublasLtMatrixLayout_t> layout(made);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
    check(cublaslt().cublasLtMatrixLayoutSetAttribute(made, which, &value, sizeof value), "describe a matrix");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(problem.batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  return layout;
}

}  // namespace

MatmulPlan::MatmulPlan(CudaContext& context, const LtProblem& problem)
    : library_(cublaslt()),
      handle_(cublaslt_handle(context)),
      stream_(context.stream()),
      operation_(make_operation(problem)),
      a_(make_layout(problem, problem.a)),
      b_(make_layout(problem, problem.b)),
      c_(make_layout(problem, problem.c)),
      workspace_bytes_(problem.workspace_bytes()),
      alignment_bytes_(static_cast<std::uint32_t>(problem.alignment_bytes)) {
  if (problem.dtype == DType::fp64) {
    one_.twice = 1.0;
    zero_.twice = 0.0;
  } else {
    one_.single = 1.0F;
    zero_.single = 0.0F;
  }
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlan::candidates(int most) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(library_.cublasLtMatmulPreferenceCreate(&made), "describe a preference");
  const LtObject<cublasLtMatmulPreference_t> preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(library_.cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value), "describe a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(which, alignment_bytes_);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status = library_.cublasLtMatmulAlgoGetHeuristic(
      handle_, operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(), made, most, results.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "propose algorithms for a matmul");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool MatmulPlan::accepts(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = library_.cublasLtMatmulAlgoCheck(handle_, operation_.get(), a_.get(), b_.get(),
                                                                 c_.get(), c_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes_;
}

}  // namespace ridgepoint::cuda
