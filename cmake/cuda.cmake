# The kernels of the CUDA back end, if there is a CUDA toolkit. Nothing of CUDA is linked, and its headers are not needed:
# the build embeds kernels as fat binaries, and libraries are loaded when they are needed (docs/decisions/0006, 0035).
# include(cuda), then ridgepoint_add_kernels(<target>)
# Sets RIDGEPOINT_HAS_CUDA, and the toolkit's RIDGEPOINT_CUDA_VERSION ("13.0"). RIDGEPOINT_CUDA_INCLUDE_DIR and
# RIDGEPOINT_CUPTI_INCLUDE_DIR are the toolkit's headers, where it has them: only a test reads them.
set(RIDGEPOINT_CUDA AUTO CACHE STRING "Build the CUDA kernels: ON, OFF, or AUTO for where a CUDA toolkit (12.4 or newer) is found")
set_property(CACHE RIDGEPOINT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(RIDGEPOINT_HAS_CUDA OFF)
set(least_toolkit 12.4)

# NVIDIA's toolkit has its headers next to nvcc's folder; Debian's nvidia-cuda-toolkit has them in /usr/include.
function(ridgepoint_find_toolkit)
  find_program(RIDGEPOINT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
  if(NOT RIDGEPOINT_NVCC)
    return()
  endif()
  execute_process(COMMAND ${RIDGEPOINT_NVCC} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" nvcc_text "${nvcc_text}")
  set(nvcc_version "${CMAKE_MATCH_1}" PARENT_SCOPE)
  get_filename_component(nvcc_folder ${RIDGEPOINT_NVCC} REALPATH)
  get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
  find_path(RIDGEPOINT_CUDA_INCLUDE_DIR cublasLt.h HINTS ${nvcc_folder}/../include ${nvcc_folder}/../targets/x86_64-linux/include
    NO_DEFAULT_PATH)
  find_path(RIDGEPOINT_CUPTI_INCLUDE_DIR cupti.h HINTS ${RIDGEPOINT_CUDA_INCLUDE_DIR} ${nvcc_folder}/../extras/CUPTI/include
    NO_DEFAULT_PATH)
  mark_as_advanced(RIDGEPOINT_NVCC RIDGEPOINT_CUDA_INCLUDE_DIR RIDGEPOINT_CUPTI_INCLUDE_DIR)
endfunction()

# The host compiler of nvcc. Every toolkit refuses a GCC newer than itself (12.4 accepts up to 13); if it refuses the
# project's compiler, the newest GCC that it accepts is used instead, for device code only.
function(ridgepoint_find_nvcc_host_compiler)
  if(RIDGEPOINT_NVCC_HOST_COMPILER)
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_probe)
  file(WRITE ${probe}.cu "#include <cuda_bf16.h>\n#include <cstdint>\n#include <cmath>\n__global__ void probe(float* x) { x[0] = sqrtf(x[0]); }\n")
  file(GLOB others /usr/bin/g++-[0-9]*)
  list(SORT others COMPARE NATURAL ORDER DESCENDING)
  foreach(compiler ${CMAKE_CXX_COMPILER} ${others})
    execute_process(COMMAND ${RIDGEPOINT_NVCC} -fatbin -std=c++20 -arch=sm_80 -ccbin ${compiler} -o ${probe}.fatbin ${probe}.cu
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(RIDGEPOINT_NVCC_HOST_COMPILER ${compiler} CACHE FILEPATH "The C++ compiler that nvcc works with")
      mark_as_advanced(RIDGEPOINT_NVCC_HOST_COMPILER)
      return()
    endif()
  endforeach()
endfunction()

if(RIDGEPOINT_CUDA)
  ridgepoint_find_toolkit()
  set(missing "")
  if(NOT RIDGEPOINT_NVCC)
    set(missing "no CUDA toolkit was found (nvcc is neither in PATH nor in CUDA_HOME)")
  elseif(NOT nvcc_version VERSION_GREATER_EQUAL least_toolkit)
    set(missing "${RIDGEPOINT_NVCC} is of CUDA ${nvcc_version}, and ${least_toolkit} or newer is needed")
  else()
    ridgepoint_find_nvcc_host_compiler()
    if(NOT RIDGEPOINT_NVCC_HOST_COMPILER)
      set(missing "nvcc ${nvcc_version} does not work with ${CMAKE_CXX_COMPILER} (version ${CMAKE_CXX_COMPILER_VERSION}) or any other g++ here; install an older g++ that it takes, or name one in RIDGEPOINT_NVCC_HOST_COMPILER")
    endif()
  endif()
  if(NOT missing)
    set(RIDGEPOINT_HAS_CUDA ON)
    set(RIDGEPOINT_CUDA_VERSION ${nvcc_version})
    message(STATUS "CUDA kernels: toolkit ${nvcc_version} (${RIDGEPOINT_NVCC} with ${RIDGEPOINT_NVCC_HOST_COMPILER})")
  elseif(RIDGEPOINT_CUDA STREQUAL AUTO)
    message(STATUS "CUDA kernels: not built: ${missing}")
  else()
    message(FATAL_ERROR "RIDGEPOINT_CUDA is ON, but ${missing}")
  endif()
endif()

# One fat binary: machine code for Ampere and Ada, for Hopper with its own instructions, and PTX for later GPUs; for
# Hopper only if the kernel uses its instructions (<name>_wgmma.cu), which must not spill registers. A build with sanitizers, which check the host's
# code, has PTX alone: that compiles in a fraction of the time, and the driver compiles it for the GPU.
function(ridgepoint_compile_kernel source fatbin)
  set(hopper_code sm_90a)
  set(ampere_code [sm_80,compute_80])
  if(RIDGEPOINT_SANITIZE)
    set(hopper_code compute_90a)
    set(ampere_code compute_80)
  endif()
  set(targets -gencode arch=compute_90a,code=${hopper_code})
  set(options "")
  if(source MATCHES "_wgmma\\.cu$")
    list(APPEND options -Xptxas -v)
  else()
    list(APPEND targets -gencode arch=compute_80,code=${ampere_code})
  endif()
  if(source MATCHES "/random/")
    set(options -fmad=false)  # the host computes the same values without fused multiply-adds
  endif()
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${CMAKE_COMMAND} -P ${CMAKE_SOURCE_DIR}/cmake/compile_kernel.cmake -- ${RIDGEPOINT_NVCC} -fatbin -std=c++20 -O3 --expt-relaxed-constexpr -lineinfo -Wno-deprecated-gpu-targets ${options}
      -ccbin ${RIDGEPOINT_NVCC_HOST_COMPILER} -I${CMAKE_SOURCE_DIR}/src
      ${targets} -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${source}
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/cmake/compile_kernel.cmake DEPFILE ${fatbin}.d VERBATIM
    COMMENT "Compiling kernels of ${source}")
endfunction()

# Adds the kernels' binaries to a target, in a generated file whose assembly includes them. Without a toolkit its table is
# empty; no other file knows whether there is one, so that builds with and without it share what ccache keeps.
function(ridgepoint_add_kernels target)
  set(sources "")
  set(toolkit_version 0)
  if(RIDGEPOINT_HAS_CUDA)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backends/cuda/*.cu)
    string(REPLACE . ";" parts ${RIDGEPOINT_CUDA_VERSION})
    list(GET parts 0 major)
    list(GET parts 1 minor)
    math(EXPR toolkit_version "${major} * 1000 + ${minor} * 10")
  endif()
  set(wgmma_sources ${sources})
  list(FILTER wgmma_sources INCLUDE REGEX "_wgmma\\.cu$")
  list(REMOVE_ITEM sources ${wgmma_sources})
  list(PREPEND sources ${wgmma_sources})  # take long: not last, when other cores have nothing left to do
  set(folder ${CMAKE_BINARY_DIR}/generated/kernels)
  file(MAKE_DIRECTORY ${folder})
  set(symbols "")
  set(entries "")
  set(binaries "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    ridgepoint_compile_kernel(${source} ${folder}/${name}.fatbin)
    list(APPEND binaries ${folder}/${name}.fatbin)
    string(APPEND symbols "RIDGEPOINT_EMBED(${name}, \"${folder}/${name}.fatbin\")\n")
    string(APPEND entries "  {\"${name}\", ridgepoint_kernels_${name}},\n")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/kernel_images.cpp.in ${folder}/kernel_images.cpp @ONLY)
  set_source_files_properties(${folder}/kernel_images.cpp PROPERTIES OBJECT_DEPENDS "${binaries}")
  target_sources(${target} PRIVATE ${folder}/kernel_images.cpp)
endfunction()
