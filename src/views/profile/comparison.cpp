// comparison_as_text(): profiles side by side, class by class.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "measure/profile/views.h"
#include "views/profile/figures.h"
#include "views/profile/tables.h"
#include "views/record_table.h"

namespace ridgepoint::cli {
namespace {

constexpr auto kRight = FittedTable::Align::right;

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string in_percent(double of_one) { return fmt::format("{:.1f}", 100 * of_one); }

FittedTable comparison_table(std::span<const Profile> profiles) {
  std::vector<ProfileFigures> figures(profiles.begin(), profiles.end());
  std::map<KernelClass, std::vector<KernelSum>> sums;
  FittedTable table;
  table.add_column("class", FittedTable::Align::left);
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    table.add_column(fmt::format("{} ms", name(profiles[i].run.mode)), kRight);
    table.add_column("time %", kRight);
    table.add_column("wall %", kRight, 2);
    table.add_column("flop %", kRight, 1);
    for (const KernelRecord& kernel : profiles[i].kernels) {
      std::vector<KernelSum>& row = sums[kernel.kernel_class];
      row.resize(profiles.size());
      row[i].add(kernel);
    }
  }
  table.add_column("time % moved", kRight);
  for (const auto& [kernel_class, row] : sums) {
    Cells cells = {std::string(name(kernel_class))};
    std::vector<double> shares;
    for (std::size_t i = 0; i < row.size(); ++i) {
      shares.push_back(share(row[i].time_ns, figures[i].all().time_ns));
      cells.insert(cells.end(),
                   {figures[i].ms(row[i].time_ns), in_percent(shares.back()), figures[i].of_wall_time(row[i].time_ns),
                    in_percent(share(row[i].flops, figures[i].all().flops))});
    }
    cells.push_back(fmt::format("{:+.1f}", 100 * (shares.back() - shares.front())));
    table.add_row(std::move(cells));
  }
  if (std::ranges::any_of(profiles, [](const Profile& profile) { return profile.selection.has_value(); })) return table;
  Cells idle = {"idle"};
  for (const ProfileFigures& each : figures) {
    const std::int64_t ns = idle_time(each.profile()).idle_ns();
    idle.insert(idle.end(), {each.ms(ns), "", each.of_wall_time(ns), ""});
  }
  idle.emplace_back("");
  table.add_row(std::move(idle));
  return table;
}

}  // namespace

std::string comparison_as_text(std::span<const Profile> profiles, const ProfileViewOptions& options) {
  if (profiles.empty()) return "";
  std::vector<Record> runs;
  for (const Profile& profile : profiles) runs.push_back(profile.run);
  const std::size_t prose_width = options.markdown ? SIZE_MAX : std::min(options.width, kProseWidth);
  std::string text = records_caption(runs, prose_width) + "\n";
  for (const Profile& profile : profiles) text += profile_heading(profile, options);
  if (!std::ranges::all_of(profiles, &Profile::has_kernels)) return text;
  const FittedTable table = comparison_table(profiles);
  if (options.markdown) return text + "\n" + table.markdown();
  std::vector<std::string> left_out;
  text += "\n" + table.text(options.width, left_out);
  const std::string note = left_out_note(left_out, prose_width);
  return text + (note.empty() ? "" : "\n" + note);
}

}  // namespace ridgepoint::cli
