// idle_time(): the gaps between kernels, each with one cause.
#include "core/types/enum_names.h"
#include "inspect/profile/views.h"
#include "runtime/device/busy_time.h"

namespace ridgepoint {
namespace {

constexpr auto kCauseNames = enum_names<IdleCause>("host late", "dependency", "nothing to do");

// Walks the kernels of one step in order of start.
class StepWalk {
 public:
  StepWalk(IdleTime& idle, const ProfiledStep& step) : idle_(idle), busy_(step.begin_ns, step.end_ns) {
    idle_.wall_ns += step.end_ns - step.begin_ns;
  }

  void visit(const KernelRecord& kernel, std::size_t index) {
    const bool late = kernel.call_start_ns > busy_.until_ns();
    const BusyTime::Added added = busy_.add(kernel.start_ns, kernel.duration_ns);
    if (added.gap_ns > 0) gap({late ? IdleCause::host_late : IdleCause::dependency, added.gap_ns, index});
    idle_.overlap_ns += kernel.duration_ns - added.busy_ns;
  }

  void finish() {
    idle_.busy_ns += busy_.busy_ns();
    if (busy_.rest_ns() > 0) gap({IdleCause::nothing_to_do, busy_.rest_ns(), std::nullopt});
  }

 private:
  void gap(const IdleGap& found) {
    const auto cause = static_cast<std::size_t>(found.cause);
    idle_.by_cause_ns[cause] += found.duration_ns;
    ++idle_.gaps[cause];
    std::optional<IdleGap>& longest = idle_.longest[cause];
    if (!longest || longest->duration_ns < found.duration_ns) longest = found;
  }

  IdleTime& idle_;
  BusyTime busy_;
};

}  // namespace

std::string_view name(IdleCause cause) { return kCauseNames[cause]; }

IdleTime idle_time(const Profile& profile) {
  IdleTime idle;
  for (std::uint32_t i = 0; i < profile.steps.size(); ++i) {
    StepWalk walk(idle, profile.steps[i]);
    for (std::size_t k = 0; k < profile.kernels.size(); ++k) {
      if (profile.kernels[k].step == i) walk.visit(profile.kernels[k], k);
    }
    walk.finish();
  }
  return idle;
}

}  // namespace ridgepoint
