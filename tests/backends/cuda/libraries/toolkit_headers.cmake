# The comparison of the engine's declarations with those of a toolkit, where its headers are: no other file includes them.
set(comparison ${CMAKE_CURRENT_SOURCE_DIR}/backends/cuda/libraries/toolkit_headers.cpp)
if(RIDGEPOINT_HAS_CUDA AND RIDGEPOINT_CUDA_INCLUDE_DIR AND RIDGEPOINT_CUPTI_INCLUDE_DIR)
  target_sources(backends_cuda_test PRIVATE ${comparison})
  set_property(SOURCE ${comparison} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${comparison} PROPERTY COMPILE_DEFINITIONS
    RIDGEPOINT_CUBLASLT_HEADER="${RIDGEPOINT_CUDA_INCLUDE_DIR}/cublasLt.h")
  set_property(SOURCE ${comparison} PROPERTY COMPILE_OPTIONS
    -isystem${RIDGEPOINT_CUDA_INCLUDE_DIR} -isystem${RIDGEPOINT_CUPTI_INCLUDE_DIR})
endif()
