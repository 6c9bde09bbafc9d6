# A test adds a row to the tables of settings and of figures, and finds both in all places. Its .def files stand before
# those of the source in the path of includes, and so does a record with the member of the figure. What makes something
# of the tables, or has a configuration or a record as a member, is compiled with these; the rest is the library's. A
# function of the library that takes a configuration or a record must be in this list before a test calls it.
set(folder ${CMAKE_CURRENT_SOURCE_DIR}/record/added_rows)
set(record_header ${CMAKE_SOURCE_DIR}/include/ridgepoint/record/record.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${record_header})
file(READ ${record_header} text)
string(REPLACE "struct Record {" "struct Record {\n  std::optional<double> added_figure;" text "${text}")
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/added_rows/ridgepoint/record/record.h CONTENT "${text}")

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/record/*.cpp ${CMAKE_SOURCE_DIR}/src/run/session/*.cpp
  ${CMAKE_SOURCE_DIR}/src/inspect/compare/*.cpp ${CMAKE_SOURCE_DIR}/src/inspect/compare/files/*.cpp
  ${CMAKE_SOURCE_DIR}/src/inspect/published/*.cpp ${CMAKE_SOURCE_DIR}/src/inspect/attention/*.cpp
  ${CMAKE_SOURCE_DIR}/src/cli/options/*.cpp)
list(APPEND sources ${folder}/added_rows.cpp)
add_executable(added_rows_test ${sources})
target_include_directories(added_rows_test BEFORE PRIVATE ${folder} ${CMAKE_CURRENT_BINARY_DIR}/added_rows)
target_link_libraries(added_rows_test PRIVATE test_support ridgepoint_cli ridgepoint_engine ridgepoint_build_flags
  ridgepoint_quick_to_compile fmt::fmt nlohmann_json::nlohmann_json GTest::gtest_main GTest::gmock)
target_precompile_headers(added_rows_test REUSE_FROM test_support)
ridgepoint_compile_together(added_rows_test ${sources})
gtest_discover_tests(added_rows_test DISCOVERY_TIMEOUT 120)
