# `cpack` in the build folder makes a Debian package of the program: ./dev package. Headers and library are not in it;
# `cmake --install` has them.
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

set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ridgepoint)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion, man-db")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
