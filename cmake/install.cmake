# `cmake --install`: headers, static library, the package for find_package(ridgepoint) (component `development`), the
# library that a run on several ranks loads (`mpi`), and the program with its documents, its manual pages and the
# completion of shells (`program`).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ridgepoint)

install(TARGETS ridgepoint_engine EXPORT ridgepoint_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(TARGETS ridgepoint RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(TARGET ridgepoint_mpi)
  install(TARGETS ridgepoint_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ridgepoint COMPONENT mpi)
endif()
install(DIRECTORY include/ridgepoint DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program PATTERN "docs/study" EXCLUDE)

install(EXPORT ridgepoint_targets NAMESPACE ridgepoint:: FILE ridgepointTargets.cmake DESTINATION ${package_dir}
  COMPONENT development)
configure_package_config_file(cmake/ridgepointConfig.cmake.in ridgepointConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ridgepointConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ridgepointConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ridgepointConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# The program prints its manual and its completion itself. A build for another processor cannot run it without an emulator.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "Manual pages and completion of shells are not installed: this machine cannot run a program for "
    "${CMAKE_SYSTEM_PROCESSOR}. There, `ridgepoint man` and `ridgepoint completion` write them.")
  return()
endif()
set(written ${CMAKE_BINARY_DIR}/generated/install)
set(program ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:ridgepoint>)
install(CODE "
  file(REMOVE_RECURSE \"${written}\")
  execute_process(COMMAND ${program} man \"${written}/man1\" COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell bash zsh fish)
    execute_process(COMMAND ${program} completion \${shell} OUTPUT_FILE \"${written}/\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()" COMPONENT program)
install(DIRECTORY ${written}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES ${written}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ridgepoint
  COMPONENT program)
install(FILES ${written}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _ridgepoint COMPONENT program)
install(FILES ${written}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME ridgepoint.fish
  COMPONENT program)
