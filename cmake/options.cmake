# Build options, the language standard and the flags that all targets of the project share.
option(RIDGEPOINT_TESTS "Build the test suite" ON)
option(RIDGEPOINT_BENCHMARKS "Build the micro-benchmarks" OFF)
option(RIDGEPOINT_FUZZERS "Build the libFuzzer programs (needs clang++)" OFF)
set(RIDGEPOINT_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

option(RIDGEPOINT_UNITY "Compile up to 8 files of a folder as one, for builds that are made once: headers are parsed once" OFF)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/with_ccache.sh ${CCACHE})
endif()

add_library(ridgepoint_build_flags INTERFACE)
target_compile_options(ridgepoint_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 warns falsely of std::string operator+ (its bug 105651)

# Precompiled headers: parsing these headers for every file would take much of the build time. A file still includes
# what it uses, because clang-tidy and the fuzzers compile it without them.
set(ridgepoint_precompiled_headers <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional>
  <span> <string> <string_view> <utility> <vector> <fmt/format.h>)
target_compile_options(ridgepoint_build_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
# Collects garbage from 300 MB on, instead of 128 MB: an eighth less time for what a compilation of a few files needs.
target_compile_options(ridgepoint_build_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=300000>)
# Files are named from the root of the source, whichever checkout first compiled what ccache keeps. It gives the compiler
# paths from the build folder.
file(RELATIVE_PATH to_root ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
target_compile_options(ridgepoint_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=;-fmacro-prefix-map=${to_root}=>)

# For code whose run time does not matter: parsing options, printing, tests. It compiles in half of the time.
add_library(ridgepoint_quick_to_compile INTERFACE)
if(RIDGEPOINT_SANITIZE)
  target_compile_options(ridgepoint_quick_to_compile INTERFACE -O0)
else()
  target_compile_options(ridgepoint_quick_to_compile INTERFACE $<$<CONFIG:Release>:-Og>)
endif()

if(RIDGEPOINT_SANITIZE)
  # With sanitizers GCC warns of variables within its own headers of intrinsics.
  add_compile_options(-fsanitize=${RIDGEPOINT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${RIDGEPOINT_SANITIZE})
endif()

# ridgepoint_compile_together(TARGET SOURCE...): with RIDGEPOINT_UNITY, files of a folder are one compilation, so a local
# name means one thing in a folder. CMake leaves those files apart that have compile options or definitions of their own.
function(ridgepoint_compile_together target)
  if(NOT RIDGEPOINT_UNITY)
    return()
  endif()
  set(most 8)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${name} name)
    list(APPEND files_of_${name} ${source})
    list(LENGTH files_of_${name} count)
    math(EXPR part "(${count} - 1) / ${most}")
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${name}_${part})
  endforeach()
endfunction()

# ridgepoint_add_part(TARGET PART SOURCE...): sources of a library that are compiled with flags of their own.
function(ridgepoint_add_part target part)
  add_library(${part} OBJECT ${ARGN})
  ridgepoint_share_with_module(${part})
  target_include_directories(${part} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${part} PRIVATE fmt::fmt hwy::hwy OpenMP::OpenMP_CXX ZLIB::ZLIB nlohmann_json::nlohmann_json ridgepoint_build_flags)
  target_precompile_headers(${part} PRIVATE ${ridgepoint_precompiled_headers})
  ridgepoint_compile_together(${part} ${ARGN})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${part}>)
endfunction()
