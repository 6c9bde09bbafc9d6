#include "study/pages/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ridgepoint/error.h"
#include "study/pages/parts.h"

namespace ridgepoint::views {
namespace {

// A part of a study never runs a workload without a batch or a sequence.
void check_record(const Record& record) {
  if (record.status != RunStatus::ok) return;
  if (record.batch < 1 || record.context < 1)
    throw Error(fmt::format("the batch {} and the context {} must both be 1 at least; give --restart to measure again",
                            record.batch, record.context));
}

// Views read the rows again, without a place to name.
void check_records(const StudyRows& all) {
  for (const auto& [part, rows] : all) {
    if (!has_records(part) && !has_records(rows)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      try {
        check_record(record_from_json(dump_json(rows[i])));
      } catch (const Error& error) {
        throw Error(fmt::format("records/{}.jsonl, line {}: {}", name(part), i + 1, error.what()));
      }
    }
  }
}

}  // namespace

StudyDocument read_study(const std::filesystem::path& path) {
  const StudyFolder folder(path);
  if (!folder.manifest().exists()) {
    throw Error(fmt::format("'{}' has no study (no study.json); ridgepoint study --output {} makes one", path.string(),
                            path.string()));
  }
  StudyDocument document{.folder = path.string(),
                         .configuration = folder.manifest().configuration(),
                         .parts = folder.manifest().plan().value_or(std::vector<StudyPartPlan>()),
                         .rows = folder.all_rows(),
                         .log = folder.log(),
                         .answers = {}};
  check_records(document.rows);
  document.answers = answer_questions(document.rows);
  std::erase_if(document.answers, [&](const StudyAnswer& answer) {  // of parts that the study leaves out
    return answer.missing &&
           std::ranges::find(document.parts, *answer.missing, &StudyPartPlan::part) == document.parts.end();
  });
  return document;
}

std::vector<StudyFile> study_files(const StudyDocument& document) {
  std::vector<StudyFile> files = study_pictures(document.rows);
  const std::vector<StudyFile> pictures = files;
  for (const StudyPartPlan& part : document.parts) {
    if (!document.rows.contains(part.part)) continue;
    for (StudyFile& table : study_tables(document, part, pictures)) files.push_back(std::move(table));
  }
  files.push_back({"answers.md", answers_markdown(document)});
  files.push_back({"README.md", study_readme(document, pictures)});
  files.push_back({"report.html", study_page(document, "")});
  return files;
}

}  // namespace ridgepoint::views
