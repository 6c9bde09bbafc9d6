// The figures of a profile as cells: means per step, in units that all tables of the profile share. Its verdict in
// three lines: the kernel that takes most time, how much time is recoverable, and how long the device was idle and why.
// Its tables, of which docs/commands/profile.md explains each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/profile/device_timeline.h"
#include "inspect/profile/pages/page.h"
#include "inspect/profile/profile.h"
#include "inspect/profile/views.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// Formats numbers with one unit and one number of decimals, so that a column aligns.
class Scale {
 public:
  // The SI prefix with which `largest` lies between 1 and 1000.
  static Scale of(double largest);
  // The given unit.
  Scale(double unit, std::string prefix, double largest);

  std::string operator()(double value) const;
  const std::string& prefix() const { return prefix_; }

 private:
  double unit_;
  std::string prefix_;
  int decimals_;
};

// "12.3"; "-" if `whole` is 0.
std::string percent(double part, double whole);
// "1 : 206" if `to` is larger, "2.3 : 1" if `value` is.
std::string ratio(double value, double to);

class TimelineFigures {
 public:
  // Sums are divided by `steps`.
  TimelineFigures(DeviceTimeline timeline, double steps);

  const DeviceTimeline& timeline() const { return timeline_; }
  const KernelSum& all() const { return total_; }
  double wall() const { return wall_ns_; }

  std::string ms(double ns) const { return ms_(ns / 1e6 / steps_); }
  std::string ms(std::int64_t ns) const { return ms(static_cast<double>(ns)); }
  std::string plain_ms(double milliseconds) const { return ms_(milliseconds); }  // already per step
  std::string calls(std::int64_t count) const;
  std::string of_kernel_time(std::int64_t ns) const;
  std::string of_wall_time(std::int64_t ns) const { return percent(static_cast<double>(ns), wall_ns_); }

  // Nine columns: calls, ms, time %, wall %, flop, flop %, Gflop/s, B, GB/s; the first four where no work is known.
  void add_work_columns(Table& table) const;
  void add_work_cells(Cells& cells, const KernelSum& sum) const;

 private:
  double per_step(std::int64_t sum) const { return static_cast<double>(sum) / steps_; }

  DeviceTimeline timeline_;
  double steps_;
  KernelSum total_;
  double wall_ns_;
  Scale ms_;
  Scale flops_;
  Scale bytes_;
};

class ProfileFigures : public TimelineFigures {
 public:
  explicit ProfileFigures(const Profile& profile)
      : TimelineFigures(timeline_of(profile), static_cast<double>(profile.steps.size())), profile_(&profile) {}
  const Profile& profile() const { return *profile_; }

 private:
  const Profile* profile_;
};

// Without ceilings the second line is left out; with a selection of kernels, the third.
std::vector<std::string> verdict(const ProfileFigures& figures);

// At most `shown` kernels, one row for the others, one for the sum.
Table kernel_table(const TimelineFigures& figures, std::size_t shown, std::string_view all = "all kernels",
                   bool has_classes = false);
// Without phases a row is a class. The last row is the idle time, which a part of the kernels does not have.
Table class_table(const TimelineFigures& figures, bool has_idle_time = true);
Table class_table(const ProfileFigures& figures);
// Rows are indented by their level.
Table scope_table(const TimelineFigures& figures, const ProfileDetail& detail);
Table attention_table(const ProfileFigures& figures);
// The collectives with the most exposed time, and all together.
Table communication_table(const ProfileFigures& figures, std::size_t shown);
Table rank_table(const ProfileFigures& figures);
// The time of a profile ends with the step on the host, that of a trace with the last event.
enum class IdleOf : std::uint8_t { profile, trace };
Table idle_table(const TimelineFigures& figures, IdleOf of = IdleOf::profile);
Table roofline_table(const ProfileFigures& figures);
// At most `shown` rows.
Table recoverable_table(const ProfileFigures& figures, std::size_t shown);
Table launch_table(const Profile& profile);
// Compares the shares of time and operations of each class between profiles.
Table comparison_table(std::span<const Profile> profiles);
Table clock_table(const ProfileFigures& figures);

}  // namespace ridgepoint::tables
