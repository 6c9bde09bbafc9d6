// The search. For each number of micro-batches and each set of kept tensors, one plan has the set in all blocks. It
// gives the bytes that a block saves, the bytes that are live while the block runs, and the time of the block. The live
// bytes and the time of any assignment of sets to blocks follow, and dynamic programming finds the fastest assignment
// within a budget (assign_sets.h). Budgets are multiples of a fixed step, so that a larger memory tries every budget of
// a smaller one. The assignment of the largest budget whose plan fits is taken. Every plan is forecast with the
// allocator.
#include "predict/schedule/choose_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "ir/scope.h"
#include "passes/memory/block_tensors.h"
#include "predict/block_memory.h"
#include "predict/forecast.h"
#include "predict/schedule/assign_sets.h"
#include "predict/schedule/kept_sets.h"

namespace ridgepoint {
namespace {

// Many sets are tried in few plans, in which each block has another set; the best sets are then planned in all blocks.
// These numbers bound the nodes of all plans and the planned sets. A count, not a time, bounds the work, so that the
// choice is the same on every machine.
constexpr std::size_t kTriedNodes = 60'000;
constexpr std::size_t kPlannedNodes = 20'000;
constexpr std::size_t kLeastSets = 16;
constexpr std::size_t kMostSets = 255;
// Budgets are multiples of 1/kBudgets of the live bytes of the run that keeps everything.
constexpr std::size_t kBudgets = 2048;
constexpr std::size_t kGiB = std::size_t{1} << 30;

// The candidates for a number of micro-batches: the sets of each block. The first set keeps everything.
struct Sets {
  std::vector<BlockTensors> blocks;
  std::vector<std::vector<KeptSet>> of_block;

  std::size_t most() const {
    std::size_t most = 1;
    for (const std::vector<KeptSet>& sets : of_block) most = std::max(most, sets.size());
    return most;
  }
  const KeptSet& set(std::size_t block, std::size_t option) const {
    return of_block[block][std::min(option, of_block[block].size() - 1)];
  }
};

using Options = std::vector<std::uint8_t>;  // by block

Options alike(const Sets& sets, std::size_t option) {
  return Options(sets.blocks.size(), static_cast<std::uint8_t>(option));
}

std::map<std::string, Saving, std::less<>> savings_of(const BlockTensors& tensors, const KeptSet& kept) {
  std::map<std::string, Saving, std::less<>> choices;
  for (std::size_t t = 0; t < kept.size(); ++t) choices[tensors.names[t]] = kept[t] ? Saving::keep : Saving::recompute;
  return choices;
}

// By block, the tensors that are kept or computed again; a block that keeps all tensors has no entry.
BlockTensorSavings savings(const Sets& sets, const Options& options) {
  BlockTensorSavings savings;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] != 0) savings[sets.blocks[i].block] = savings_of(sets.blocks[i], sets.set(i, options[i]));
  }
  return savings;
}

// A plan with its predicted memory and time.
struct Trial {
  ProgramPlan plan;
  MemoryForecast forecast;
  double ms = 0;

  std::size_t reserved_bytes() const { return forecast.use.peak_reserved_bytes; }
};

// One number of micro-batches and one size of chunks.
struct Division {
  std::int64_t micro_batches = 1;
  std::int64_t loss_chunk_rows = 0;
  const Sets* sets = nullptr;
  // The live bytes of an assignment: its plan needs no less, and little more. The difference is the result of the block
  // before the one that runs.
  AssignmentProblem at_least = {};
  AssignmentProblem nearly = {};
  double outside_ms = 0;   // of all that is in no block
  double keep_all_ms = 0;  // of the run that keeps everything
  std::size_t budget_step = 0;
  std::map<Options, Trial> trials = {};
};

// The figures of a run with the same option in all blocks.
struct Measured {
  double ms = 0;
  double launches_ms = 0;  // of all launches: less than `ms` where they wait for the host
  std::vector<double> block_ms = {};
  BlockMemory memory = {};

  double outside_ms() const { return launches_ms - std::accumulate(block_ms.begin(), block_ms.end(), 0.0); }
  std::int64_t live() const {
    const Options options(block_ms.size());
    return static_cast<std::int64_t>(live_bytes({&memory, 1}, options));
  }
};

