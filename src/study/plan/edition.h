// The measurements of a study, as data: the exercise of a course (--like), or a selection that suits the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

struct StudyMachine;

using Lengths = std::vector<std::int64_t>;

struct Edition {
  std::string_view name = {};  // as --like takes it; empty: of no course
  // The card of the course. A machine without a card plans for this card what it cannot run. Empty: what cannot run is
  // left out.
  std::string_view card = {};

  std::vector<std::string> models = {};           // of the step benchmark, the smallest first
  std::vector<std::string> compiled_models = {};  // empty: the large model, and the main one
  std::vector<std::string> profiled_models = {};  // empty: the main model; and so below
  std::vector<std::string> memory_models = {};
  std::string timeline_model = {};
  Lengths timeline_contexts = {};       // besides `context`
  std::string checkpointed_model = {};  // empty: the large model
  std::int64_t context = 256;           // where a part has no lengths of its own
  Lengths contexts = {128, 256, 512, 1024};
  Lengths profiled_contexts = {256};
  Lengths memory_contexts = {128, 256, 512};

  // Activation checkpointing by blocks in a segment, at one context. Empty: policies are compared instead.
  Lengths segments = {}, nested_segments = {};
  std::int64_t checkpointed_context = 256;

  // Attention: widths by sequences.
  Lengths widths = {16, 32, 64, 128};
  Lengths sequences = {256, 1024, 4096, 8192, 16384};
  std::int64_t attention_steps = 20;  // on a GPU

  // Tiled attention.
  std::int64_t flash_batch = 8;
  bool is_flash_causal = false;
  std::vector<DType> flash_dtypes = {DType::fp32};
  std::vector<std::string> flash_variants = {"flash"};
  Lengths flash_widths = {64};
  Lengths flash_sequences = {1024, 4096, 8192, 16384, 32768, 65536};

  std::int64_t ranks = 1;           // of data parallelism
  std::string parallel_model = {};  // whose gradients are summed in several ways; empty: of none
  // Further options of `plan --explain`: the sizes of a model that is only calculated. Empty: of none.
  std::vector<std::string> calculated_model = {};
  // The command line, without its device, of the problem in which solutions compete. Empty: there is none.
  std::vector<std::string> leaderboard = {};
  double leaderboard_flops = 0;  // of one iteration
  // Of collectives, as --size takes them: on a GPU, and on a processor.
  std::string_view message_sizes = "1KiB:1GiB:*4";
  std::string_view message_sizes_of_cpu = "1KiB:16MiB:*4";
  Lengths processes = {};  // numbers of processes on the processor, besides the ranks of the study
};

// The names of the editions of the exercise, oldest first.
std::vector<std::string_view> edition_names();

// The edition with this name; the empty name: what suits the machine. Throws Error (usage) that lists the names.
Edition edition_named(std::string_view name, const StudyMachine& machine);

}  // namespace ridgepoint
