// The search. The cost and the saved bytes of a block do not depend on other blocks. So one plan for each policy gives
// the recomputation and the live bytes of every assignment (block_memory.h). Assignments with more live bytes than the
// memory cannot fit. Among the others, forecasts with the allocator find the cheapest one that fits.
#include "predict/choose_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/scope.h"
#include "predict/block_memory.h"
#include "predict/forecast.h"

namespace ridgepoint {
namespace {

constexpr std::array kPolicies = {Checkpoint::none, Checkpoint::attention, Checkpoint::selective, Checkpoint::block};

// If there are at most this many assignments, all are candidates. Otherwise only ordered ones are, in which no block
// recomputes more than an earlier block, because the values of an earlier block are live longer. If there are more
// ordered assignments than the second limit, consecutive blocks share a policy.
constexpr std::size_t kMostAssignments = 4096;
constexpr std::size_t kMostOrderedAssignments = 200'000;
// The most nodes of all plans that try to improve on an assignment that fits: a second or two of planning.
constexpr std::size_t kMostPlannedNodes = 100'000;

// A policy in all blocks.
struct UniformPolicy {
  Checkpoint policy;
  std::vector<double> cost;  // by block, in bytes of memory traffic
  BlockMemory memory;
};

template <typename T>
bool is_nowhere_above(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, std::less_equal<>());
}

// Whether `a` can stand for `b` in every block.
bool dominates(const UniformPolicy& a, const UniformPolicy& b) {
  return is_nowhere_above(a.cost, b.cost) && is_nowhere_above(a.memory.saved_bytes, b.memory.saved_bytes) &&
         is_nowhere_above(a.memory.kept_bytes, b.memory.kept_bytes) &&
         is_nowhere_above(a.memory.running_bytes, b.memory.running_bytes);
}

// The policies of the blocks, as indices, with their modelled cost and live bytes.
struct Assignment {
  std::vector<std::uint8_t> policies;
  double cost = 0;
  std::size_t live_bytes = 0;
  bool is_tried = false;
};

// Calls visit(sequence) for all sequences of `count` policies, or only for sequences that never rise.
template <typename Visitor>
void visit_sequences(std::vector<std::uint8_t>& sequence, std::size_t count, std::size_t policies, bool may_rise,
                     const Visitor& visit) {
  if (sequence.size() == count) return visit(sequence);
  const std::size_t end = may_rise || sequence.empty() ? policies : sequence.back() + std::size_t{1};
  for (std::size_t i = 0; i < end; ++i) {
    sequence.push_back(static_cast<std::uint8_t>(i));
    visit_sequences(sequence, count, policies, may_rise, visit);
    sequence.pop_back();
  }
}

// Whether at most `most` sequences exist, or with `may_rise` false, at most `most` that never rise.
bool are_few(std::size_t count, std::size_t policies, bool may_rise, std::size_t most) {
  double sequences = 1;
  for (std::size_t i = 1; i <= (may_rise ? count : policies - 1); ++i)
    sequences *= static_cast<double>(may_rise ? policies : count + i) / (may_rise ? 1.0 : static_cast<double>(i));
  return sequences <= static_cast<double>(most);
}

std::string describe(std::span<const std::string> blocks, const BlockCheckpoints& policies) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto policy_of = [&](const std::string& block) {
      const auto found = policies.find(block);
      return found == policies.end() ? Checkpoint::none : found->second;
    };
    ++count;
    if (i + 1 < blocks.size() && policy_of(blocks[i + 1]) == policy_of(blocks[i])) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", count, name(policy_of(blocks[i])));
    count = 0;
  }
  return text.empty() ? std::string(name(Checkpoint::none)) : text;
}

class Search {
 public:
  explicit Search(const CheckpointProblem& problem) : problem_(problem) {}

  CheckpointChoice run() {
    const ProgramPlan all_saved = problem_.plan_of({}, problem_.mode);
    blocks_ = blocks_of(all_saved.graph());
    if (attempt(all_saved, {}, 0) || blocks_.empty() || problem_.mode == Mode::forward) return finish();
    add_policy(Checkpoint::none, all_saved);
    for (const Checkpoint policy : kPolicies) {
      if (policy == Checkpoint::none) continue;
      const BlockCheckpoints blocks = uniform(policy);
      const ProgramPlan plan = problem_.plan_of(blocks, problem_.mode);
      attempt(plan, blocks, add_policy(policy, plan));
    }
    remove_dominated_policies();
    make_assignments();
    narrow();
    improve();
    return finish();
  }

 private:
  struct Trial {
    ProgramPlan plan;
    BlockCheckpoints blocks;
    double cost;
    std::size_t reserved_bytes;
  };

  // Whether the run fits. Keeps the cheapest plan that fits, and the plan that comes nearest to fitting.
  bool attempt(const ProgramPlan& plan, const BlockCheckpoints& blocks, double cost) {
    planned_nodes_ += plan.graph().order().size();
    const ForecastOptions options{.stop_point = problem_.stop_point};
    const MemoryForecast forecast = forecast_memory(plan, options);
    const std::size_t reserved_bytes = forecast.use.peak_reserved_bytes;
    const bool is_enough = forecast_within(forecaster_of(plan, options), forecast, problem_.memory_bytes).has_value();
    if (is_enough && (!best_ || cost < best_->cost)) {
      best_ = Trial{plan, blocks, cost, reserved_bytes};
    } else if (!is_enough && (!nearest_ || reserved_bytes < nearest_->reserved_bytes)) {
      nearest_ = Trial{plan, blocks, cost, reserved_bytes};
    }
    return is_enough;
  }

  bool attempt(Assignment& assignment) {
    assignment.is_tried = true;
    const BlockCheckpoints blocks = checkpoints_of(assignment);
    return attempt(problem_.plan_of(blocks, problem_.mode), blocks, assignment.cost);
  }

