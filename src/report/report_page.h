// One HTML page with everything that files of records have. It needs nothing else: no network, no other file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/report_file.h"

namespace ridgepoint::views {

// `answers`, of a study, stand at its top: objects with topic, question, sentence, evidence (part, text) and elsewhere
// (source, text, verdict, reason).
std::string report_page(std::span<const ReportFile> files, std::string_view title, const Json& answers = Json::array());

// JSON as the content of a script element: nothing in it can end the element or begin a comment, whatever its texts
// are.
std::string json_for_html(const Json& json);

}  // namespace ridgepoint::views
