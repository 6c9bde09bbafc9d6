// web/page.html, embedded by cmake/report.cmake.
#pragma once

#include <string_view>

namespace ridgepoint::views {

std::string_view page_template();

}  // namespace ridgepoint::views
