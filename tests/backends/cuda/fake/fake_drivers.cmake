# Drivers that fail in one way each, for driver_test.cpp.
function(add_fake_driver name version start complete)
  string(TOLOWER fake_${name}_driver library)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/backends/cuda/fake/fake_driver.cpp)
  target_compile_definitions(${library} PRIVATE FAKE_VERSION=${version} FAKE_START=${start} FAKE_COMPLETE=${complete})
  add_dependencies(backends_cuda_test ${library})
endfunction()

# The first is older than every build takes, the others are as new as any needs.
add_fake_driver(OLD 12020 0 0)
add_fake_driver(INCOMPLETE 13000 0 0)
add_fake_driver(CARDLESS 13000 100 1)
add_fake_driver(BROKEN 13000 999 1)

# Libraries are named for the toolkit of this build; a build without one searches the newest that it knows first.
set(library_version 13)
if(RIDGEPOINT_HAS_CUDA)
  string(REGEX MATCH "^[0-9]+" library_version ${RIDGEPOINT_CUDA_VERSION})
endif()

# A fake GPU with its cuBLASLt, CUPTI and NCCL, and an NVTX tool, in a folder of their own.
function(add_fake_library target name version)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/backends/cuda/fake/ OUTPUT_VARIABLE sources)
  add_library(${target} MODULE ${sources})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX .so.${version}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_card)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE ridgepoint_build_flags ${CMAKE_DL_LIBS})
  add_dependencies(backends_cuda_test ${target})
endfunction()

add_fake_library(fake_card libcuda 1 fake_card.cpp fake_memory.cpp fake_work.cpp)
add_fake_library(fake_cublaslt libcublasLt ${library_version} fake_cublaslt.cpp)
add_fake_library(fake_cupti libcupti ${library_version} fake_cupti.cpp)
add_fake_library(fake_nvtx libfake_nvtx 1 fake_nvtx.cpp)
add_fake_library(fake_nccl libnccl 2 fake_nccl.cpp)
# Apart, because most tests compile with the real one.
add_fake_library(fake_nvrtc libnvrtc ${library_version} fake_nvrtc.cpp)
set_target_properties(fake_nvrtc PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_nvrtc)