// "layers.0-3, 8": blocks that follow one another are a range.
std::string ranges_of(const Sets& sets, const std::vector<std::size_t>& blocks) {
  std::string text;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i + 1;
    while (end < blocks.size() && blocks[end] == blocks[end - 1] + 1) ++end;
    const auto number = [&](std::size_t at) {
      const std::string& name = sets.blocks[blocks[at]].block;
      return name.substr(name.rfind('.') + 1);
    };
    text += i == 0 ? sets.blocks[blocks[0]].block : ", " + number(i);
    if (end > i + 1) text += "-" + number(end - 1);
    i = end;
  }
  return text;
}

// The tensors that are kept, or those that are computed again, whichever list is shorter.
std::string description_of(const BlockTensors& tensors, const KeptSet& kept) {
  const KeptSet again = computed_again(tensors, kept);
  std::vector<std::string> kept_names;
  std::vector<std::string> names_again;
  for (std::size_t t = 0; t < kept.size(); ++t) {
    if (kept[t]) kept_names.push_back(tensors.names[t]);
    if (again[t]) names_again.push_back(tensors.names[t]);
  }
  if (kept_names.empty()) return "keep their input alone";
  return kept_names.size() <= names_again.size() ? fmt::format("keep {}", fmt::join(kept_names, ", "))
                                                 : fmt::format("compute again {}", fmt::join(names_again, ", "));
}

class Search {
 public:
  explicit Search(ScheduleProblem problem) : problem_(std::move(problem)) {}

  ScheduleChoice run(std::size_t memory_bytes) {
    const std::optional<Found> found = within(memory_bytes);
    if (!found) return finish(least(), {});
    const double bound = bound_ms_;
    const Found with_more = *within(memory_bytes + kGiB, found);
    ScheduleChoice choice = finish(*found, found->trial->ms - with_more.trial->ms);
    constexpr double kAlike = 1e-9;  // sums of the same times in another order
    choice.bound_ms = bound < choice.ms * (1 - kAlike) ? bound : choice.ms;
    return choice;
  }

 private:
  struct Found {
    Division* division = nullptr;
    Options options;
    Trial* trial = nullptr;
  };

  static void take_faster(std::optional<Found>& best, std::optional<Found> found) {
    if (found && (!best || found->trial->ms < best->trial->ms)) best = std::move(found);
  }

