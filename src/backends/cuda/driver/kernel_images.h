// The device code compiled from kernels/<op>/*.cu, as the build embedded it (cmake/cuda.cmake): one fat binary a file,
// with machine code for sm_80 and sm_90a and PTX for cards that come after; <name>_wgmma.cu is compiled for sm_90a
// alone.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ridgepoint::cuda {

struct KernelImage {
  std::string_view path;  // of its file in kernels/, without .cu: "rope/rope"
  const void* data;
};

std::span<const KernelImage> kernel_images();

}  // namespace ridgepoint::cuda
