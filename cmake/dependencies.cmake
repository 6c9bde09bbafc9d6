# All dependencies are packages of Debian 12 (`dev` has their names).
find_package(hwy REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(MPI COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  message(STATUS "MPI is not found: this build runs one rank only. Debian's package is libopenmpi-dev.")
endif()

# The Python module. Debian's modules are for its own Python, which may not be the first in PATH. Python itself is not
# built for sanitizers and fuzzers.
option(RIDGEPOINT_PYTHON "Build the Python module, where Python's headers and pybind11 are found" ON)
set(RIDGEPOINT_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Where `cmake --install` puts the Python module")
set(has_python OFF)
if(RIDGEPOINT_PYTHON AND NOT RIDGEPOINT_SANITIZE AND NOT RIDGEPOINT_FUZZERS)
  if(NOT DEFINED Python_EXECUTABLE AND EXISTS /usr/bin/python3)
    set(Python_EXECUTABLE /usr/bin/python3)
  endif()
  find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
  find_package(pybind11 2.10 QUIET CONFIG)
  if(Python_FOUND AND pybind11_FOUND)
    set(has_python ON)
  else()
    message(STATUS "Python's headers or pybind11 are not found: this build has no Python module. Debian's packages are "
      "python3-dev and pybind11-dev.")
  endif()
endif()

# The module is a shared library of the same objects as the program. Hidden, their calls are as direct as there.
function(ridgepoint_share_with_module target)
  if(has_python)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()

# oneDNN is linked by name: its CMake package would ask for OpenCL, which nothing here uses.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
# The regular expressions and the Unicode tables of tokenizers; neither has a CMake package in Debian 12.
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
mark_as_advanced(DNNL_LIBRARY DNNL_INCLUDE_DIR PCRE2_LIBRARY PCRE2_INCLUDE_DIR UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR)
