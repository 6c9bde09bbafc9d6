# `cmake --install`: headers, static library, program, and the package for find_package(ridgepoint).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ridgepoint)

install(TARGETS ridgepoint_engine EXPORT ridgepoint_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ridgepoint RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/ridgepoint DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT ridgepoint_targets NAMESPACE ridgepoint:: FILE ridgepointTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/ridgepointConfig.cmake.in ridgepointConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ridgepointConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ridgepointConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ridgepointConfigVersion.cmake
  DESTINATION ${package_dir})
