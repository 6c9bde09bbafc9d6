// Blocks are decided in the order in which they run. What an earlier choice means for later ones is the bytes that are
// saved by then: of two partial assignments that end in the same option, one that has saved more and taken longer is
// never better. So the states of a block are, for each option, partial assignments whose saved bytes rise and whose
// times fall.
#include "predict/schedule/assign_sets.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace ridgepoint {
namespace {

struct State {
  std::size_t saved_bytes = 0;  // of the blocks before the last
  double ms = 0;
  std::uint8_t before = 0;   // the option of the block before
  std::uint32_t parent = 0;  // of its states
};
using States = std::vector<State>;

// Of more states than these, saved bytes are rounded down.
constexpr std::size_t kMostStates = 1024;

class Assigner {
 public:
  Assigner(const AssignmentProblem& problem, std::size_t memory_bytes)
      : problem_(problem), memory_bytes_(memory_bytes), options_(problem.memory.size()) {}

  std::optional<BlockAssignment> run() {
    const std::size_t blocks = problem_.ms.front().size();
    if (outside(0) > memory_bytes_) return std::nullopt;
    if (blocks == 0) return BlockAssignment{};
    for (std::size_t block = 0; block < blocks; ++block) extend(block);
    return best();
  }

 private:
  std::size_t outside(std::size_t blocks) const {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const BlockMemory& memory : problem_.memory) least = std::min(least, memory.outside_bytes[blocks]);
    return least;
  }

  // Adds the states of the block.
  void extend(std::size_t block) {
    std::vector<States>& states = states_.emplace_back(options_);
    const std::size_t behind = outside(block + 1);
    for (std::uint8_t option = 0; option < options_; ++option) {
      if (is_dominated(problem_, option, block)) continue;
      const BlockMemory& memory = problem_.memory[option];
      const auto add = [&](std::size_t saved, std::size_t running, const State& state) {
        if (saved + running > memory_bytes_) return;
        if (state.saved_bytes + memory.kept_bytes[block] + behind > memory_bytes_) return;
        states[option].push_back(state);
      };
      const double ms = problem_.ms[option][block];
      if (block == 0) {
        add(0, memory.running_bytes[0], {0, ms, 0, 0});
        continue;
      }
      const std::vector<States>& earlier = states_[block - 1];
      for (std::uint8_t before = 0; before < options_; ++before) {
        const BlockMemory& last = problem_.memory[before];
        for (std::uint32_t i = 0; i < earlier[before].size(); ++i) {
          const State& state = earlier[before][i];
          add(state.saved_bytes + last.kept_bytes[block - 1], memory.running_bytes[block],
              {state.saved_bytes + last.saved_bytes[block - 1], state.ms + ms, before, i});
        }
      }
      prune(states[option]);
    }
  }

  static void prune(States& states) {
    keep_falling(states);
    if (states.size() <= kMostStates) return;
    const std::size_t part = (states.back().saved_bytes - states.front().saved_bytes) / kMostStates + 1;
    for (State& state : states) state.saved_bytes -= state.saved_bytes % part;
    keep_falling(states);
  }

  // Those that are faster than all that save less.
  static void keep_falling(States& states) {
    std::ranges::sort(states, {}, [](const State& s) { return std::tuple(s.saved_bytes, s.ms, s.before, s.parent); });
    std::size_t kept = 0;
    for (const State& state : states) {
      if (kept == 0 || state.ms < states[kept - 1].ms) states[kept++] = state;
    }
    states.resize(kept);
  }

  std::optional<BlockAssignment> best() const {
    const std::vector<States>& last = states_.back();
    const State* found = nullptr;
    std::uint8_t option = 0;
    const auto order = [](const State& state) { return std::tuple(state.ms, state.saved_bytes); };
    for (std::uint8_t i = 0; i < options_; ++i) {
      for (const State& state : last[i]) {
        if (found != nullptr && order(*found) <= order(state)) continue;
        found = &state;
        option = i;
      }
    }
    if (found == nullptr) return std::nullopt;
    BlockAssignment assignment{std::vector<std::uint8_t>(states_.size()), found->ms};
    for (std::size_t block = states_.size(); block-- > 0;) {
      assignment.options[block] = option;
      if (block == 0) break;
      option = found->before;
      found = &states_[block - 1][option][found->parent];
    }
    return assignment;
  }

  const AssignmentProblem& problem_;
  std::size_t memory_bytes_;
  std::size_t options_;
  std::vector<std::vector<States>> states_;  // by block and option
};

}  // namespace

bool is_dominated(const AssignmentProblem& problem, std::uint8_t option, std::size_t block) {
  const auto figures = [&](std::uint8_t of) {
    const BlockMemory& memory = problem.memory[of];
    return std::tuple(problem.ms[of][block], memory.saved_bytes[block], memory.kept_bytes[block],
                      memory.running_bytes[block]);
  };
  const auto [ms, saved, kept, running] = figures(option);
  for (std::uint8_t other = 0; other < problem.memory.size(); ++other) {
    const auto [its_ms, its_saved, its_kept, its_running] = figures(other);
    if (its_ms > ms || its_saved > saved || its_kept > kept || its_running > running) continue;
    if (other < option || figures(other) != figures(option)) return true;
  }
  return false;
}

std::optional<BlockAssignment> assign_sets(const AssignmentProblem& problem, std::size_t memory_bytes) {
  return Assigner(problem, memory_bytes).run();
}

}  // namespace ridgepoint
