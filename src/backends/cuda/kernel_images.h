// The device code compiled from kernels/*.cu and kernels/hopper/*.cu, as the build embedded it (cmake/cuda.cmake): one
// fat binary a file, with machine code for sm_80 and sm_90a and PTX for cards that come after, or for sm_90a alone.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ridgepoint::cuda {

struct KernelImage {
  std::string_view name;  // the file's, without .cu
  const void* data;
};

std::span<const KernelImage> kernel_images();

}  // namespace ridgepoint::cuda
