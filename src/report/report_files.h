// web/page.html, the template of the report, embedded by cmake/embed.cmake.
#pragma once

#include <span>

#include "core/files/embedded_file.h"

namespace ridgepoint {

std::span<const EmbeddedFile> report_files();

}  // namespace ridgepoint
