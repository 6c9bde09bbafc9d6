# Two libraries in the place of NVML: one with all functions, one without those of power and throttling.
function(add_fake_nvml library)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/run/machine/fake_nvml.cpp)
  target_compile_definitions(${library} PRIVATE ${ARGN})
  target_link_libraries(${library} PRIVATE ridgepoint_build_flags)
  add_dependencies(run_test ${library})
endfunction()

add_fake_nvml(fake_nvml)
add_fake_nvml(fake_old_nvml FAKE_WITHOUT_POWER)
