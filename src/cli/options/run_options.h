// The options that say what to run, for every command that runs models: each command lists those that it takes, and
// their rows of settings.def say the rest. Each takes a list or a range (sweep.h); the
// sweep is their product, in the order of the help: the last option varies fastest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/choices.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/models/run_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ridgepoint {
struct Datasheet;
}

namespace ridgepoint::cli {

// A configuration while options are applied. Sizes are kept apart, because a preset may supply the missing ones.
struct RunDraft {
  RunConfig config;  // without its workload
  std::string workload = "transformer";
  TransformerConfig model;
  std::int64_t batch = 4;
  std::string model_name;        // a preset, a model of the catalogue or a path; empty: not given
  std::string config_overrides;  // of fields of its config.json
  std::optional<std::int64_t> layers, d_model, d_ff, heads, vocab;
  // For `attention` only.
  std::optional<std::int64_t> keys, kv_heads, head_dim;
  bool causal = false;
  std::int64_t window = 0;
  double soft_cap = 0;
  const Datasheet* card = nullptr;  // that the null device stands for
  std::optional<double> momentum, weight_decay;
};

// What a row of a command is: a model's run, or one call of attention.
enum class Rows : std::uint8_t { models, attention_calls };

// One swept option.
struct Axis {
  using Change = std::function<void(RunDraft&)>;
  const Setting* setting = nullptr;
  OptionText text;
  std::string given;                                                   // on the command line; else the initial value
  std::function<std::vector<Change>(std::string_view words)> changes;  // throws Error (usage) quoting the words
  const CLI::Option* option = nullptr;                                 // set by add_to()
  bool takes_list = true;
  bool is_repeated = false;  // it may be given several times: `given` has what each says, with kBetweenRepeated between
};
inline constexpr char kBetweenRepeated = ';';
// What each of them says.
std::vector<std::string_view> repeated_values(std::string_view given);
Axis axis_of(std::string_view name, Rows rows);

// What the commands that run a model take, in the order of the help: the last varies fastest. Options whose rows name
// one of these (Option::beside) stand behind it.
inline constexpr std::string_view kRunSettings =
    "device threads memory-limit card workload model config-override layers d-model d-ff heads vocab context batch "
    "dtype compile allocator attention checkpoint segment loss-chunk seed warmup steps mode optimizer momentum "
    "weight-decay no-decay clip-norm z-loss master-weights accumulate parallel shard network";

// The model of a draft: one with a name or a path, given sizes, or the former with some given sizes. Throws Error.
TransformerConfig model_of(const RunDraft& draft);
// What is ignored in the config.json files of the drafts and what is off, each sentence once, with the model's name.
std::vector<std::string> notes_of(std::span<const RunDraft> drafts);
// The workload of a draft. Throws Error (usage).
std::shared_ptr<const Workload> workload_of(const RunDraft& draft);
// Whether the option is one of the workload.
bool has_setting(const WorkloadKind& kind, std::string_view setting);
// Throws Error (usage) that begins with the flag of the setting if the workload does not have it.
void require_setting(std::string_view workload, std::string_view setting);
// The configuration of a draft. Throws Error (usage).
RunConfig finish(RunDraft draft);

class RunOptions {
 public:
  // The options of these settings, by their first names with blanks between.
  explicit RunOptions(std::string_view settings = kRunSettings, Rows rows = Rows::models);
  RunOptions(const RunOptions&) = delete;
  RunOptions& operator=(const RunOptions&) = delete;

  void add_to(CLI::App& app);
  // Adds --skip, for commands that write each row before the next one begins.
  void add_skip_to(CLI::App& app);
  // Adds --run-anyway, for commands that plan a row before they run it.
  static void add_run_anyway(CLI::App& app, bool& run_anyway);

  // Every configuration of the sweep, in order. Throws Error (usage) for a value that is malformed, unknown, not in
  // this build, or in conflict with another.
  std::vector<RunConfig> expand() const;
  // The same, before the sizes of the workloads are checked. --skip leaves the first ones out.
  std::vector<RunDraft> drafts() const;
  // For commands that run one configuration. Throws Error (usage) if the options give several.
  RunConfig single() const { return finish(single_draft()); }
  RunDraft single_draft() const;
  // Those whose options these are, in the order of the help.
  std::vector<const Setting*> settings() const;
  // Whether the command line has the flag.
  bool given(std::string_view flag) const;
  // The flags of the command line, in the order of the help.
  std::vector<std::string> given() const;
  // The options of the command line as words, as given.
  std::vector<std::string> arguments() const;
  // Models of a config.json get the defaults of presets, not those that people run them with.
  void use_defaults_of_presets();
  // Replaces the default of a flag, before or after the command line is read.
  void set_default(std::string_view flag, std::string text);
  // Weights of packed files are widened, unless --base-weights says otherwise.
  void widen_packed_files() { widens_packed_files_ = true; }
  // Replaces the help of a flag, but for the initial value; call it before add_to().
  void set_help(std::string_view flag, std::string help);

 private:
  Axis& axis(std::string_view flag);
  void check_fit_into() const;
  void settle_workloads(std::span<RunDraft> drafts) const;
  void take_defaults_of_configs(std::span<RunDraft> drafts) const;
  void take_packing(const TransformerConfig& model, RunDraft& draft) const;

  std::vector<Axis> axes_;
  std::int64_t skip_ = 0;
  bool widens_packed_files_ = false;
};

}  // namespace ridgepoint::cli
