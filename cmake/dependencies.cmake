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

# oneDNN is linked by name: its CMake package would ask for OpenCL, which nothing here uses.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
# The regular expressions and the Unicode tables of tokenizers; neither has a CMake package in Debian 12.
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
mark_as_advanced(DNNL_LIBRARY DNNL_INCLUDE_DIR PCRE2_LIBRARY PCRE2_INCLUDE_DIR UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR)
