// ridgepoint sample: text from a checkpoint or from published weights.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/run_options.h"
#include "cli/options/weights_file.h"
#include "cli/terminal/interrupt.h"
#include "core/files/file.h"
#include "core/text/text.h"
#include "interchange/tokenizer/tokenizer.h"
#include "models/text_workload.h"
#include "models/transformer/transformer.h"
#include "record/columns.h"
#include "record/fields.h"
#include "ridgepoint/core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/generate.h"

namespace ridgepoint::cli {
namespace {

using tokenizer::Id;
using tokenizer::Tokenizer;

constexpr std::uint64_t kMostPromptBytes = std::uint64_t{64} << 20;

// The bytes at the end of a text that begin a character of UTF-8 whose other bytes are missing, or that stand for such
// bytes: a decoder with byte fallback writes U+FFFD for each byte until they are characters.
std::size_t unfinished_bytes(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::size_t replaced = 0;
  while (text.substr(0, text.size() - replaced).ends_with(kReplacement)) replaced += kReplacement.size();
  if (replaced > 0) return replaced;
  constexpr std::size_t kMostBytes = 4;
  for (std::size_t back = 1; back <= std::min(kMostBytes, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // goes on
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

class Sample : public Command {
 public:
  Sample() {
    run_options_.set_default("--attention", "flash");
    run_options_.set_default("--compile", "full");
  }
  std::string_view name() const override { return "sample"; }
  std::string_view summary() const override { return "write text with a trained or published model"; }
  std::string_view examples() const override {
    return "ridgepoint sample --checkpoint runs/tiny --prompt 'In the beginning'\n"
           "ridgepoint sample --checkpoint runs/tiny --prompt 'And God' --tokens 200 --temperature 0.8 --top-p 0.95 "
           "--seed 1\n"
           "ridgepoint sample --weights gpt2 --tokenizer gpt2 --prompt 'Hello, I am' --temperature 0";
  }
  std::string_view notes() const override {
    return "Each token is computed from all tokens before it, up to --context. Attention caches their keys and "
           "values; a sentence says if the model does not allow it. The same seed gives the same text.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Text");
    group.add("--checkpoint", checkpoint_, "FOLDER", "a checkpoint of train, or a folder of them: the newest one");
    group.add("--prompt", prompt_, "TEXT", "the text to continue");
    group.add("--prompt-file", prompt_file_, "FILE", "a file with the text to continue");
    group.add("--tokens", tokens_, "N", "the number of tokens to write [100]");
    group.add("--temperature", temperature_, "X", "divide the logits by X; 0 takes the likeliest token [1]");
    group.add("--top-p", top_p_, "X",
              "choose among the likeliest tokens, as many as have probabilities that sum to X [1]");
    group.add("--end-token", end_token_, "TOKEN", "stop at this token");
    group.add("--tokenizer", tokenizer_, "FILE",
              "byte, or a file or folder as tokenize reads it [that of the checkpoint]");
    add_option_of(app, "weights", weights_);
    run_options_.add_to(app);
  }

  int run() override {
    check_options();
    take_checkpoint();
    require(!tokenizer_.empty(), "no tokenizer is known: give --tokenizer byte or FILE");
    const Tokenizer tokenizer = tokenizer::read_tokenizer(tokenizer_);
    std::vector<Id> ids;
    tokenizer::Encoder(tokenizer).encode(prompt_, false, ids);
    require(!ids.empty(), "the prompt has no token; give --prompt TEXT");
    write(tokenizer, ids);
    return kExitOk;
  }

 private:
  void check_options() {
    require(checkpoint_.empty() != weights_.empty(), "give --checkpoint FOLDER or --weights PATH");
    require(prompt_.empty() || prompt_file_.empty(), "give --prompt or --prompt-file, not both");
    require(tokens_ >= 1, "--tokens: {} is too small; the least is 1", tokens_);
    require(temperature_ >= 0 && std::isfinite(temperature_), "--temperature: it must be 0 or more");
    require(top_p_ > 0 && top_p_ <= 1, "--top-p: it must be above 0 and at most 1");
    if (!prompt_file_.empty()) prompt_ = read_file(prompt_file_, kMostPromptBytes);
  }

  // The model, the weights, the tokenizer and the context of a checkpoint.
  void take_checkpoint() {
    if (checkpoint_.empty()) return;
    const std::optional<train::FoundCheckpoint> found = train::find_newest(checkpoint_);
    require(found.has_value(), "--checkpoint: '{}' has no checkpoint", checkpoint_);
    for (const std::string& sentence : found->passed_over) print_warning(sentence);
    const Json& run = found->manifest.run;
    const bool has_adapters = run.contains("lora") && !run.at("lora").is_null();
    weights_ = (has_adapters ? found->folder / train::kPeftFolder : found->folder).string();
    require(!has_adapters || std::filesystem::exists(weights_),
            "--checkpoint: '{}' has adapters of layers that the files of the model do not have; train with targets "
            "that are theirs to read them",
            found->folder.string());
    if (tokenizer_.empty()) tokenizer_ = run.value("tokenizer", "");
    if (!run_options_.given("--context") && run.contains("context"))
      run_options_.set_default("--context", dump_json(run.at("context")));
    take_workload(run, found->folder);
    if (has_adapters) run_options_.widen_packed_files();
  }

  // A workload without --model has the sizes of the run instead of a config.json.
  void take_workload(const Json& run, const std::filesystem::path& folder) {
    const std::string workload = run.value("workload", "transformer");
    run_options_.set_default("--workload", workload);
    const WorkloadKind& kind = workload_kind(workload);
    if (has_setting(kind, "model")) {
      run_options_.set_default("--model", (folder / "config.json").string());
      return;
    }
    weights_ = (folder / train::kModelFile).string();
    for (const std::string& option : kind.settings) {
      const FieldPlace place = place_of_field(setting_of_option(option).path);
      const std::int64_t value = place.object == "model" ? run.at("model").value(place.name, std::int64_t{0}) : 0;
      if (value > 0) run_options_.set_default(fmt::format("--{}", option), fmt::to_string(value));
    }
  }

  void write(const Tokenizer& tokenizer, std::vector<Id> ids) {
    take_model_beside(checkpoint_.empty() ? weights_ : "", run_options_);
    RunDraft draft = run_options_.single_draft();
    draft.config.compile.mode = Mode::forward;
    draft.batch = 1;
    std::vector<RunConfig> configs = {finish(draft)};
    require_writes_text(*configs[0].workload, "sample");
    use_weights(weights_, configs);
    const TransformerConfig* model = configs[0].workload->transformer();
    const std::string why = model != nullptr ? why_no_key_cache(*model) : "";
    if (!why.empty())
      print_warning(fmt::format("each token is computed from the whole text, because {}: the model is {}", why,
                                model->architecture.family));
    const StepWatcher watch = [](const StepProgress&) { return !interrupted(); };
    train::LanguageModel language(configs[0], std::ssize(ids) + tokens_, watch);
    train::Sampler sampler(
        {.temperature = temperature_, .top_p = top_p_, .seed = static_cast<std::uint64_t>(configs[0].seed)});
    std::optional<Id> end_id;
    if (!end_token_.empty()) end_id = tokenizer.id_of(end_token_);
    std::vector<std::int64_t> tokens(ids.begin(), ids.end());
    std::size_t shown = 0;  // bytes
    const auto show = [&] {
      const std::string all = tokenizer.decode(ids);
      const std::size_t end = all.size() - unfinished_bytes(all);
      if (end > shown) print_output(printable_lines(std::string_view(all).substr(shown, end - shown)));
      shown = std::max(shown, end);
    };
    show();
    for (std::int64_t i = 0; i < tokens_; ++i) {
      stop_if_interrupted();
      const std::vector<float> logits = language.logits_after(tokens);
      const std::size_t known = std::min(logits.size(), tokenizer.vocabulary_size());
      const std::int64_t next = sampler.choose(std::span(logits).first(known));
      if (end_id && next == *end_id) break;
      tokens.push_back(next);
      ids.push_back(static_cast<Id>(next));
      show();
    }
    print_output("\n");
  }

  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context dtype "
      "compile "
      "attention seed base-weights";
  RunOptions run_options_{kSettings};
  std::string checkpoint_, weights_, prompt_, prompt_file_, end_token_, tokenizer_;
  std::int64_t tokens_ = 100;
  double temperature_ = 1, top_p_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_sample() { return std::make_unique<Sample>(); }

}  // namespace ridgepoint::cli
