#include "backends/cuda/libraries/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/text/throw_error.h"

namespace ridgepoint::cuda {

Nvrtc::Nvrtc() : library_(toolkit_library("nvrtc")) {
  if (!library_.is_open())
    throw_error(ErrorKind::unsupported,
                "NVIDIA's run-time compiler is missing ({}); install the CUDA {} toolkit's NVRTC, or set "
                "CUDA_HOME to the toolkit's folder",
                library_.reason(), toolkit_major());
#define RIDGEPOINT_NVRTC_FIND(result, name, ...) library_.load(call_.name, #name, "; install a newer CUDA toolkit");
  RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_FIND)
#undef RIDGEPOINT_NVRTC_FIND
  int major = 0;
  int minor = 0;
  int count = 0;
  const bool answers = call_.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS &&
                       call_.nvrtcGetNumSupportedArchs(&count) == NVRTC_SUCCESS && count > 0;
  if (answers) architectures_.resize(static_cast<std::size_t>(count));
  if (!answers || call_.nvrtcGetSupportedArchs(architectures_.data()) != NVRTC_SUCCESS) {
    throw Error("NVIDIA's run-time compiler does not report its architectures; reinstall the CUDA toolkit's NVRTC",
                ErrorKind::unsupported);
  }
  version_ = fmt::format("{}.{}", major, minor);
}

const Nvrtc& nvrtc() {
  static const Nvrtc compiler;
  return compiler;
}

// Machine code if the compiler supports this GPU; otherwise PTX of an older architecture for the driver to compile.
std::string Nvrtc::architecture_option(int architecture) const {
  if (std::find(architectures_.begin(), architectures_.end(), architecture) != architectures_.end())
    return fmt::format("--gpu-architecture=sm_{}{}", architecture, architecture == 90 ? "a" : "");
  int newest = 0;
  for (const int known : architectures_) {
    if (known < architecture) newest = std::max(newest, known);
  }
  if (newest == 0)
    throw_error(ErrorKind::unsupported,
                "NVRTC {} does not support compute capability {}.{}; the oldest that it supports is {}.{}", version_,
                architecture / 10, architecture % 10, architectures_.front() / 10, architectures_.front() % 10);
  return fmt::format("--gpu-architecture=compute_{}", newest);
}

std::vector<std::string> Nvrtc::options(int architecture, const std::vector<std::string>& more) const {
  std::vector<std::string> all = {architecture_option(architecture), "--std=c++17"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

CompiledImage Nvrtc::compile(const std::string& source, const std::string& source_name, int architecture,
                             const std::vector<std::string>& more) const {
  const std::vector<std::string> all = options(architecture, more);
  std::vector<const char*> arguments;
  for (const std::string& option : all) arguments.push_back(option.c_str());

  const auto check = [&](nvrtcResult result, std::string_view what) {
    if (result == NVRTC_SUCCESS) return;
    throw_error("NVRTC could not {} kernel '{}': {}", what, source_name, call_.nvrtcGetErrorString(result));
  };
  nvrtcProgram program = nullptr;
  check(call_.nvrtcCreateProgram(&program, source.c_str(), source_name.c_str(), 0, nullptr, nullptr), "read");
  const auto destroy = [&](nvrtcProgram* made) { call_.nvrtcDestroyProgram(made); };
  const std::unique_ptr<nvrtcProgram, decltype(destroy)> owner(&program, destroy);

  const nvrtcResult result = call_.nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
  CompiledImage image;
  std::size_t size = 0;
  if (call_.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
    image.log.resize(size);
    call_.nvrtcGetProgramLog(program, image.log.data());
    image.log.resize(size - 1);
  }
  if (result != NVRTC_SUCCESS) {
    throw RefusedSource(fmt::format("NVRTC could not compile kernel '{}': {}\n{}", source_name,
                                    call_.nvrtcGetErrorString(result), image.log));
  }
  const bool machine_code = all.front().find("sm_") != std::string::npos;
  check((machine_code ? call_.nvrtcGetCUBINSize : call_.nvrtcGetPTXSize)(program, &size), "read the code size of");
  image.bytes.resize(size);
  check((machine_code ? call_.nvrtcGetCUBIN : call_.nvrtcGetPTX)(program, image.bytes.data()), "read the code of");
  return image;
}

}  // namespace ridgepoint::cuda