  BlockCheckpoints uniform(Checkpoint policy) const {
    BlockCheckpoints blocks;
    if (policy == Checkpoint::none) return blocks;
    for (const std::string& block : blocks_) blocks.emplace(block, policy);
    return blocks;
  }

  // The cost of the policy in all blocks.
  double add_policy(Checkpoint policy, const ProgramPlan& plan) {
    // A training forward recomputes nothing; the backward that follows it does.
    const ProgramPlan backward =
        problem_.mode == Mode::training_forward ? problem_.plan_of(uniform(policy), Mode::forward_backward) : plan;
    UniformPolicy found{policy, recompute_cost_by_block(backward.graph(), blocks_, problem_.flops_per_byte), {}};
    // Each buffer and each workspace has an event when it is allocated and one when it is freed; some need a segment.
    MemoryTrace trace(4 * (plan.graph().value_count() + plan.graph().order().size()) + 1);
    forecast_memory(plan, {.iterations = 1, .stop_point = problem_.stop_point, .trace = &trace});
    found.memory = block_memory_of(plan.graph(), blocks_, trace);
    policies_.push_back(std::move(found));
    return std::accumulate(policies_.back().cost.begin(), policies_.back().cost.end(), 0.0);
  }

  // Later ones recompute more.
  void remove_dominated_policies() {
    std::ranges::stable_sort(policies_, {}, &UniformPolicy::cost);
    std::vector<UniformPolicy> kept;
    for (UniformPolicy& policy : policies_) {
      if (std::ranges::none_of(kept, [&](const UniformPolicy& each) { return dominates(each, policy); }))
        kept.push_back(std::move(policy));
    }
    policies_ = std::move(kept);
  }

  // The assignments whose live bytes fit, the cheapest first.
  void make_assignments() {
    std::vector<BlockMemory> memory;
    for (const UniformPolicy& policy : policies_) memory.push_back(policy.memory);
    const bool may_rise = are_few(blocks_.size(), policies_.size(), true, kMostAssignments);
    std::size_t group = 1;  // of consecutive blocks
    const auto groups = [&] { return (blocks_.size() + group - 1) / group; };
    while (!may_rise && !are_few(groups(), policies_.size(), false, kMostOrderedAssignments)) ++group;
    std::vector<std::uint8_t> sequence;
    visit_sequences(sequence, groups(), policies_.size(), may_rise, [&](std::span<const std::uint8_t> of_groups) {
      Assignment assignment;
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        assignment.policies.push_back(of_groups[i / group]);
        assignment.cost += policies_[assignment.policies[i]].cost[i];
      }
      assignment.live_bytes = live_bytes(memory, assignment.policies);
      if (assignment.live_bytes <= problem_.memory_bytes) assignments_.push_back(std::move(assignment));
    });
    std::ranges::sort(assignments_, {}, [](const Assignment& m) { return std::tie(m.cost, m.live_bytes, m.policies); });
  }

  // Looks only at assignments with fewer live bytes than every cheaper one. Finds the cheapest that fits by bisection,
  // as if every dearer one fitted too. The result is near the first of them, because an allocator needs little more
  // than the live bytes.
  void narrow() {
    std::vector<Assignment*> falling;
    for (Assignment& assignment : assignments_) {
      if (falling.empty() || assignment.live_bytes < falling.back()->live_bytes) falling.push_back(&assignment);
    }
    std::size_t begin = 0;  // earlier assignments do not fit
    std::size_t end = 0;    // this one fits
    for (std::size_t step = 1; end < falling.size() && !attempt(*falling[end]); step *= 2) {
      begin = end + 1;
      end = end + 1 == falling.size() ? falling.size() : std::min(end + step, falling.size() - 1);
    }
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      if (attempt(*falling[middle])) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
  }

  // Tries assignments that are cheaper than the best one, in order of their live bytes.
  void improve() {
    for (planned_nodes_ = 0; planned_nodes_ < kMostPlannedNodes;) {
      Assignment* next = nullptr;
      for (Assignment& assignment : assignments_) {
        if (best_ && assignment.cost >= best_->cost) break;
        if (!assignment.is_tried && (next == nullptr || assignment.live_bytes < next->live_bytes)) next = &assignment;
      }
      if (next == nullptr) return;
      attempt(*next);
    }
  }

  BlockCheckpoints checkpoints_of(const Assignment& assignment) const {
    BlockCheckpoints checkpoints;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Checkpoint policy = policies_[assignment.policies[i]].policy;
      if (policy != Checkpoint::none) checkpoints.emplace(blocks_[i], policy);
    }
    return checkpoints;
  }

  CheckpointChoice finish() {
    const Trial& found = best_ ? *best_ : *nearest_;
    CheckpointChoice choice{found.plan, found.blocks, describe(blocks_, found.blocks)};
    choice.fits = best_.has_value();
    for (const Assignment& assignment : assignments_) {
      if (assignment.is_tried) continue;
      if (best_ && assignment.cost < best_->cost) choice.gap = 1 - assignment.cost / best_->cost;
      break;
    }
    return choice;
  }

  const CheckpointProblem& problem_;
  std::vector<std::string> blocks_;
  std::vector<UniformPolicy> policies_;  // later ones recompute more
  std::vector<Assignment> assignments_;  // the cheapest first
  std::optional<Trial> best_;            // the cheapest that fits
  std::optional<Trial> nearest_;         // of those that do not fit
  std::size_t planned_nodes_ = 0;
};

}  // namespace

CheckpointChoice choose_checkpoints(const CheckpointProblem& problem) { return Search(problem).run(); }

}  // namespace ridgepoint
