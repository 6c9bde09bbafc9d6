# Two libraries in the place of NVML: one with all functions, one without those of power and throttling.
function(add_fake_nvml variable)
  string(TOLOWER ${variable} library)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/run/machine/fake_nvml.cpp)
  target_compile_definitions(${library} PRIVATE ${ARGN})
  target_link_libraries(${library} PRIVATE ridgepoint_build_flags)
  target_compile_definitions(run_test PRIVATE RIDGEPOINT_${variable}="$<TARGET_FILE:${library}>")
  add_dependencies(run_test ${library})
endfunction()

add_fake_nvml(FAKE_NVML)
add_fake_nvml(FAKE_OLD_NVML FAKE_WITHOUT_POWER)
