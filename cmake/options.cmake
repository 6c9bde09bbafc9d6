# Build options, the language standard and the flags every target of the project shares.
option(RIDGEPOINT_TESTS "Build the test suite" ON)
option(RIDGEPOINT_BENCHMARKS "Build the micro-benchmarks" ON)
option(RIDGEPOINT_FUZZERS "Build the libFuzzer programs (needs clang++)" OFF)
set(RIDGEPOINT_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(ridgepoint_build_flags INTERFACE)
target_compile_options(ridgepoint_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 warns falsely of std::string operator+ (its bug 105651)
if(RIDGEPOINT_SANITIZE)
  add_compile_options(-fsanitize=${RIDGEPOINT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RIDGEPOINT_SANITIZE})
endif()
