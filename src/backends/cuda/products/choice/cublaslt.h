// cuBLASLt (libcublasLt.so) as a table of functions, loaded at run time like the driver, and owners of its objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {

// The part of cuBLASLt's interface that the engine calls, as driver_api.h has the driver's: names, values and layouts
// of cublasLt.h since CUDA 12.4.

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cudaDataType_t : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
  CUDA_R_8F_E4M3 = 28,
  CUDA_R_8F_E5M2 = 29,
};
enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
  CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
  CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31,
  CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 32,
};
// Of CUDA 12.9.
enum cublasLtMatmulMatrixScale_t : int { CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F = 3 };
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
};
enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};
enum cublasLtMatmulAlgoCapAttributes_t : int { CUBLASLT_ALGO_CAP_TILE_IDS = 6 };
enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_ID = 0,
  CUBLASLT_ALGO_CONFIG_TILE_ID = 1,
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,
  CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,
};
enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// Every function: its result, its name and its parameters.
// clang-format off
#define RIDGEPOINT_CUBLASLT_FUNCTIONS(F) \
  F(cublasStatus_t, cublasLtCreate, cublasLtHandle_t* handle) \
  F(std::size_t, cublasLtGetVersion) \
  F(const char*, cublasLtGetStatusString, cublasStatus_t status) \
  F(cublasStatus_t, cublasLtMatmul, cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, \
    const void* a, cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b, const void* beta, \
    const void* c, cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d, \
    const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes, CUstream stream) \
  F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t handle, cublasLtMatmulDesc_t product, \
    cublasLtMatrixLayout_t layout_a, cublasLtMatrixLayout_t layout_b, cublasLtMatrixLayout_t layout_c, \
    cublasLtMatrixLayout_t layout_d, cublasLtMatmulPreference_t preference, int most, \
    cublasLtMatmulHeuristicResult_t* results, int* count) \
  F(cublasStatus_t, cublasLtMatmulAlgoCheck, cublasLtHandle_t handle, cublasLtMatmulDesc_t product, \
    cublasLtMatrixLayout_t layout_a, cublasLtMatrixLayout_t layout_b, cublasLtMatrixLayout_t layout_c, \
    cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) \
  F(cublasStatus_t, cublasLtMatmulAlgoCapGetAttribute, const cublasLtMatmulAlgo_t* algorithm, \
    cublasLtMatmulAlgoCapAttributes_t which, void* value, std::size_t bytes, std::size_t* written) \
  F(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute, const cublasLtMatmulAlgo_t* algorithm, \
    cublasLtMatmulAlgoConfigAttributes_t which, void* value, std::size_t bytes, std::size_t* written) \
  F(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute, cublasLtMatmulAlgo_t* algorithm, \
    cublasLtMatmulAlgoConfigAttributes_t which, const void* value, std::size_t bytes) \
  F(cublasStatus_t, cublasLtMatmulDescCreate, cublasLtMatmulDesc_t* made, cublasComputeType_t compute, \
    cudaDataType_t scale) \
  F(cublasStatus_t, cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t object) \
  F(cublasStatus_t, cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t object, \
    cublasLtMatmulDescAttributes_t which, const void* value, std::size_t bytes) \
  F(cublasStatus_t, cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t* made, cudaDataType_t type, \
    std::uint64_t rows, std::uint64_t columns, std::int64_t leading) \
  F(cublasStatus_t, cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t object) \
  F(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t object, \
    cublasLtMatrixLayoutAttribute_t which, const void* value, std::size_t bytes) \
  F(cublasStatus_t, cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t* made) \
  F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t object) \
  F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t object, \
    cublasLtMatmulPreferenceAttributes_t which, const void* value, std::size_t bytes)
// clang-format on

// NOLINTEND(readability-identifier-naming)
struct CublasLt {
#define RIDGEPOINT_CUBLASLT_MEMBER(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
  RIDGEPOINT_CUBLASLT_FUNCTIONS(RIDGEPOINT_CUBLASLT_MEMBER)
#undef RIDGEPOINT_CUBLASLT_MEMBER
};

// Throws Error (unsupported) with the places that were searched if the library is missing.
const CublasLt& cublaslt();
// The library's handle for a GPU, made at first use and kept like the context.
cublasLtHandle_t cublaslt_handle(CudaContext& context);

// Throws Error with the library's text for the status; `doing` completes "cuBLASLt could not ...".
[[noreturn]] void throw_cublaslt_error(cublasStatus_t status, std::string_view doing);
inline void check(cublasStatus_t status, std::string_view doing) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw_cublaslt_error(status, doing);
}

struct LtDestroyer {
  void operator()(cublasLtMatmulDesc_t object) const { cublaslt().cublasLtMatmulDescDestroy(object); }
  void operator()(cublasLtMatrixLayout_t object) const { cublaslt().cublasLtMatrixLayoutDestroy(object); }
  void operator()(cublasLtMatmulPreference_t object) const { cublaslt().cublasLtMatmulPreferenceDestroy(object); }
};
template <typename Handle>
using LtObject = std::unique_ptr<std::remove_pointer_t<Handle>, LtDestroyer>;

}  // namespace ridgepoint::cuda
