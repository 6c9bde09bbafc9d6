#include "backends/cuda/products/choice/cublaslt.h"

#include <map>
#include <mutex>
#include <string>

#include "backends/cuda/libraries/shared_library.h"
#include "core/first_call_clock.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

CublasLt load() {
  const std::string file = toolkit_library("cublasLt");
  const SharedLibrary library(file);
  if (!library.is_open())
    throw_error(ErrorKind::unsupported,
                "matmuls on a GPU need {}, which could not be opened ({}); install the CUDA {} "
                "toolkit's cuBLAS, or add its folder to LD_LIBRARY_PATH",
                file, library.reason(), toolkit_major());
  CublasLt table;
#define RIDGEPOINT_CUBLASLT_FIND(result, name, ...) library.load(table.name, #name);
  RIDGEPOINT_CUBLASLT_FUNCTIONS(RIDGEPOINT_CUBLASLT_FIND)
#undef RIDGEPOINT_CUBLASLT_FIND
  return table;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt table = load();
  return table;
}

cublasLtHandle_t cublaslt_handle(CudaContext& context) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[context.card().ordinal];
  if (handle == nullptr) {
    const InStage in_stage(FirstCallStage::libraries);
    const CudaContext::Scope scope(context);
    check(cublaslt().cublasLtCreate(&handle), "start");
  }
  return handle;
}

void throw_cublaslt_error(cublasStatus_t status, std::string_view doing) {
  throw_error("cuBLASLt could not {}: {}", doing, cublaslt().cublasLtGetStatusString(status));
}

}  // namespace ridgepoint::cuda
