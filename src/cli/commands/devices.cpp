// ridgepoint devices: the devices of this machine, with their measured copy and matmul rates.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/card.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "cli/terminal/run_rows.h"
#include "core/threads/parallel.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "run/machine/ceilings.h"
#include "run/machine/device_report.h"
#include "run/machine/host.h"

namespace ridgepoint::cli {
namespace {

class Devices : public Command {
 public:
  std::string_view name() const override { return "devices"; }
  std::string_view summary() const override { return "list devices, with their measured copy and matmul rates"; }
  std::string_view examples() const override {
    return "ridgepoint devices\n"
           "ridgepoint devices --threads 1 --format json\n"
           "ridgepoint devices --card all --format csv";
  }
  void add_options(CLI::App& app) override {
    add_option_of(app, "threads", threads_);
    OptionGroup(app, "Machine")
        .add("--card", cards_, "NAMES",
             "list these cards by their datasheets instead: h100,\"rtx 4090\", or all of them: all", card_names(),
             Takes::list);
    output_.add_to(app);
  }

  int run() override {
    std::vector<tables::DeviceReport> reports;
    PageWriter writer(output_, [&](Format format, std::size_t) { return tables::devices_page(reports, format); });
    require(threads_ >= 0, "--threads: {} is too small; the least is 0", threads_);
    const std::vector<std::string> names = cards_.empty() ? listed_names() : listed_cards();
    std::vector<RowOutline> outlines;
    for (const std::string& name : names) outlines.push_back({name});
    run_rows(outlines, [&](std::size_t row, Progress& progress) {
      progress.update("measuring copies and matmuls", 0);
      tables::DeviceReport report;
      if (!cards_.empty()) {
        report = describe_datasheet(card_named(names[row]));
      } else if (is_stopped([&] { report = examine(names[row]); })) {
        return false;
      }
      progress.clear();
      reports.push_back(std::move(report));
      writer.item_added();
      return true;
    });
    writer.finish();
    require_complete(reports.size(), names.size(), output_.path, "devices");
    return kExitOk;
  }

 private:
  static std::vector<std::string> listed_names() {
    std::vector<std::string> names = device_names();
    // Without a GPU, the line of cuda says why.
    const bool has_card = std::ranges::any_of(names, [](const std::string& name) { return name.starts_with("cuda"); });
    if (!has_card) names.insert(names.begin(), "cuda");
    return names;
  }

  std::vector<std::string> listed_cards() const {
    std::vector<std::string> names = parse_option("--card", cards_, split_list);
    if (names == std::vector<std::string>{"all"}) {
      const std::vector<std::string_view> all = card_names();
      names.assign(all.begin(), all.end());
    }
    for (const std::string& name : names) card_named(name);
    return names;
  }

  static tables::DeviceReport describe_datasheet(const Datasheet& sheet) {
    tables::DeviceReport report;
    report.kind = "card";
    report.name = sheet.card;
    report.memory_bytes = static_cast<std::size_t>(sheet.memory_bytes);
    report.capacity_bytes = usable_bytes(sheet);
    report.facts.compute_capability =
        fmt::format("{}.{}", sheet.compute_capability / 10, sheet.compute_capability % 10);
    report.facts.multiprocessors = sheet.multiprocessors;
    report.datasheet = &sheet;
    return report;
  }

  tables::DeviceReport examine(const std::string& name) const {
    tables::DeviceReport report;
    report.kind = name;
    report.name = name;
    if (name == "reference") report.purpose = "runs plain loops in double precision, for comparison";
    if (name == "null") report.purpose = "runs nothing: predicts memory and measures the executor";
    if (!report.purpose.empty()) return report;
    report.purpose = "runs the models";
    try {
      const std::shared_ptr<Device> device =
          open_device(name, {.threads = threads_, .memory_limit_bytes = std::nullopt});
      report.name = device->name();
      report.memory_bytes = device->total_memory_bytes();
      if (name == "cpu") report.host = describe_host();
      report.facts = device->facts();
      report.datasheet = find_datasheet(report.name);
      report.threads = thread_count();
      report.ceilings = measure_ceilings(*device, stop_row_if_interrupted);
    } catch (const Error& error) {
      report.problem = error.what();
    }
    return report;
  }

  int threads_ = 0;
  std::string cards_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_devices() { return std::make_unique<Devices>(); }

}  // namespace ridgepoint::cli
