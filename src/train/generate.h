// Text from a language model, token by token.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/models/run_config.h"
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

// Runs forward with the parameters of a configuration. If the text is the previous text and one more token, only that
// token is computed, unless the model has no key-value cache (why_no_key_cache()). Any other text is computed as a
// whole. Programs for sequences of 32, 64, ... tokens and for one token are made when they are needed. A workload that
// is no Transformer runs its whole batch and context for each token; the text begins the first row.
class LanguageModel {
 public:
  // Throws Error (usage) for a workload that writes no text (models/text_workload.h). Keys and values are kept for
  // texts of at most `most_tokens`, and at most the context.
  LanguageModel(RunConfig config, std::int64_t most_tokens, StepWatcher watch = {});

  // The logits of the next token. If there are more tokens than the context, the last ones are read. Throws Error for a
  // token beyond the vocabulary.
  std::vector<float> logits_after(std::span<const std::int64_t> tokens);

 private:
  std::unique_ptr<ForwardProgram> make(TransformerConfig model, std::int64_t context, KeyCache cache) const;
  ForwardProgram& program_for(std::int64_t tokens);
  // Whether the keys and values of all but the last token are known.
  bool follows(std::span<const std::int64_t> tokens) const;
  void keep_keys();

  RunConfig config_;
  std::optional<TransformerConfig> model_;
  std::int64_t context_;
  std::int64_t most_kept_ = 0;  // tokens; 0: keys and values are not kept
  StepWatcher watch_;
  std::map<std::int64_t, std::unique_ptr<ForwardProgram>> programs_;  // by the length of their sequences
  std::unique_ptr<ForwardProgram> one_token_;                         // beside kept keys
  std::vector<std::int64_t> known_;                                   // the tokens of the last run
  ForwardProgram* whole_ = nullptr;  // of these programs, the one that has keys and values of the last run
};

}  // namespace ridgepoint::train
