// idle_time(): the gaps between kernels, each with one cause.
#include <algorithm>

#include "core/enum_names.h"
#include "measure/profile/views.h"

namespace ridgepoint {
namespace {

constexpr auto kCauseNames = enum_names<IdleCause>("host late", "dependency", "nothing to do");

// Walks the kernels of one step in order of start.
class StepWalk {
 public:
  StepWalk(IdleTime& idle, const ProfiledStep& step)
      : idle_(idle), end_ns_(step.end_ns), busy_until_ns_(step.begin_ns) {
    idle_.wall_ns += step.end_ns - step.begin_ns;
  }

  void visit(const KernelRecord& kernel, std::size_t index) {
    const std::int64_t begin_ns = std::clamp(kernel.start_ns, busy_until_ns_, end_ns_);
    const std::int64_t finish_ns = std::clamp(kernel.end_ns(), begin_ns, end_ns_);
    if (begin_ns > busy_until_ns_) {
      const bool late = kernel.call_start_ns > busy_until_ns_;
      gap({late ? IdleCause::host_late : IdleCause::dependency, begin_ns - busy_until_ns_, index});
    }
    idle_.busy_ns += finish_ns - begin_ns;
    idle_.overlap_ns += kernel.duration_ns - (finish_ns - begin_ns);
    busy_until_ns_ = std::max(busy_until_ns_, finish_ns);
  }

  void finish() {
    if (end_ns_ > busy_until_ns_) gap({IdleCause::nothing_to_do, end_ns_ - busy_until_ns_, std::nullopt});
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
  std::int64_t end_ns_;
  std::int64_t busy_until_ns_;
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
