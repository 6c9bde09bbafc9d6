// A fake NVRTC that compiles nothing: its code is a text that the fake GPU accepts. Environment variables:
// FAKE_NVRTC_REFUSES: sources with this text do not compile; FAKE_NVRTC_MINOR: its version is 13.<this>.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include "backends/cuda/libraries/nvrtc.h"

namespace ridgepoint::cuda {
namespace {

std::atomic<int> compilations{0};

struct Program {
  std::string source;
  std::string image;
  std::string log;
};

Program& of(nvrtcProgram handle) { return *reinterpret_cast<Program*>(handle); }

nvrtcResult give(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult give_size(const std::string& text, std::size_t* bytes) {
  *bytes = text.size() + 1;
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

// The number of sources that were compiled.
int fake_nvrtc_compilations() { return compilations; }

nvrtcResult nvrtcVersion(int* major, int* minor) {
  const char* text = std::getenv("FAKE_NVRTC_MINOR");
  *major = 13;
  *minor = text == nullptr ? 0 : std::atoi(text);
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult) { return "the compiler's own words"; }
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  *program = reinterpret_cast<nvrtcProgram>(new Program{source, "", ""});
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete &of(*program);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  const char* refused = std::getenv("FAKE_NVRTC_REFUSES");
  if (refused != nullptr && of(program).source.find(refused) != std::string::npos) {
    of(program).log = "line 1: a reason\nline 2: another";
    return NVRTC_ERROR_COMPILATION;
  }
  ++compilations;
  of(program).image = "// for " + std::string(count > 0 ? options[0] : "") + ": " + of(program).source;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes) {
  return give_size(of(program).log, bytes);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return give(of(program).log, log); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes) { return give_size(of(program).image, bytes); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* image) { return give(of(program).image, image); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* bytes) { return give_size(of(program).image, bytes); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* image) { return give(of(program).image, image); }

}  // extern "C"

// It has every function, as the engine calls it.
#define CHECK_FUNCTION(result, name, ...) static_assert(std::is_same_v<decltype(name), result(__VA_ARGS__)>);
RIDGEPOINT_NVRTC_FUNCTIONS(CHECK_FUNCTION)

}  // namespace ridgepoint::cuda
