// The part of NVRTC's interface that the engine calls, as driver_api.h has the driver's: names and values of nvrtc.h
// since CUDA 12.4.
#pragma once

#include <cstddef>

namespace ridgepoint::cuda {
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
}  // namespace ridgepoint::cuda