  // Tries more micro-batches while a step that keeps everything could still be faster than `best`, which is known to
  // fit: each further micro-batch makes it slower.
  std::optional<Found> within(std::size_t memory_bytes, std::optional<Found> best = {}) {
    bound_ms_ = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < problem_.micro_batches.size(); ++i) {
      if (best && keep_all(i, 0).ms >= best->trial->ms) break;
      if (i > 0 && least_outside_blocks(i) > memory_bytes) continue;
      for (Division& division : divisions_of(i)) {
        if (!best || division.keep_all_ms < best->trial->ms) take_faster(best, within(division, memory_bytes, best));
      }
    }
    return best;
  }

  // The live bytes when no block runs, for any choice of kept tensors.
  std::size_t least_outside_blocks(std::size_t micro_batches) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (std::size_t chunk = 0; chunk < problem_.loss_chunks.size(); ++chunk) {
      if (differs(micro_batches, chunk))
        least = std::min(least, std::ranges::max(keep_all(micro_batches, chunk).memory.outside_bytes));
    }
    return least;
  }

  // Whether chunks of this size divide the loss of a micro-batch, or the size is 0, a whole loss. Larger chunks would
  // leave the loss whole, too.
  bool differs(std::size_t micro_batches, std::size_t chunk) const {
    const std::int64_t tokens = problem_.loss_chunks[chunk];
    return tokens == 0 || tokens < problem_.tokens / problem_.micro_batches[micro_batches];
  }

  // Empty, too, if none can be faster than `known`.
  std::optional<Found> within(Division& division, std::size_t memory_bytes, const std::optional<Found>& known) {
    const std::optional<BlockAssignment> fastest = assign_sets(division.at_least, memory_bytes);
    if (!fastest) return std::nullopt;
    const double least_ms = division.outside_ms + fastest->ms;
    bound_ms_ = std::min(bound_ms_, least_ms);
    if (known && least_ms >= known->trial->ms) return std::nullopt;
    std::optional<Found> best = within_budgets(division, memory_bytes);
    take_faster(best, within_alike(division, memory_bytes, best));
    return best;
  }

  std::optional<Found> within_budgets(Division& division, std::size_t memory_bytes) {
    std::optional<Options> before;
    for (std::size_t budget = std::min(memory_bytes / division.budget_step, kBudgets); budget > 0; --budget) {
      std::optional<BlockAssignment> assignment = assign_sets(division.nearly, budget * division.budget_step);
      if (!assignment) break;
      if (before == assignment->options) continue;
      Trial& trial = attempt(division, assignment->options);
      if (fits(trial, memory_bytes)) return Found{&division, std::move(assignment->options), &trial};
      before = std::move(assignment->options);
    }
    return std::nullopt;
  }

  // The fastest schedule with the same option in all blocks, if it is faster than the best of the budgets.
  std::optional<Found> within_alike(Division& division, std::size_t memory_bytes, const std::optional<Found>& best) {
    std::optional<Found> found;
    for (std::size_t option = 0; option < division.at_least.memory.size(); ++option) {
      const std::vector<double>& of_blocks = division.at_least.ms[option];
      const double ms = std::accumulate(of_blocks.begin(), of_blocks.end(), division.outside_ms);
      if ((best && ms >= best->trial->ms) || (found && ms >= found->trial->ms)) continue;
      Options options = alike(*division.sets, option);
      if (live_bytes(division.at_least.memory, options) > memory_bytes) continue;
      Trial& trial = attempt(division, options);
      if (fits(trial, memory_bytes)) take_faster(found, Found{&division, std::move(options), &trial});
    }
    return found;
  }

  bool fits(const Trial& trial, std::size_t memory_bytes) const {
    const ForecastOptions options{.stop_point = problem_.stop_point};
    return forecast_within(forecaster_of(trial.plan, options), trial.forecast, memory_bytes).has_value();
  }

  // The schedule that needs the least memory.
  Found least() {
    std::optional<Found> best;
    const auto take = [&](Division& division, Options options) {
      Trial& trial = attempt(division, options);
      if (!best || trial.reserved_bytes() < best->trial->reserved_bytes())
        best = Found{&division, std::move(options), &trial};
    };
    for (std::size_t i = 0; i < problem_.micro_batches.size(); ++i) {
      if (best && least_outside_blocks(i) >= best->trial->reserved_bytes()) continue;
      for (Division& division : divisions_of(i)) {
        take(division, of_least_budget(division));
        for (std::size_t option = 0; option < division.nearly.memory.size(); ++option) {
          Options options = alike(*division.sets, option);
          if (live_bytes(division.at_least.memory, options) < best->trial->reserved_bytes())
            take(division, std::move(options));
        }
      }
    }
    return *best;
  }

  static Options of_least_budget(const Division& division) {
    std::size_t low = 0;
    std::size_t high = kBudgets;  // within it there is an assignment
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      if (assign_sets(division.nearly, middle * division.budget_step)) {
        high = middle;
      } else {
        low = middle;
      }
    }
    return assign_sets(division.nearly, high * division.budget_step)->options;
  }

  Trial& attempt(Division& division, const Options& options) const {
    const auto known = division.trials.find(options);
    if (known != division.trials.end()) return known->second;
    if (problem_.stop_point) problem_.stop_point();
    ProgramPlan plan =
        problem_.plan_of({division.micro_batches, division.loss_chunk_rows, savings(*division.sets, options)});
    const double ms = problem_.time_of(plan).ms;
    MemoryForecast forecast = forecast_memory(plan, {.stop_point = problem_.stop_point});
    return division.trials.emplace(options, Trial{std::move(plan), std::move(forecast), ms}).first->second;
  }

  // The run that keeps everything, with so many micro-batches and such chunks, by their indices.
  const Measured& keep_all(std::size_t micro_batches, std::size_t chunk) {
    const auto key = std::pair(micro_batches, chunk);
    const auto known = keep_all_.find(key);
    if (known != keep_all_.end()) return known->second;
    const Schedule schedule{problem_.micro_batches[micro_batches], problem_.loss_chunks[chunk], {}};
    return keep_all_.emplace(key, measure(schedule)).first->second;
  }

  Measured measure(const Schedule& schedule) const {
    if (problem_.stop_point) problem_.stop_point();
    const ProgramPlan plan = problem_.plan_of(schedule);
    const Graph& graph = plan.graph();
    const ScheduleTime time = problem_.time_of(plan);
    const std::vector<std::string> blocks = blocks_of(graph);
    Measured measured{.ms = time.ms};
    std::map<std::string_view, double> by_block;
    for (const LaunchForecast& launch : time.launches) {
      measured.launches_ms += launch.ms;
      by_block[block_of(graph.scope_name(graph.node(launch.node)))] += launch.ms;
    }
    for (const std::string& block : blocks) measured.block_ms.push_back(by_block[block]);
    // Each buffer and each workspace has an event when it is allocated and one when it is freed; some need a segment,
    // too.
    MemoryTrace trace(4 * (graph.value_count() + graph.order().size()) + 1);
    forecast_memory(plan, {.iterations = 1, .stop_point = problem_.stop_point, .trace = &trace});
    measured.memory = block_memory_of(graph, blocks, trace);
    return measured;
  }

  const Sets& sets_of(std::size_t micro_batches) {
    const auto known = sets_.find(micro_batches);
    if (known != sets_.end()) return known->second;
    const Graph graph = problem_.graph_of(problem_.micro_batches[micro_batches]);
    Sets sets{tensors_of_blocks(graph), {}};
    if (micro_batches > 0) {
      sets.of_block = best_sets_of_one_batch();
    } else {
      find_sets(graph, sets);
    }
    return sets_.emplace(micro_batches, std::move(sets)).first->second;
  }

  // Blocks with the same tensors are alike.
  void find_sets(const Graph& graph, Sets& sets) {
    std::map<std::vector<std::string>, std::vector<std::size_t>> kinds;
    for (std::size_t i = 0; i < sets.blocks.size(); ++i) kinds[sets.blocks[i].names].push_back(i);
    const std::size_t plans = std::max<std::size_t>(kTriedNodes / graph.order().size(), 1);
    const std::size_t most = std::clamp(kPlannedNodes / graph.order().size(), kLeastSets, kMostSets);
    std::vector<std::vector<KeptSet>> candidates(sets.blocks.size());  // of the first block of each kind
    std::size_t rounds = 0;
    for (const auto& [names, blocks] : kinds) {
      std::vector<KeptSet>& of_kind = candidates[blocks.front()];
      of_kind = sets_worth_keeping(graph, sets.blocks[blocks.front()], problem_.flops_per_byte,
                                   std::max(plans * blocks.size(), most));
      if (of_kind.size() > most) rounds = std::max(rounds, (of_kind.size() + blocks.size() - 1) / blocks.size());
    }
    std::map<std::size_t, std::vector<KeptSetCost>> costs;
    for (std::size_t round = 0; round < rounds; ++round) try_sets(sets, kinds, candidates, round, costs);
    sets.of_block.resize(sets.blocks.size());
    for (const auto& [names, blocks] : kinds) {
      std::vector<KeptSet>& of_kind = candidates[blocks.front()];
      std::vector<KeptSet> chosen = {KeptSet(names.size(), true)};
      if (rounds == 0) {
        chosen.insert(chosen.end(), of_kind.begin(), of_kind.end());
      } else {
        for (const std::size_t i : nearest_to_hull(costs[blocks.front()], most)) chosen.push_back(of_kind[i]);
      }
      for (const std::size_t block : blocks) sets.of_block[block] = chosen;
    }
  }

  // Plans a run in which each block has another candidate, and adds the candidates' cost against keeping everything.
  void try_sets(const Sets& sets, const std::map<std::vector<std::string>, std::vector<std::size_t>>& kinds,
                const std::vector<std::vector<KeptSet>>& candidates, std::size_t round,
                std::map<std::size_t, std::vector<KeptSetCost>>& costs) {
    Schedule schedule{problem_.micro_batches.front(), problem_.loss_chunks.front(), {}};
    const auto visit = [&](const auto& call) {
      for (const auto& [names, blocks] : kinds) {
        const std::vector<KeptSet>& of_kind = candidates[blocks.front()];
        for (std::size_t i = 0; i < blocks.size() && round * blocks.size() + i < of_kind.size(); ++i)
          call(blocks.front(), blocks[i], of_kind[round * blocks.size() + i]);
      }
    };
    visit([&](std::size_t, std::size_t block, const KeptSet& kept) {
      schedule.tensors[sets.blocks[block].block] = savings_of(sets.blocks[block], kept);
    });
    const Measured measured = measure(schedule);
    const Measured& all = keep_all(0, 0);
    visit([&](std::size_t kind, std::size_t block, const KeptSet&) {
      costs[kind].push_back(
          {static_cast<double>(measured.memory.saved_bytes[block]) - static_cast<double>(all.memory.saved_bytes[block]),
           measured.block_ms[block] - all.block_ms[block]});
    });
  }

  // A set that is dominated in every block of one batch is not planned for more micro-batches.
  std::vector<std::vector<KeptSet>> best_sets_of_one_batch() {
    const AssignmentProblem& assignment = divisions_of(0).front().at_least;
    const Sets& of_one = sets_of(0);
    std::vector<std::vector<KeptSet>> best(of_one.blocks.size());
    for (std::size_t option = 0; option < of_one.most(); ++option) {
      bool is_needed = option == 0;
      for (std::size_t i = 0; i < best.size(); ++i)
        is_needed = is_needed || !is_dominated(assignment, static_cast<std::uint8_t>(option), i);
      if (!is_needed) continue;
      for (std::size_t i = 0; i < best.size(); ++i) best[i].push_back(of_one.set(i, option));
    }
    return best;
  }

  // With every size of chunks that makes a difference. The bytes and the time of a block do not depend on the size.
  std::vector<Division>& divisions_of(std::size_t micro_batches) {
    const auto known = divisions_.find(micro_batches);
    if (known != divisions_.end()) return known->second;
    const Sets& sets = sets_of(micro_batches);
    AssignmentProblem of_first;
    const auto add = [&](const Measured& measured) {
      of_first.memory.push_back(measured.memory);
      of_first.ms.push_back(measured.block_ms);
    };
    add(keep_all(micro_batches, 0));
    // All micro-batches after the first are alike, so two stand for many.
    const std::int64_t count = problem_.micro_batches[micro_batches];
    const std::int64_t planned = std::min<std::int64_t>(count, 2);
    const auto measured_of = [&](std::size_t option) {
      return measure({count, problem_.loss_chunks.front(), savings(sets, alike(sets, option)), planned});
    };
    const Measured base = count > planned ? measured_of(0) : keep_all(micro_batches, 0);
    for (std::size_t option = 1; option < sets.most(); ++option) {
      Measured measured = measured_of(option);
      const double scale = static_cast<double>(count) / static_cast<double>(planned);
      for (std::size_t i = 0; i < measured.block_ms.size(); ++i)
        measured.block_ms[i] = of_first.ms[0][i] + scale * (measured.block_ms[i] - base.block_ms[i]);
      add(measured);
    }
    std::vector<Division> divisions;
    for (std::size_t chunk = 0; chunk < problem_.loss_chunks.size(); ++chunk) {
      if (differs(micro_batches, chunk)) divisions.push_back(division_of(micro_batches, chunk, of_first));
    }
    return divisions_.emplace(micro_batches, std::move(divisions)).first->second;
  }

  Division division_of(std::size_t micro_batches, std::size_t chunk, const AssignmentProblem& of_first) {
    const Measured& all = keep_all(micro_batches, chunk);
    const Measured& first = keep_all(micro_batches, 0);
    Division division{.micro_batches = problem_.micro_batches[micro_batches],
                      .loss_chunk_rows = problem_.loss_chunks[chunk],
                      .sets = &sets_of(micro_batches),
                      .at_least = of_first,
                      .outside_ms = all.outside_ms(),
                      .keep_all_ms = all.ms};
    for (BlockMemory& memory : division.at_least.memory) {
      for (std::size_t i = 0; i < memory.outside_bytes.size(); ++i) {
        const std::size_t sum = all.memory.outside_bytes[i] + memory.outside_bytes[i];
        memory.outside_bytes[i] = sum - std::min(sum, first.memory.outside_bytes[i]);
      }
    }
    division.nearly = division.at_least;
    for (BlockMemory& memory : division.nearly.memory) memory.kept_bytes = memory.saved_bytes;
    division.budget_step = live_bytes(division.nearly.memory, alike(*division.sets, 0)) / kBudgets + 1;
    return division;
  }

  ScheduleChoice finish(const Found& found, std::optional<double> next_gib_saves_ms) {
    const Division& division = *found.division;
    return {.schedule = {division.micro_batches, division.loss_chunk_rows, savings(*division.sets, found.options)},
            .plan = found.trial->plan,
            .fits = next_gib_saves_ms.has_value(),
            .peak_bytes = found.trial->reserved_bytes(),
            .ms = found.trial->ms,
            .bound_ms = found.trial->ms,
            .next_gib_saves_ms = next_gib_saves_ms,
            .parts = parts_of(division, found.options)};
  }

  std::vector<SchedulePart> parts_of(const Division& division, const Options& options) {
    std::vector<SchedulePart> parts;
    const auto add = [&](std::string what, const Measured& from, const Measured& to) {
      parts.push_back({std::move(what), from.live() - to.live(), to.ms - from.ms});
    };
    const auto index_of = [](const std::vector<std::int64_t>& list, std::int64_t value) {
      return static_cast<std::size_t>(std::ranges::find(list, value) - list.begin());
    };
    const std::size_t micro_batches = index_of(problem_.micro_batches, division.micro_batches);
    const std::size_t chunk = index_of(problem_.loss_chunks, division.loss_chunk_rows);
    if (micro_batches > 0)
      add(fmt::format("{} micro-batches", division.micro_batches), keep_all(0, 0), keep_all(micro_batches, 0));
    if (chunk > 0)
      add(fmt::format("the loss in chunks of {} tokens", division.loss_chunk_rows), keep_all(micro_batches, 0),
          keep_all(micro_batches, chunk));
    std::map<std::pair<std::vector<std::string>, KeptSet>, std::vector<std::size_t>> blocks;
    std::vector<const std::vector<std::size_t>*> in_order;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const bool is_same = is_like_keeping_all(division, i, options[i]);
      std::vector<std::size_t>& same =
          is_same ? blocks[{}] : blocks[{division.sets->blocks[i].names, division.sets->set(i, options[i])}];
      if (same.empty()) in_order.push_back(&same);
      same.push_back(i);
    }
    for (const std::vector<std::size_t>* same : in_order) parts.push_back(part_of(division, options, *same));
    return parts;
  }

  // Backward may compute a tensor again in any case.
  static bool is_like_keeping_all(const Division& division, std::size_t block, std::uint8_t option) {
    constexpr double kLeastMs = 1e-6;
    const AssignmentProblem& all = division.at_least;
    return all.memory[option].saved_bytes[block] == all.memory[0].saved_bytes[block] &&
           std::abs(all.ms[option][block] - all.ms[0][block]) < kLeastMs;
  }

  // For blocks with the same tensors and the same choice.
  static SchedulePart part_of(const Division& division, const Options& options,
                              const std::vector<std::size_t>& blocks) {
    const AssignmentProblem& all = division.at_least;
    const Sets& sets = *division.sets;
    const KeptSet& kept = sets.set(blocks.front(), options[blocks.front()]);
    SchedulePart part{.what = ranges_of(sets, blocks) + " "};
    part.what += is_like_keeping_all(division, blocks.front(), options[blocks.front()])
                     ? "keep everything"
                     : description_of(sets.blocks[blocks.front()], kept);
    for (const std::size_t block : blocks) {
      const std::uint8_t option = options[block];
      part.bytes += static_cast<std::int64_t>(all.memory[0].saved_bytes[block]) -
                    static_cast<std::int64_t>(all.memory[option].saved_bytes[block]);
      part.ms += all.ms[option][block] - all.ms[0][block];
    }
    return part;
  }

  ScheduleProblem problem_;
  std::map<std::size_t, Sets> sets_;  // by the index of the number of micro-batches
  std::map<std::pair<std::size_t, std::size_t>, Measured> keep_all_;
  std::map<std::size_t, std::vector<Division>> divisions_;
  double bound_ms_ = 0;
};

}  // namespace

ScheduleChooser schedule_chooser(ScheduleProblem problem) {
  return [search = std::make_shared<Search>(std::move(problem))](std::size_t memory_bytes) {
    return search->run(memory_bytes);
  };
}

}  // namespace ridgepoint
