# Gives src/core/build_info.cpp the revision and the options of the build. The revision is read at every build, so that
# a record never names a commit that the binary was not built from; nothing is rebuilt if it is unchanged.
# include(build_info), then ridgepoint_add_build_info(<target>)
# Run as a script (cmake -P) with SOURCE and OUTPUT, this file writes the header.

if(CMAKE_SCRIPT_MODE_FILE)
  set(revision unknown)
  find_program(GIT git)
  if(GIT)
    execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
      OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(revision ${described})
    endif()
  endif()
  set(text "#define RIDGEPOINT_REVISION \"${revision}\"\n")
  set(old "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} old)
  endif()
  if(NOT text STREQUAL old)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

function(ridgepoint_add_build_info target)
  set(folder ${CMAKE_BINARY_DIR}/generated)
  add_custom_target(ridgepoint_revision
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${folder}/ridgepoint_revision.h
      -P ${CMAKE_SOURCE_DIR}/cmake/build_info.cmake
    BYPRODUCTS ${folder}/ridgepoint_revision.h
    COMMENT "Looking up the revision")
  add_dependencies(${target} ridgepoint_revision)
  target_include_directories(${target} PRIVATE ${folder})
  set_property(SOURCE src/core/build_info.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    RIDGEPOINT_VERSION="${PROJECT_VERSION}" RIDGEPOINT_BUILD="${CMAKE_BUILD_TYPE}")
endfunction()
