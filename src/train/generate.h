// Text from a language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "ridgepoint/run_config.h"
#include "train/forward_program.h"

namespace ridgepoint::train {

struct SamplingOptions {
  double temperature = 1;  // 0: the likeliest token
  double top_p = 1;        // the fewest likeliest tokens whose probabilities sum to this (Holtzman et al. 2020)
  std::uint64_t seed = 0;
};

// Chooses a token by its logits.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}
  std::int64_t choose(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

// Runs forward with the parameters of a configuration. Each run computes all tokens so far: there is no cache of keys.
// Programs are made for sequences of 32, 64, ... tokens, when they are needed.
class LanguageModel {
 public:
  // Makes the workload of a context, with batch 1.
  using WorkloadOf = std::function<std::shared_ptr<const Workload>(std::int64_t context)>;
  // Throws Error (usage) for a workload that is no language model of what follows. `context` is the longest sequence.
  LanguageModel(RunConfig config, WorkloadOf workload_of, std::int64_t context, StepWatcher watch = {});

  // Of the token behind these; of more than the context, the last ones are read. Throws Error for a token beyond the
  // vocabulary.
  std::vector<float> logits_after(std::span<const std::int64_t> tokens);

 private:
  Program& program_for(std::int64_t tokens);

  RunConfig config_;
  WorkloadOf workload_of_;
  std::int64_t context_;
  StepWatcher watch_;
  std::map<std::int64_t, std::unique_ptr<ForwardProgram>> programs_;  // by the length of their sequences
};

}  // namespace ridgepoint::train
