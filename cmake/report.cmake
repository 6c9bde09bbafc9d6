# Embeds web/page.html, the template of `ridgepoint report`, in a target: src/views/report/page_template.h declares it.
function(ridgepoint_add_report_page target)
  set(page ${CMAKE_SOURCE_DIR}/web/page.html)
  set(source ${CMAKE_BINARY_DIR}/generated/report/page_template.cpp)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/page_template.cpp.in ${source} @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${page})
  target_sources(${target} PRIVATE ${source})
endfunction()
