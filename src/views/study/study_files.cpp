#include "views/study/study_files.h"

#include <fmt/format.h>

#include "views/study/parts.h"
#include "views/table/render.h"

namespace ridgepoint::views {

std::vector<StudyFile> study_files(const StudyDocument& document) {
  std::vector<StudyFile> files;
  for (const StudyPartPlan& part : document.parts) {
    const auto rows = document.rows.find(part.part);
    if (rows == document.rows.end()) continue;
    Page page;
    page.tables.push_back(study_table(part.part, rows->second, Format::markdown));
    std::string text = fmt::format("# {}\n\n{}", part.title, render(Format::markdown, page));
    files.push_back({fmt::format("tables/{}.md", name(part.part)), std::move(text)});
    page.tables = {study_table(part.part, rows->second, Format::csv)};
    files.push_back({fmt::format("tables/{}.csv", name(part.part)), render(Format::csv, page)});
  }
  for (StudyFile& picture : study_pictures(document.rows)) files.push_back(std::move(picture));
  files.push_back({"answers.md", answers_markdown(document)});
  files.push_back({"README.md", study_readme(document, files)});
  files.push_back({"report.html", study_page(document)});
  return files;
}

}  // namespace ridgepoint::views
