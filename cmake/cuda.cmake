# The CUDA back end, where there is a toolkit to build it with. Nothing of CUDA is linked: headers are used, kernels
# become fat binaries inside the program, and libraries are opened when they are needed (docs/decisions/0006).
#   include(cuda), then ridgepoint_add_cuda(<target>)
set(RIDGEPOINT_CUDA AUTO CACHE STRING "Build the CUDA back end: ON, OFF, or AUTO for where a CUDA 13 toolkit is found")
set_property(CACHE RIDGEPOINT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(RIDGEPOINT_HAS_CUDA OFF)

if(RIDGEPOINT_CUDA)
  find_program(RIDGEPOINT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
  mark_as_advanced(RIDGEPOINT_NVCC)
  if(RIDGEPOINT_NVCC)
    execute_process(COMMAND ${RIDGEPOINT_NVCC} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" nvcc_text "${nvcc_text}")
    set(nvcc_version "${CMAKE_MATCH_1}")
    get_filename_component(nvcc_folder ${RIDGEPOINT_NVCC} REALPATH)
    get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
    find_path(RIDGEPOINT_CUDA_INCLUDE_DIR cublasLt.h HINTS ${nvcc_folder}/../include ${nvcc_folder}/../targets/x86_64-linux/include
      NO_DEFAULT_PATH)
    find_path(RIDGEPOINT_CUPTI_INCLUDE_DIR cupti.h HINTS ${RIDGEPOINT_CUDA_INCLUDE_DIR} ${nvcc_folder}/../extras/CUPTI/include
      NO_DEFAULT_PATH)
    mark_as_advanced(RIDGEPOINT_CUDA_INCLUDE_DIR RIDGEPOINT_CUPTI_INCLUDE_DIR)
  endif()
  if(RIDGEPOINT_NVCC AND RIDGEPOINT_CUDA_INCLUDE_DIR AND RIDGEPOINT_CUPTI_INCLUDE_DIR
     AND nvcc_version VERSION_GREATER_EQUAL 13.0)
    set(RIDGEPOINT_HAS_CUDA ON)
    message(STATUS "CUDA back end: toolkit ${nvcc_version} (${RIDGEPOINT_NVCC})")
  elseif(RIDGEPOINT_CUDA STREQUAL AUTO)
    message(STATUS "CUDA back end: left out, no CUDA 13 toolkit with cuBLASLt and CUPTI was found")
  else()
    message(FATAL_ERROR "RIDGEPOINT_CUDA is ON and no CUDA 13 toolkit with cuBLASLt and CUPTI was found; set CUDA_HOME to one")
  endif()
endif()

# One fat binary: machine code for Ampere and Ada, for Hopper with its own instructions, and PTX for what comes after;
# for Hopper alone where the kernel is written in those instructions.
function(ridgepoint_compile_kernel source fatbin)
  set(targets -gencode arch=compute_90a,code=sm_90a)
  if(NOT source MATCHES "/kernels/hopper/")
    list(APPEND targets -gencode arch=compute_80,code=[sm_80,compute_80])
  endif()
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${RIDGEPOINT_NVCC} -fatbin -std=c++20 -O3 --expt-relaxed-constexpr -lineinfo -Wno-deprecated-gpu-targets
      -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_SOURCE_DIR}/src
      ${targets} -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${source}
    DEPENDS ${source} DEPFILE ${fatbin}.d VERBATIM
    COMMENT "Compiling kernels of ${source}")
endfunction()

# Adds the kernels of src/backends/cuda to a target, and the file that holds them: its assembly includes the bytes.
function(ridgepoint_add_cuda target)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backends/cuda/kernels/*.cu
    ${CMAKE_SOURCE_DIR}/src/backends/cuda/kernels/hopper/*.cu)
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
  target_include_directories(${target} SYSTEM PRIVATE ${RIDGEPOINT_CUDA_INCLUDE_DIR} ${RIDGEPOINT_CUPTI_INCLUDE_DIR})
  target_compile_definitions(${target} PRIVATE RIDGEPOINT_HAS_CUDA)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
