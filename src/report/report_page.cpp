#include "report/report_page.h"

#include <fmt/format.h>

#include <utility>

#include "core/build_info.h"
#include "core/text/text.h"
#include "report/report_files.h"
#include "ridgepoint/error.h"

namespace ridgepoint::views {
namespace {

constexpr std::string_view kPlaceholder = "@ridgepoint-data@";

}  // namespace

std::string json_for_html(const Json& json) {
  const std::string text = dump_json(json);
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i, 3);
    if (text[i] == '<') {
      escaped += "\\u003c";
    } else if (rest == "\u2028" || rest == "\u2029") {
      escaped += rest == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

std::string report_page(std::span<const ReportFile> files, std::string_view title, const Json& answers) {
  Json data = {{"title", valid_utf8(title)},
               {"made_by", fmt::format("Made by ridgepoint {} ({}).", version(), revision())},
               {"answers", answers},
               {"files", Json::array()}};
  for (const ReportFile& file : files) {
    data["files"].push_back({{"name", file.name},
                             {"part", file.part},
                             {"caption", file.caption},
                             {"is_published", file.is_published},
                             {"records", file.records},
                             {"rows", file.rows},
                             {"timeline", file.timeline}});
  }
  const std::string_view page = report_files().front().text;
  const std::size_t place = page.find(kPlaceholder);
  if (place == std::string_view::npos) throw Error("web/page.html has no place for the data; build it with ./dev web");
  return fmt::format("{}{}{}", page.substr(0, place), json_for_html(data), page.substr(place + kPlaceholder.size()));
}

}  // namespace ridgepoint::views
