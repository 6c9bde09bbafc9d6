// ridgepoint collectives: times the collectives between ranks by themselves.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/run_rows.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "run/collectives/collective_benchmark.h"

namespace ridgepoint::cli {
namespace {

using tables::Align;
using tables::Table;

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const Op op : kAllCollectives) names.push_back(ridgepoint::name(op));
  return names;
}

Op collective_from_name(std::string_view text) {
  const std::vector<std::string_view> names = collective_names();
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) refuse("'{}' is unknown{}", text, hint(text, names));
  return kAllCollectives[static_cast<std::size_t>(found - names.begin())];
}

DType summed_dtype_from_name(std::string_view text) {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    if (ridgepoint::name(dtype) == text) return dtype;
  }
  refuse("'{}' is unknown; available: fp64, fp32, bf16, fp16", text);
}

class Collectives : public Command {
 public:
  std::string_view name() const override { return "collectives"; }
  std::string_view summary() const override { return "time all_reduce, reduce_scatter and all_gather between ranks"; }
  std::string_view examples() const override {
    return "ridgepoint collectives --ranks 2\n"
           "mpirun -n 4 ridgepoint collectives --size 1KiB:1GiB:*4 --dtype bf16\n"
           "ridgepoint collectives --ranks 4 --op all_reduce --size 64MiB --format csv";
  }
  std::string_view notes() const override {
    return "Sizes are those of the larger side: the operand of all_reduce, reduce_scatter and collective_broadcast, "
           "the result of all_gather. algorithm and bus are the bandwidths of nccl-tests: the size by the time, and "
           "this times 2 (n - 1) / n for all_reduce and (n - 1) / n for reduce_scatter and all_gather. Times are "
           "medians of batches of launches, of the slowest rank. wrong counts elements of all ranks that are not "
           "exact.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Work");
    group.add("--op", ops_, "NAMES", fmt::format("collectives [{}]", ops_), collective_names(), Takes::list);
    group.add("--size", sizes_, "SIZES", "bytes of a tensor [1KiB:64MiB:*4; on GPUs 1KiB:1GiB:*4]");
    group.add("--dtype", dtypes_, "NAMES", fmt::format("number types [{}]", dtypes_), {"fp64", "fp32", "bf16", "fp16"},
              Takes::list);
    group.add("--warmup", warmup_, "N", fmt::format("untimed launches before the timed ones [{}]", warmup_));
    group.add("--iterations", iterations_, "N",
              fmt::format("launches of each of the five timed batches [{}]", iterations_));
    const OptionGroup machine(app, "Machine");
    machine.add("--device", device_, "NAME",
                "cpu, or cuda: the card with the number of the rank [cuda if there is a GPU]");
    rank_options_.add_to(app);
    output_.add_to(app);
  }

  int run() override {
    require(warmup_ >= 0 && iterations_ >= 1, "--warmup is at least 0 and --iterations at least 1");
    if (device_.empty()) device_ = default_device_name();
    const std::vector<CollectiveSetup> setups = sweep();
    output_.check();
    rank_options_.start();
    const std::shared_ptr<ProcessGroup>& group = joined_ranks();
    require(group != nullptr && group->ranks() > 1, "collectives run between processes: " + how_to_start(2));
    const std::shared_ptr<Device> device = open_device(device_of_rank(device_, *group));
    Table table = empty_table(*device, *group);
    PageWriter writer(output_, [&](Format format, std::size_t) {
      return tables::Page{.tables = {is_for_people(format) ? table : with_machine(table, *device, *group)}};
    });
    measure(*device, *group, setups, table, writer);
    writer.finish();
    require_complete(table.rows.size(), setups.size(), output_.path);
    return wrong_elements_ == 0 ? kExitOk : kExitFailure;
  }

 private:
  std::vector<CollectiveSetup> sweep() const {
    const std::string sizes = !sizes_.empty() ? sizes_ : device_.starts_with("cuda") ? "1KiB:1GiB:*4" : "1KiB:64MiB:*4";
    const NumberRule rule{1, std::int64_t{1} << 40, parse_bytes};
    std::vector<CollectiveSetup> setups;
    for (const std::string& op : parse_option("--op", ops_, split_list)) {
      for (const std::string& dtype : parse_option("--dtype", dtypes_, split_list)) {
        for (const std::int64_t bytes :
             parse_option("--size", sizes, [&](std::string_view text) { return parse_numbers(text, rule); })) {
          setups.push_back({parse_option("--op", op, collective_from_name),
                            parse_option("--dtype", dtype, summed_dtype_from_name), bytes, warmup_, iterations_});
        }
      }
    }
    return setups;
  }

  Table empty_table(const Device& device, const ProcessGroup& group) const {
    Table table;
    table.caption = fmt::format("{} ({}), {} ranks", device.kind(), device.name(), group.ranks());
    table.columns = {{"op", "op"},
                     {"dtype", "dtype"},
                     {"bytes", "bytes"},
                     {"time_us", "time us", "{:.1f}"},
                     {"algorithm_gb_per_second", "algorithm GB/s", "{:.2f}", Align::by_content, 1},
                     {"bus_gb_per_second", "bus GB/s", "{:.2f}"},
                     {"link_share", "of link", tables::kPercent, Align::by_content, 1},
                     {"wrong", "wrong"}};
    const Datasheet* sheet = find_datasheet(device.name());
    if (sheet == nullptr || !sheet->link_bytes_per_second)
      std::erase_if(table.columns, [](const tables::Column& column) { return column.key == "link_share"; });
    table.key_columns = 3;
    return table;
  }

  // What the caption of the table says, in every line of a file.
  static Table with_machine(Table table, const Device& device, const ProcessGroup& group) {
    table.columns.insert(table.columns.end(), {{"device", "device"}, {"ranks", "ranks"}});
    for (tables::Row& row : table.rows) row.cells.insert(row.cells.end(), {device.name(), group.ranks()});
    return table;
  }

  void measure(Device& device, ProcessGroup& group, const std::vector<CollectiveSetup>& setups, Table& table,
               PageWriter& writer) {
    const std::shared_ptr<Communicator> communicator = device.make_communicator(joined_ranks());
    const Datasheet* sheet = find_datasheet(device.name());
    std::vector<RowOutline> outlines;
    for (const CollectiveSetup& setup : setups) {
      outlines.push_back({fmt::format("{} {} {}", ridgepoint::name(setup.op), ridgepoint::name(setup.dtype),
                                      format_bytes(static_cast<std::uint64_t>(setup.bytes))),
                          1e5 + static_cast<double>(setup.bytes)});
    }
    run_rows(outlines, [&](std::size_t row, Progress& progress) {
      const CollectiveSetup& setup = setups[row];
      CollectiveTimes times;
      const bool stopped =
          is_stopped([&] { times = measure_collective(device, *communicator, group, setup, stop_row_if_interrupted); });
      if (stopped) return false;
      wrong_elements_ += times.wrong_elements;
      tables::Cells cells = {std::string(ridgepoint::name(setup.op)),
                             std::string(ridgepoint::name(setup.dtype)),
                             times.bytes,
                             times.ms * 1e3,
                             times.algorithm_bytes_per_second / 1e9,
                             times.bus_bytes_per_second / 1e9};
      if (sheet != nullptr && sheet->link_bytes_per_second)
        cells.emplace_back(times.bus_bytes_per_second / *sheet->link_bytes_per_second);
      cells.emplace_back(times.wrong_elements);
      progress.clear();
      table.add(std::move(cells));
      writer.item_added();
      return true;
    });
  }

  std::string ops_ = "all_reduce,reduce_scatter,all_gather";
  std::string dtypes_ = "fp32";
  std::string sizes_, device_;
  std::int64_t warmup_ = 5, iterations_ = 20;
  std::int64_t wrong_elements_ = 0;
  RankOptions rank_options_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_collectives() { return std::make_unique<Collectives>(); }

}  // namespace ridgepoint::cli
