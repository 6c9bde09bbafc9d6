// A fake cuBLASLt for the GPU of fake_card.cpp: accepts every description, offers three algorithms, computes nothing.
// Like the library it refuses attributes of the wrong size, matrices whose columns overlap, and a missing workspace.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/products/choice/cublaslt.h"

namespace ridgepoint::cuda {
namespace {

template <typename Handle>
cublasStatus_t make(Handle* handle) {
  *handle = static_cast<Handle>(std::malloc(1));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t drop(void* handle) {
  std::free(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t expect(bool condition) { return condition ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

// The fake driver is already open under this name.
void run_on_card(const char* kernel) {
  static const auto run = fake_function<decltype(fake_card_run)>("fake_card_run");
  if (run != nullptr) run(kernel);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static char object;
  *handle = reinterpret_cast<cublasLtHandle_t>(&object);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "the library's own words"; }

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace,
                              std::size_t workspace_bytes, CUstream) {
  if (workspace_bytes > 0 && workspace == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  run_on_card("_ZN7cutlass6KernelINS_4GemmILi128EEEEEvNS_6ParamsE");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = std::min(most, 3);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].algo.data[0] = static_cast<std::uint64_t>(i) + 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoCapAttributes_t, void*,
                                                 std::size_t, std::size_t* written) {
  *written = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, std::size_t bytes, std::size_t* written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    const void*, std::size_t bytes) {
  return expect(bytes == 4);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  return make(made);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t object) { return drop(object); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t which, const void*,
                                              std::size_t bytes) {
  const bool is_pointer =
      which == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER || which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER;
  if (which == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return expect(bytes == 1);
  return expect(bytes == (is_pointer ? sizeof(void*) : 4U));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t, std::uint64_t rows,
                                          std::uint64_t, std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return make(made);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object) { return drop(object); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t which,
                                                const void*, std::size_t bytes) {
  return expect(bytes == (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? 4U : 8U));
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) { return make(made); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object) { return drop(object); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void*,
                                                    std::size_t bytes) {
  return expect(bytes == (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8U : 4U));
}

}  // extern "C"

// It has every function, as the engine calls it.
#define CHECK_FUNCTION(result, name, ...) static_assert(std::is_same_v<decltype(name), result(__VA_ARGS__)>);
RIDGEPOINT_CUBLASLT_FUNCTIONS(CHECK_FUNCTION)

}  // namespace ridgepoint::cuda
