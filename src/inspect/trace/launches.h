// The host's activity around each launch of a trace: the marks around the launch, and the reason why the host launched
// late.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/profile/device_timeline.h"
#include "interchange/trace/trace.h"

namespace ridgepoint {

struct LaunchContext {
  std::uint32_t scope = 0;   // index into LaunchContexts::scopes
  std::uint32_t op = kNoOp;  // index into Trace::marks: the op of known work that it is a part of
  IdleCause late_because = IdleCause::host_late;
  std::uint8_t phase = kNoPhase;  // of ProfilePhase
  static constexpr std::uint8_t kNoPhase = UINT8_MAX;
  static constexpr std::uint32_t kNoOp = UINT32_MAX;
};

class LaunchContexts {
 public:
  explicit LaunchContexts(const Trace& trace);

  // The call that started an activity: the last one before it with its correlation. Empty where there is none.
  std::optional<std::size_t> call_of(const TraceEvent& activity) const;
  const LaunchContext& of_call(std::size_t call) const { return contexts_[call]; }
  const std::vector<std::string>& scopes() const { return scopes_; }

 private:
  const Trace& trace_;
  std::vector<LaunchContext> contexts_;        // by call
  std::vector<std::uint32_t> by_correlation_;  // calls
  std::vector<std::string> scopes_;            // dotted; the first is empty
};

bool is_step(std::string_view mark);

}  // namespace ridgepoint
