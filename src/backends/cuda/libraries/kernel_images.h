// The device code of the *.cu files, embedded by the build (cmake/cuda.cmake): one fat binary for each file, with
// machine code for sm_80 and sm_90a and PTX for later GPUs; <name>_wgmma.cu is compiled for sm_90a only. Only this code
// needs a CUDA toolkit: a build without one has no images, and all else of the CUDA back end.
#pragma once

#include <span>
#include <string_view>

namespace ridgepoint::cuda {

struct KernelImage {
  std::string_view name;  // of its file, without .cu: "rope"
  const void* data;
};

std::span<const KernelImage> kernel_images();

// The version of the toolkit that compiled them, as CUDA counts: 1000 * major + 10 * minor. 0 without one.
int toolkit_version();

}  // namespace ridgepoint::cuda
