# The kernels of *.cu files compiled for the processor, as one module that the GPU of fake_card.cpp runs: for each kernel
# a function run_<kernel>, which takes every second launch in the other order of warps. Kernels of Hopper's own
# instructions (*_wgmma.cu) are left out.
# With -P: host_kernels.cmake -- PREPROCESSED COMMAND... preprocesses one file, and appends these functions to it.
if(CMAKE_SCRIPT_MODE_FILE)
  set(command "")
  foreach(number RANGE 5 ${CMAKE_ARGC})
    list(APPEND command ${CMAKE_ARGV${number}})
  endforeach()
  execute_process(COMMAND ${command} -P COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${CMAKE_ARGV4} text)
  string(REGEX MATCHALL "\\(used\\)\\) void[ \n]+[a-z0-9_]+" kernels "${text}")
  file(APPEND ${CMAKE_ARGV4} "namespace ridgepoint::cuda {\n")
  foreach(kernel ${kernels})
    string(REGEX REPLACE ".*[ \n]" "" kernel "${kernel}")
    file(APPEND ${CMAKE_ARGV4} "extern \"C\" void run_${kernel}(const emulated::Launch& launch, void** arguments) {\n"
      "  static unsigned launches = 0;\n"
      "  emulated::run(launch, emulated::Order{launches++ % 2 == 1}, [=] { emulated::call(${kernel}, arguments); });\n}\n")
  endforeach()
  file(APPEND ${CMAKE_ARGV4} "}\n")
  return()
endif()

set(host_folder ${CMAKE_CURRENT_SOURCE_DIR}/backends/cuda/host)
set(host_includes -I${host_folder} -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include)
file(GLOB_RECURSE host_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backends/cuda/*.cu)
list(FILTER host_sources EXCLUDE REGEX "_wgmma\\.cu$")
set(host_preprocessed "")
foreach(source ${host_sources})
  get_filename_component(name ${source} NAME_WE)
  set(preprocessed ${CMAKE_CURRENT_BINARY_DIR}/host_kernels/${name}.cpp)
  add_custom_command(OUTPUT ${preprocessed}
    COMMAND ${CMAKE_COMMAND} -P ${host_folder}/host_kernels.cmake -- ${preprocessed}
      ${CMAKE_CXX_COMPILER} -std=c++20 -E -w -x c++ ${host_includes} -include cuda.h
      -MD -MF ${preprocessed}.d -MT ${preprocessed} -o ${preprocessed} ${source}
    DEPENDS ${source} ${host_folder}/host_kernels.cmake DEPFILE ${preprocessed}.d VERBATIM
    COMMENT "Preprocessing ${source} for the processor")
  list(APPEND host_preprocessed ${preprocessed})
endforeach()
add_library(host_kernels MODULE ${host_preprocessed} ${host_folder}/block.cpp ${CMAKE_SOURCE_DIR}/src/core/types/float8.cpp)
# Kernels read elements through pointers to vectors; fibers jump between stacks, which _FORTIFY_SOURCE takes for an error.
set(host_options -w -O2 -fno-strict-aliasing -U_FORTIFY_SOURCE)
target_compile_options(host_kernels PRIVATE ${host_options})
target_include_directories(host_kernels PRIVATE ${host_folder} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
set_target_properties(host_kernels PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
add_dependencies(backends_cuda_test host_kernels)
target_sources(backends_cuda_test PRIVATE ${host_folder}/block.cpp ${host_folder}/block_checks.cpp)
set_source_files_properties(${host_folder}/block.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
  INCLUDE_DIRECTORIES ${host_folder} COMPILE_OPTIONS "${host_options}")
set_source_files_properties(${host_folder}/block_checks.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Tests of suites OnCard... on this card, whose shared memory lets every portable variant run.
function(add_emulated_test name filter)
  add_test(NAME EmulatedCard.${name} COMMAND backends_cuda_test --gtest_filter=${filter})
  set_tests_properties(EmulatedCard.${name} PROPERTIES
    ENVIRONMENT "FAKE_CARD_KERNELS=$<TARGET_FILE:host_kernels>;FAKE_CARD_CAPABILITY=89"
    ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${CMAKE_CURRENT_BINARY_DIR}/fake_card
    FAIL_REGULAR_EXPRESSION "FAILED;SKIPPED;Running 0 tests")
endfunction()
add_emulated_test(ops *OnCardAgreement*)
add_emulated_test(attention_bf16 *OnCardTilings*bf16*)
add_emulated_test(attention_fp16 *OnCardTilings*fp16*)
add_emulated_test(kernels OnCardCrossEntropy.*:OnCardEmbedding.*:OnCardRope.*:OnCardAdamW.*:OnCardSumOfSquares.*:OnCardExperts.sort*:OnCardExperts.*any_size:OnCardFp32Attention.tiles*-*addend*)
