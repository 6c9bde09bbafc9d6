// Chooses for the blocks in the order in which they run. Earlier choices affect later ones only by the bytes saved so
// far: a partial assignment that has saved more bytes and taken longer than another is never better. So the states of a
// block are partial assignments whose saved bytes rise and whose times fall.
#include "predict/schedule/assign_sets.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace ridgepoint {
namespace {

struct State {
  std::size_t saved_bytes = 0;  // of the blocks up to this one
  double ms = 0;
  std::uint8_t option = 0;
  std::uint32_t parent = 0;  // the state of the block before
};
using States = std::vector<State>;

// If there are more states than this, saved bytes are rounded down.
constexpr std::size_t kMostStates = 2048;

class Assigner {
 public:
  Assigner(const AssignmentProblem& problem, std::size_t memory_bytes)
      : problem_(problem), memory_bytes_(memory_bytes) {}

  std::optional<BlockAssignment> run() {
    if (outside(0) > memory_bytes_) return std::nullopt;
    const std::size_t blocks = problem_.ms.front().size();
    states_.push_back({State{}});
    for (std::size_t block = 0; block < blocks; ++block) extend(block);
    return fastest();
  }

 private:
  std::size_t outside(std::size_t blocks) const {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const BlockMemory& memory : problem_.memory) least = std::min(least, memory.outside_bytes[blocks]);
    return least;
  }

  // The most that a block may have saved beyond the bytes that are surely live while the next block runs.
  std::size_t most_unkept(std::size_t block) const {
    std::size_t most = 0;
    for (const BlockMemory& memory : problem_.memory)
      most = std::max(most, memory.saved_bytes[block] - memory.kept_bytes[block]);
    return most;
  }

  // Adds the states of the block.
  void extend(std::size_t block) {
    const States& earlier = states_.back();
    const std::size_t unkept = block == 0 ? 0 : most_unkept(block - 1);
    const std::size_t behind = outside(block + 1);
    States states, of_option, merged;
    for (std::size_t set = 0; set < problem_.memory.size(); ++set) {
      const auto option = static_cast<std::uint8_t>(set);
      if (is_dominated(problem_, option, block)) continue;
      const BlockMemory& memory = problem_.memory[option];
      of_option.clear();
      for (std::uint32_t i = 0; i < earlier.size(); ++i) {
        const std::size_t saved = earlier[i].saved_bytes;
        if (saved - std::min(saved, unkept) + memory.running_bytes[block] > memory_bytes_) break;
        if (saved + memory.kept_bytes[block] + behind > memory_bytes_) break;
        of_option.push_back({saved + memory.saved_bytes[block], earlier[i].ms + problem_.ms[option][block], option, i});
      }
      const auto order = [](const State& s) { return std::tuple(s.saved_bytes, s.ms, s.option, s.parent); };
      merged.clear();
      std::ranges::merge(states, of_option, std::back_inserter(merged), {}, order, order);
      keep_falling(merged);
      std::swap(states, merged);
    }
    round(states);
    states_.push_back(std::move(states));
  }

  static void round(States& states) {
    if (states.size() <= kMostStates) return;
    const std::size_t part = (states.back().saved_bytes - states.front().saved_bytes) / kMostStates + 1;
    for (State& state : states) state.saved_bytes -= state.saved_bytes % part;
    keep_falling(states);
  }

  // From states in order of saved bytes, keeps those that are faster than every state with fewer bytes or as many.
  static void keep_falling(States& states) {
    std::size_t kept = 0;
    for (const State& state : states) {
      if (kept > 0 && state.ms >= states[kept - 1].ms) continue;
      if (kept > 0 && state.saved_bytes == states[kept - 1].saved_bytes) --kept;
      states[kept++] = state;
    }
    states.resize(kept);
  }

  // The last state of the last block: times fall.
  std::optional<BlockAssignment> fastest() const {
    if (states_.back().empty()) return std::nullopt;
    BlockAssignment assignment{std::vector<std::uint8_t>(states_.size() - 1), states_.back().back().ms};
    const State* state = &states_.back().back();
    for (std::size_t block = states_.size() - 1; block > 0; --block) {
      assignment.options[block - 1] = state->option;
      state = &states_[block - 1][state->parent];
    }
    return assignment;
  }

  const AssignmentProblem& problem_;
  std::size_t memory_bytes_;
  std::vector<States> states_;  // before the first block, and behind each
};

}  // namespace

bool is_dominated(const AssignmentProblem& problem, std::uint8_t option, std::size_t block) {
  const auto figures = [&](std::size_t of) {
    const BlockMemory& memory = problem.memory[of];
    return std::tuple(problem.ms[of][block], memory.saved_bytes[block], memory.kept_bytes[block],
                      memory.running_bytes[block]);
  };
  const auto [ms, saved, kept, running] = figures(option);
  for (std::size_t other = 0; other < problem.memory.size(); ++other) {
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
