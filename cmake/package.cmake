# `cpack` in the build folder makes a Debian package of the program, and one of what it needs for several ranks, which
# depends on MPI, and one of the Python module: ./dev package. Headers and static library are in neither; `cmake --install` has them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ridgepoint)
set(CPACK_PACKAGE_CONTACT "Ridgepoint maintainers <maintainers@ridgepoint.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "shows where time and memory of a Transformer training step go")
set(CPACK_PACKAGE_DESCRIPTION
"Ridgepoint runs training steps of Transformers on processors and NVIDIA GPUs
with an engine of its own, and measures and predicts them: how long each part
takes, how much memory it needs, and how far it is from what the hardware can do.
The CUDA driver and NVIDIA's libraries are used where they are installed.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian_layout.cmake)

set(CPACK_COMPONENTS_ALL program)
if(TARGET ridgepoint_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
if(TARGET ridgepoint_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
# What cpack packs; it builds nothing itself.
add_custom_target(packaged)
add_dependencies(packaged ridgepoint)
if(TARGET ridgepoint_python_stubs)
  add_dependencies(packaged ridgepoint_python_stubs)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ridgepoint)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME ridgepoint-mpi)
set(CPACK_COMPONENT_MPI_DESCRIPTION "runs training steps of Transformers on several ranks
Ridgepoint loads this library when a run is divided among processes, which MPI
connects.")
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "ridgepoint (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-ridgepoint)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "plans and measures training steps of Transformers in Python
The commands of Ridgepoint as functions of the module `ridgepoint`, with records
as results, and graphs that run on arrays.")
if(TARGET ridgepoint_python)  # its library is for one version of Python
  math(EXPR next_python "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next_python})")
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS python3-numpy)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, python3-torch, ridgepoint")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "bash-completion, libsqlite3-0, man-db, ridgepoint-mpi")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
