// NVIDIA's run-time compiler, loaded at first use so that the program also runs without it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/cuda/libraries/shared_library.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cuda {

// The part of NVRTC's interface that the engine calls, as driver_api.h has the driver's: names and values of nvrtc.h
// since CUDA 12.4.

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names

using nvrtcProgram = struct _nvrtcProgram*;

enum nvrtcResult : int { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };

// Every function: its result, its name and its parameters.
// clang-format off
#define RIDGEPOINT_NVRTC_FUNCTIONS(F) \
  F(nvrtcResult, nvrtcVersion, int* major, int* minor) \
  F(const char*, nvrtcGetErrorString, nvrtcResult result) \
  F(nvrtcResult, nvrtcGetNumSupportedArchs, int* count) \
  F(nvrtcResult, nvrtcGetSupportedArchs, int* architectures) \
  F(nvrtcResult, nvrtcCreateProgram, nvrtcProgram* program, const char* source, const char* name, int header_count, \
    const char* const* headers, const char* const* header_names) \
  F(nvrtcResult, nvrtcDestroyProgram, nvrtcProgram* program) \
  F(nvrtcResult, nvrtcCompileProgram, nvrtcProgram program, int option_count, const char* const* options) \
  F(nvrtcResult, nvrtcGetProgramLogSize, nvrtcProgram program, std::size_t* bytes) \
  F(nvrtcResult, nvrtcGetProgramLog, nvrtcProgram program, char* log) \
  F(nvrtcResult, nvrtcGetCUBINSize, nvrtcProgram program, std::size_t* bytes) \
  F(nvrtcResult, nvrtcGetCUBIN, nvrtcProgram program, char* image) \
  F(nvrtcResult, nvrtcGetPTXSize, nvrtcProgram program, std::size_t* bytes) \
  F(nvrtcResult, nvrtcGetPTX, nvrtcProgram program, char* image)
// clang-format on

// NOLINTEND(readability-identifier-naming)

// The compiler refused a source. The message has its log.
class RefusedSource : public Error {
 public:
  using Error::Error;
};

struct CompiledImage {
  std::string bytes;  // a cubin; PTX for a GPU newer than the compiler
  std::string log;
};

class Nvrtc {
 public:
  // Throws Error (unsupported) if the library is missing or too old.
  Nvrtc();

  const std::string& version() const { return version_; }  // "13.0"

  // The options that compile() passes. `architecture` is the compute capability, 10 * major + minor. Throws Error
  // (unsupported) if the compiler no longer supports such an old GPU.
  std::vector<std::string> options(int architecture, const std::vector<std::string>& more = {}) const;

  // Thread-safe. Throws RefusedSource if the source does not compile, and Error as options() does.
  CompiledImage compile(const std::string& source, const std::string& source_name, int architecture,
                        const std::vector<std::string>& more = {}) const;

 private:
  struct Functions {
#define RIDGEPOINT_NVRTC_MEMBER(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
    RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_MEMBER)
#undef RIDGEPOINT_NVRTC_MEMBER
  };
  std::string architecture_option(int architecture) const;

  SharedLibrary library_;
  Functions call_;
  std::string version_;
  std::vector<int> architectures_;  // for which it makes machine code
};

// The compiler of this process. Throws Error (unsupported) as the constructor does.
const Nvrtc& nvrtc();

}  // namespace ridgepoint::cuda
