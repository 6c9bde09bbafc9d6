// Infers what blocks are for.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inspect/memory/contents.h"

namespace ridgepoint {
namespace {

// Of Hopper and data-centre Blackwell; of other cards (PyTorch's CUDABlas.cpp: 4096 KiB twice and 16 KiB eight times).
constexpr std::uint64_t kWorkspaceBytes[] = {32 << 20, 2 * (4096 << 10) + 8 * (16 << 10)};

bool may_be_workspace(const Snapshot& snapshot, const BlockLife& life) {
  const SnapshotOrigin& origin = snapshot.origins[life.origin];
  return life.freed == kNever && std::ranges::find(kWorkspaceBytes, life.bytes) != std::end(kWorkspaceBytes) &&
         (origin.frame == kNoFrame || origin.in_forward);
}

class Judge {
 public:
  Judge(const Snapshot& snapshot, const Repetitions& repetitions, const MemoryReport& report, std::size_t events)
      : snapshot_(snapshot), each_(repetitions.each), failures_(report.out_of_memory) {
    // In the order of their begins. PyTorch's threads of autograd have no Python frames.
    for (const MemoryPhase& phase : report.phases) {
      if (phase.name.find("backward") == std::string::npos && phase.name.find("Backward") == std::string::npos)
        continue;
      if (backwards_.empty() || phase.end.moment > backwards_.back().second)
        backwards_.emplace_back(phase.begin.moment, phase.end.moment);
    }
    first_begin_ = each_.empty() ? events : each_.front().begin;
    const std::size_t length = each_.empty() ? events : each_.front().end - each_.front().begin;
    constexpr std::size_t kLeastShort = 3;
    short_events_ = std::max(kLeastShort, length / 100);
  }

  // The blocks that forward still holds when memory runs out were saved for backward, although the exception frees
  // them.
  InferredCategory judge(const BlockLife& life) const {
    const InferredCategory category = judge_by_life(life);
    const bool is_held = category == InferredCategory::temporary && !snapshot_.origins[life.origin].in_backward &&
                         !is_marked_backward(life.begin) &&
                         std::ranges::any_of(failures_, [&](const OutOfMemoryEvent& failure) {
                           return life.is_allocated(failure.when.moment);
                         });
    return is_held ? InferredCategory::activation : category;
  }

 private:
  InferredCategory judge_by_life(const BlockLife& life) const {
    const SnapshotOrigin& origin = snapshot_.origins[life.origin];
    if (life.freed == kNever && life.begin <= first_begin_ && !origin.in_optimizer) {
      return InferredCategory::parameter_or_state;
    }
    if (life.begin == 0 && life.freed != kNever) return InferredCategory::unknown;
    const Repetition* repetition = repetition_of(life.begin);
    if (origin.in_optimizer) {
      const bool outlives = life.freed == kNever || (repetition != nullptr && life.freed > repetition->end);
      return outlives ? InferredCategory::optimizer_state : InferredCategory::temporary;
    }
    if (life.freed != kNever && life.freed - life.begin <= short_events_) return InferredCategory::temporary;
    if (repetition == nullptr) return life.freed == kNever ? InferredCategory::unknown : InferredCategory::temporary;
    return judge_long_life(life, origin, *repetition);
  }

  // A block that was allocated in a repetition and lives for some time.
  InferredCategory judge_long_life(const BlockLife& life, const SnapshotOrigin& origin,
                                   const Repetition& repetition) const {
    const bool in_backward = origin.in_backward || life.begin > repetition.peak || is_marked_backward(life.begin);
    if (life.freed > repetition.end) {  // never, or later
      const bool is_first = &repetition == &each_.front();
      const bool is_last = &repetition == &each_.back();
      if (life.freed == kNever && !is_first && !is_last) return InferredCategory::unknown;  // perhaps a leak
      if (life.freed != kNever && !is_last && life.freed > (&repetition + 1)->end) return InferredCategory::unknown;
      if (in_backward) return InferredCategory::gradient;
      return life.freed == kNever && is_first ? InferredCategory::parameter_or_state : InferredCategory::unknown;
    }
    const bool at_peak = life.begin <= repetition.peak && repetition.peak < life.freed;
    return at_peak && !origin.in_backward ? InferredCategory::activation : InferredCategory::temporary;
  }

  bool is_marked_backward(std::size_t moment) const {
    const auto after = std::ranges::upper_bound(backwards_, moment, {}, &std::pair<std::size_t, std::size_t>::first);
    return after != backwards_.begin() && moment <= (after - 1)->second;
  }

  const Repetition* repetition_of(std::size_t begin) const {
    const auto after = std::ranges::upper_bound(each_, begin, {}, &Repetition::begin);
    if (after == each_.begin()) return nullptr;
    const Repetition& repetition = *(after - 1);
    return begin <= repetition.end ? &repetition : nullptr;
  }

  const Snapshot& snapshot_;
  const std::vector<Repetition>& each_;
  const std::vector<OutOfMemoryEvent>& failures_;
  std::vector<std::pair<std::size_t, std::size_t>> backwards_;  // the moments of annotations of backward
  std::size_t first_begin_;
  std::size_t short_events_;
};

}  // namespace

void infer_categories(const Snapshot& snapshot, const Repetitions& repetitions, const MemoryReport& report,
                      std::size_t events, const StopPoint& stop_point, Lifetimes& lifetimes) {
  if (snapshot.has_categories()) return;
  const Judge judge(snapshot, repetitions, report, events);
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<BlockLife*>> alike;  // by size and origin
  std::size_t index = 0;
  for (auto* lives : {&lifetimes.older, &lifetimes.recorded}) {
    for (BlockLife& life : *lives) {
      stop_regularly(stop_point, index++);
      life.category = static_cast<std::uint8_t>(judge.judge(life));
      if (may_be_workspace(snapshot, life)) alike[{life.bytes, life.origin}].push_back(&life);
    }
  }
  for (const auto& [kind, blocks] : alike) {
    if (blocks.size() == 1) blocks.front()->category = static_cast<std::uint8_t>(InferredCategory::workspace);
  }
}

}  // namespace ridgepoint
