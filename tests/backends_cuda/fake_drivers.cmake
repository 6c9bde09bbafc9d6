# Drivers that fail in one way each, for driver_test.cpp.
function(add_fake_driver name version start complete)
  string(TOLOWER fake_${name}_driver library)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/backends_cuda/fake_driver.cpp)
  target_compile_definitions(${library} PRIVATE FAKE_VERSION=${version} FAKE_START=${start} FAKE_COMPLETE=${complete})
  target_compile_definitions(backends_cuda_test PRIVATE RIDGEPOINT_FAKE_${name}_DRIVER="$<TARGET_FILE:${library}>")
  add_dependencies(backends_cuda_test ${library})
endfunction()

add_fake_driver(OLD 12040 0 0)
add_fake_driver(INCOMPLETE 13000 0 0)
add_fake_driver(CARDLESS 13000 100 1)
add_fake_driver(BROKEN 13000 999 1)
