#include "study/plan/edition.h"

#include "core/text/nearest.h"
#include "study/plan/plan.h"

namespace ridgepoint {
namespace {

// Stanford CS336, assignment 2: both editions benchmark attention alone and its tiled variant in the same way.
Edition course(Edition edition) {
  edition.attention_steps = 100;
  edition.flash_batch = 1;
  edition.is_flash_causal = true;
  edition.flash_dtypes = {DType::bf16, DType::fp32};
  edition.flash_variants = {"flash", "composite"};
  edition.flash_widths = {16, 32, 64, 128};
  edition.flash_sequences = {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
  edition.ranks = 2;
  edition.message_sizes = "1MB:1GB:*10";
  edition.message_sizes_of_cpu = "1MB:100MB:*10";
  edition.processes = {2, 4, 6};
  return edition;
}

Edition suited_to(const StudyMachine& machine) {
  if (!machine.is_gpu()) return {.models = {"tiny", "22.7m", "small", "medium", "large"}};
  return {.models = {"small", "medium", "large", "xl", "2.7b"}, .memory_models = {"small", "2.7b"}};
}

// Oldest first.
const std::vector<Edition>& course_editions() {
  static const std::vector<Edition> editions = {
      course({.name = "cs336-2025",
              .card = "H100 SXM",
              .models = {"small", "medium", "large", "xl", "2.7b"},
              .compiled_models = {"small", "medium", "large", "xl", "2.7b"},
              .profiled_models = {"small", "large"},
              .memory_models = {"2.7b"},
              .timeline_model = "2.7b",
              .profiled_contexts = {128, 512, 1024},
              .parallel_model = "xl",
              .calculated_model = {"--layers", "126", "--d-model", "16384", "--d-ff", "53248", "--heads", "128"},
              .leaderboard = {"attention", "--attention", "flash", "--dtype", "bf16", "--causal", "true", "--batch",
                              "1", "--heads", "16", "--d-model", "1024", "--sequence", "16384"},
              .leaderboard_flops = 2.5e12}),
      course({.name = "cs336-2026",
              .card = "B200",
              .models = {"small", "medium", "large", "xl-2026", "10b"},
              .compiled_models = {"small", "medium", "large", "xl-2026"},
              .profiled_models = {"small", "large"},
              .memory_models = {"xl-2026"},
              .timeline_model = "xl-2026",
              .timeline_contexts = {128, 2048},
              .checkpointed_model = "xl-2026",
              .context = 512,
              .contexts = {128, 512, 1024, 2048},
              .profiled_contexts = {128, 512, 1024},
              .memory_contexts = {128, 2048},
              .segments = {1, 2, 3, 4, 6, 8, 16},
              .nested_segments = {4, 8, 16},
              .checkpointed_context = 2048,
              .parallel_model = "xl-2026",
              .leaderboard = {"bench",  "--mode",     "step",   "--layers",    "34",         "--d-model",
                              "4096",   "--d-ff",     "11008",  "--heads",     "32",         "--vocab",
                              "151936", "--batch",    "1",      "--context",   "32768",      "--dtype",
                              "bf16",   "--compile",  "full",   "--attention", "flash",      "--checkpoint",
                              "block",  "--parallel", "data=2", "--shard",     "parameters", "--ranks",
                              "2"},
              .leaderboard_flops = 4e15}),
  };
  return editions;
}

}  // namespace

std::vector<std::string_view> edition_names() {
  std::vector<std::string_view> names;
  for (const Edition& edition : course_editions()) names.push_back(edition.name);
  return names;
}

Edition edition_named(std::string_view name, const StudyMachine& machine) {
  if (name.empty()) return suited_to(machine);
  for (const Edition& edition : course_editions())
    if (edition.name == name) return edition;
  refuse_name(name, "--like: '{}' is no edition of the exercise", edition_names());
}

}  // namespace ridgepoint
