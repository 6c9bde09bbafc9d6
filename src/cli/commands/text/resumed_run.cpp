#include "cli/commands/text/resumed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/terminal/messages.h"

namespace ridgepoint::cli {
namespace {

// A run that goes on must agree with the checkpoint in the first list; where it differs in the second one, or in
// another setting of training, its losses are not those of the run without the interruption.
constexpr std::array<std::string_view, 7> kMustAgree = {"workload", "dtype",  "optimizer",   "master_weights",
                                                        "lora",     "frozen", "base_weights"};
constexpr std::array<std::string_view, 6> kShouldAgree = {"context", "sequences_of_a_step", "documents", "seed",
                                                          "shuffle", "data_fingerprint"};
// How a step is divided, and where its tensors lie.
constexpr std::array<std::string_view, 2> kMayDiffer = {"accumulate", "offload"};

bool is_in(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

// A schedule may go on in another way: --iterations may grow, and the stable part of wsd may end.
std::optional<std::string> difference_of_past_rates(const train::FoundCheckpoint& found, const Json& run) {
  const train::Schedule before = schedule_of(found.manifest.run), now = schedule_of(run);
  for (std::int64_t step = 1; step <= found.manifest.step; ++step) {
    if (before.learning_rate(step) == now.learning_rate(step)) continue;
    return fmt::format(
        "--resume: the learning rate of step {} was {:g}, and these options give it {:g}; the losses are "
        "not those of the run without an interruption",
        step, before.learning_rate(step), now.learning_rate(step));
  }
  return std::nullopt;
}

}  // namespace

train::Schedule schedule_of(const Json& run) {
  const auto steps = run.value("iterations", std::int64_t{1});
  const auto decay = run.value("decay_iterations", std::int64_t{0});
  return {.decay = train::decay_from_name(run.value("schedule", "constant")),
          .peak = run.value("learning_rate", 0.0),
          .lowest = run.value("min_learning_rate", 0.0),
          .warmup = run.value("warmup", std::int64_t{0}),
          .iterations = steps,
          .decay_steps = decay > 0 ? decay : (steps + 9) / 10};
}

std::vector<std::string> differences_of(const train::FoundCheckpoint& found, const Json& run,
                                        std::span<const std::string_view> training_fields) {
  const Json& before = found.manifest.run;
  const auto text = [](const Json& json, std::string_view key) { return dump_json(json.at(std::string(key))); };
  const auto differs = [&](std::string_view key) {  // not in a checkpoint from before there was such an option
    return before.contains(std::string(key)) && text(before, key) != text(run, key);
  };
  for (const std::string_view key : kMustAgree) {
    if (differs(key))
      refuse("--resume: the checkpoint is of a run with {} {}, and this one has {}", key, text(before, key),
             text(run, key));
  }
  std::vector<std::string_view> keys(kShouldAgree.begin(), kShouldAgree.end());
  // Older checkpoints have no fingerprint of the data, only their length.
  if (!before.contains("data_fingerprint")) keys.emplace_back("sequences");
  std::ranges::copy_if(training_fields, std::back_inserter(keys),
                       [](std::string_view key) { return !is_in(kMustAgree, key) && !is_in(kMayDiffer, key); });
  std::vector<std::string> differences;
  for (const std::string_view key : keys) {
    if (!differs(key)) continue;
    differences.push_back(
        fmt::format("--resume: {} was {} and is {}; the losses are not those of the run without an interruption", key,
                    text(before, key), text(run, key)));
  }
  if (std::optional<std::string> rates = difference_of_past_rates(found, run)) differences.push_back(*std::move(rates));
  return differences;
}

}  // namespace ridgepoint::cli
