// An NVTX tool (NVTX_INJECTION64_PATH names it): it writes every pushed range as a line of the file FAKE_NVTX_LOG,
// indented by its depth, and the number of open ranges as the last line.
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>

#include "backends/cuda/profiling/nvtx.h"

namespace ridgepoint::cuda {
namespace {

class Log {
 public:
  Log() : file_(std::fopen(std::getenv("FAKE_NVTX_LOG"), "w")) {}
  ~Log() {
    std::fprintf(file_, "left open: %d\n", depth_);
    std::fclose(file_);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  int push(const char* text) {
    std::fprintf(file_, "%*s%s\n", 2 * depth_, "", text);
    return depth_++;
  }
  int pop() { return --depth_; }

 private:
  std::FILE* file_;
  int depth_ = 0;
};

Log& log() {
  static Log one;
  return one;
}

nvtxDomainHandle_t create_domain(const char*) {
  log();
  static char object;
  return reinterpret_cast<nvtxDomainHandle_t>(&object);
}
// The handle is the text itself.
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  static std::list<std::string> texts;
  return reinterpret_cast<nvtxStringHandle_t>(texts.emplace_back(text).data());
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  if (attributes->messageType != NVTX_MESSAGE_TYPE_REGISTERED) return -1;
  return log().push(reinterpret_cast<const char*>(attributes->message.registered));
}
int pop(nvtxDomainHandle_t) { return log().pop(); }

template <typename Function>
void set(NvtxFunctionTable table, int which, Function function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

}  // namespace ridgepoint::cuda
