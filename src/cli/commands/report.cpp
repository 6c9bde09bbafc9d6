// ridgepoint report: shows files of records as one HTML page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/width.h"
#include "core/files/file.h"
#include "report/report_page.h"
#include "ridgepoint/core/error.h"
#include "study/pages/study_files.h"
#include "train/step_log.h"

namespace ridgepoint::cli {
namespace {

class ReportCommand : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override {
    return "show files of records as one HTML page: tables, charts, timeline";
  }
  std::string_view examples() const override {
    return "ridgepoint report rows.jsonl --output page.html\n"
           "ridgepoint report attention.jsonl --published paper.jsonl --output page.html\n"
           "ridgepoint report bench.jsonl attention.json plan.json profile.json -o page.html\n"
           "ridgepoint report study --output page.html\n"
           "ridgepoint report runs/a runs/b --output page.html\n"
           "ridgepoint report trace.json --output page.html\n"
           "ridgepoint report memory.json run.csv --title \"Memory of small\" -o page.html";
  }
  std::string_view notes() const override {
    return "RECORDS are files that bench, attention, memory, plan, profile, precision and trace write with --output in "
           "JSON or JSON Lines, timelines that memory writes with --timeline run.csv, and the steps of trainings: what "
           "train writes with --output, or the folder of its checkpoints. The folder of a study, alone, gives "
           "the study's page, as far as it has come. The page is one file that loads nothing from a network. If the "
           "last line of a JSON Lines file is incomplete, the page shows the finished rows. A published figure is a "
           "record of schema 1 with its known fields, such as command, engine, context and time_ms.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Report");
    group.add("RECORDS", paths_, "FILE",
              "files of records, timelines in CSV, and steps or folders of trainings; or the folder of a study");
    group.add("--published", published_, "FILES",
              "files of records with published figures; charts show them as hollow marks on dashed lines");
    group.add("--title", title_, "TEXT", "heading of the page [Ridgepoint report; of a study: its device]");
    group.add("-o,--output", output_, "FILE", "write the page to this file [standard output]");
  }

  int run() override {
    require(!paths_.empty(), "no file is given: ridgepoint report RECORDS... --output page.html");
    require(!output_.empty() || output_width() == SIZE_MAX,
            "the page is HTML, which a terminal does not show; give --output page.html");
    if (!published_.empty()) published_paths_ = parse_option("--published", published_, split_list);
    if (!output_.empty()) check_writable(output_);
    const std::string page =
        is_study() ? tables::study_page(tables::read_study(paths_.front()), title_) : page_of_files();
    if (output_.empty()) {
      print_output(page);
    } else {
      write_file(output_, page);
    }
    return kExitOk;
  }

 private:
  bool is_study() const {
    const auto is_folder = [](const std::string& path) {
      return std::filesystem::is_directory(path) && !std::filesystem::exists(train::History::path_in(path));
    };
    if (std::ranges::none_of(paths_, is_folder)) return false;
    require(paths_.size() == 1 && published_paths_.empty(),
            "the folder of a study has a page of its own; leave out the other files");
    return true;
  }

  std::string page_of_files() const {
    std::vector<tables::ReportFile> files;
    for (const std::string& path : paths_) files.push_back(read(path));
    for (const std::string& path : published_paths_) {
      files.push_back(read(path));
      files.back().is_published = true;
    }
    return tables::report_page(files, title_.empty() ? "Ridgepoint report" : title_);
  }

  static tables::ReportFile read(const std::string& path) {
    stop_if_interrupted();
    tables::ReportFile file = tables::read_report_file(path);
    if (file.is_truncated) {
      const std::size_t steps = file.steps.is_null() ? 0 : file.steps["step"].size();
      const std::size_t rows = file.records.size() + file.rows.size() + steps;
      print_error(fmt::format("warning: the last line of '{}' is not complete; the page has the {} before it", path,
                              rows == 1 ? "row" : fmt::format("{} rows", rows)));
    }
    return file;
  }

  std::vector<std::string> paths_, published_paths_;
  std::string output_, published_, title_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<ReportCommand>(); }

}  // namespace ridgepoint::cli
