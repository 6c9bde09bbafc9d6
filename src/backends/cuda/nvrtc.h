// The run-time compiler (libnvrtc) as a table of entry points, found at run time like the driver.
#pragma once

#include <nvrtc.h>

#include <string>
#include <string_view>

namespace ridgepoint::cuda {

#define RIDGEPOINT_NVRTC_FUNCTIONS(F)                                                               \
  F(nvrtcGetErrorString) F(nvrtcVersion) F(nvrtcCreateProgram) F(nvrtcDestroyProgram)               \
  F(nvrtcCompileProgram) F(nvrtcGetCUBINSize) F(nvrtcGetCUBIN) F(nvrtcGetPTXSize) F(nvrtcGetPTX)    \
  F(nvrtcGetProgramLogSize) F(nvrtcGetProgramLog) F(nvrtcGetNumSupportedArchs) F(nvrtcGetSupportedArchs)

struct Nvrtc {
#define RIDGEPOINT_NVRTC_MEMBER(name) decltype(&::name) name = nullptr;
  RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_MEMBER)
#undef RIDGEPOINT_NVRTC_MEMBER
};

// Throws Error (unsupported) when the library is not there; says where it was looked for.
const Nvrtc& nvrtc();
// Its version as "13.0": part of the key of anything compiled with it.
std::string nvrtc_version();
// Throws Error with the library's own words; `doing` continues "NVRTC could not".
void check(nvrtcResult result, std::string_view doing);

}  // namespace ridgepoint::cuda
