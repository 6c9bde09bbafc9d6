// NVIDIA's run-time compiler, opened when it is first needed so that the program also starts without it.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "backends/cuda/driver/shared_library.h"

namespace ridgepoint::cuda {

struct CompiledImage {
  std::string bytes;  // a cubin; PTX for a card newer than the compiler
  std::string log;
};

// clang-format indents such a list of calls further every time.
// clang-format off
#define RIDGEPOINT_NVRTC_FUNCTIONS(F) \
  F(nvrtcVersion) F(nvrtcGetErrorString) F(nvrtcGetNumSupportedArchs) F(nvrtcGetSupportedArchs) \
  F(nvrtcCreateProgram) F(nvrtcDestroyProgram) F(nvrtcCompileProgram) F(nvrtcGetProgramLogSize) \
  F(nvrtcGetProgramLog) F(nvrtcGetCUBINSize) F(nvrtcGetCUBIN) F(nvrtcGetPTXSize) F(nvrtcGetPTX)
// clang-format on

class Nvrtc {
 public:
  // Throws Error (unsupported) when the library is not there or too old.
  Nvrtc();

  const std::string& version() const { return version_; }  // "13.0"

  // What compile() hands to the compiler. `architecture` is the compute capability, 10 * major + minor. Throws Error
  // (unsupported) when the card is older than the compiler knows.
  std::vector<std::string> options(int architecture, const std::vector<std::string>& more = {}) const;

  // Safe from several threads. Throws Error with the compiler's log when the source does not compile, and what
  // options() does.
  CompiledImage compile(const std::string& source, const std::string& source_name, int architecture,
                        const std::vector<std::string>& more = {}) const;

 private:
  struct Functions {
#define RIDGEPOINT_NVRTC_MEMBER(name) decltype(&::name) name = nullptr;
    RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_MEMBER)
#undef RIDGEPOINT_NVRTC_MEMBER
  };
  std::string architecture_option(int architecture) const;

  SharedLibrary library_;
  Functions call_;
  std::string version_;
  std::vector<int> architectures_;  // that it has machine code for
};

// The one of this process. Throws Error (unsupported) as the constructor does.
const Nvrtc& nvrtc();

}  // namespace ridgepoint::cuda
