# The planner as WebAssembly: the sources that `plan` and `memory --card` run, compiled by Emscripten, without threads,
# processes, kernels and the libraries of a GPU. `./dev web planner` makes a page of it (web/src/planner).
# Sizes in bytes are std::size_t everywhere, so the code has pointers of 64 bits; wasm-opt then lowers them to the 32 bits
# that every browser has.

# Debian's configuration of Emscripten builds no system libraries, and its package has none for pointers of 64 bits. They
# are built at the first link, for all build folders of the user: Emscripten builds them again when its configuration
# changes, so that stands beside them. It asks Node for an
# option that has become the rule, and finds Debian's modules only where Node is Debian's too.
set(RIDGEPOINT_EMSCRIPTEN_FOLDER $ENV{HOME}/.cache/ridgepoint/emscripten CACHE PATH "Where Emscripten's libraries are built")
find_program(NODE node REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(CONFIGURE OUTPUT ${RIDGEPOINT_EMSCRIPTEN_FOLDER}/node @ONLY CONTENT
  "#!/bin/sh\n[ \"$1\" != --experimental-wasm-bigint ] || shift\nNODE_PATH=/usr/share/nodejs exec @NODE@ \"$@\"\n")
file(CHMOD ${RIDGEPOINT_EMSCRIPTEN_FOLDER}/node PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
file(READ ${EMSCRIPTEN_ROOT_PATH}/.emscripten debians)
file(CONFIGURE OUTPUT ${RIDGEPOINT_EMSCRIPTEN_FOLDER}/configuration @ONLY CONTENT
  "@debians@\nNODE_JS = '@RIDGEPOINT_EMSCRIPTEN_FOLDER@/node'\nCACHE = '@RIDGEPOINT_EMSCRIPTEN_FOLDER@/cache'\nFROZEN_CACHE = False\n")
set(wasm_options --em-config ${RIDGEPOINT_EMSCRIPTEN_FOLDER}/configuration -sMEMORY64=2 -fwasm-exceptions)

# The header-only libraries of Debian's packages, without the other headers of /usr/include.
foreach(library fmt nlohmann CLI)
  find_path(${library}_folder ${library} PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
  file(CREATE_LINK ${${library}_folder}/${library} ${CMAKE_BINARY_DIR}/headers/${library} SYMBOLIC)
endforeach()

set(folders autodiff backends/cuda backends/null backends/reference cli/descriptions cli/options cli/ranks cli/terminal compile core
  inspect/calculations inspect/memory interchange ir lowering memory models ops passes plan predict record run/machine
  run/session run/timing runtime tables web)
set(files backends/registry cli/application cli/commands/completion cli/commands/memory cli/commands/models
  cli/commands/plan report/timeline_columns)
set(planner_sources "")
foreach(folder ${folders})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${folder}/*.cpp)
  list(APPEND planner_sources ${sources})
endforeach()
# src/web/devices.cpp has the devices. Nothing runs on several ranks, is profiled, or comes from a file of another program.
list(FILTER planner_sources EXCLUDE REGEX
  "/(backends/cuda/(collectives|profiling)|backends/cuda/device.cpp|core/files/byte_stream.cpp|interchange/(trace|tokenizer|tokens|snapshot/reader)|run/session/steps)")
foreach(file ${files})
  list(APPEND planner_sources ${CMAKE_SOURCE_DIR}/src/${file}.cpp)
endforeach()

add_executable(ridgepoint_planner ${planner_sources})
target_compile_features(ridgepoint_planner PRIVATE cxx_std_20)
target_include_directories(ridgepoint_planner PRIVATE include src ${CMAKE_BINARY_DIR}/headers)
target_compile_options(ridgepoint_planner PRIVATE ${wasm_options}
  -include ${CMAKE_SOURCE_DIR}/cmake/wasm_library.h -Wall -Wextra -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_link_options(ridgepoint_planner PRIVATE ${wasm_options} -O2
  -sMODULARIZE -sEXPORT_NAME=createPlanner -sENVIRONMENT=worker -sINITIAL_MEMORY=64MB -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=2GB
  -sTOTAL_STACK=16MB -sEXPORTED_RUNTIME_METHODS=FS -sFORCE_FILESYSTEM -sINVOKE_RUN=0 -sEXIT_RUNTIME=0)
ridgepoint_compile_together(ridgepoint_planner ${planner_sources})
# A definition of memcpy() must not become a call of memcpy().
set_source_files_properties(src/web/memory.cpp PROPERTIES COMPILE_OPTIONS "-O2;-fno-builtin;-mbulk-memory")
ridgepoint_add_build_info(ridgepoint_planner)
ridgepoint_embed(ridgepoint_planner catalogue_files ${CMAKE_SOURCE_DIR}/data/models/catalogue.jsonl)
ridgepoint_add_kernels(ridgepoint_planner)
