# Embeds files in a target, so that an installed program has them too.
# ridgepoint_embed(<target> <name> <file>...) defines `std::span<const EmbeddedFile> ridgepoint::<name>()`
# (src/core/files/embedded_file.h); a header of the target declares it.
function(ridgepoint_embed target name)
  set(folder ${CMAKE_BINARY_DIR}/generated/embedded)
  set(symbols "")
  set(entries "")
  foreach(file ${ARGN})
    get_filename_component(file_name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name}_${file_name} symbol)
    string(APPEND symbols "RIDGEPOINT_EMBED(${symbol}, \"${file}\")\n")
    string(APPEND entries "    {\"${file_name}\", ridgepoint_file_${symbol}},\n")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/embedded_files.cpp.in ${folder}/${name}.cpp @ONLY)
  set_source_files_properties(${folder}/${name}.cpp PROPERTIES OBJECT_DEPENDS "${ARGN}")
  target_sources(${target} PRIVATE ${folder}/${name}.cpp)
endfunction()
