# All dependencies are packages of Debian 12 (`dev` has their names).
find_package(hwy REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)

# oneDNN is linked by name: its CMake package would ask for OpenCL, which nothing here uses.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
mark_as_advanced(DNNL_LIBRARY DNNL_INCLUDE_DIR)
