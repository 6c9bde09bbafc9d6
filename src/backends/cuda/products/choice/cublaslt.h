// cuBLASLt (libcublasLt.so) as a table of functions, loaded at run time like the driver, and owners of its objects.
#pragma once

#include <memory>
#include <string_view>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/products/choice/cublaslt_api.h"

namespace ridgepoint::cuda {

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
