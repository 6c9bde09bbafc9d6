// The options that say what to run, registered once for every command that runs models. Each takes a list or a range
// (sweep.h); the product of all of them is the sweep. Its order is that of the help: the last
// option varies fastest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/run_config.h"
#include "models/transformer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ridgepoint::cli {

// A configuration as its options arrive: sizes wait until it is known whether a preset stands below them.
struct RunDraft {
  RunConfig config;  // without its workload
  TransformerConfig model;
  std::int64_t batch = 4;
  std::string preset;
  std::optional<std::int64_t> layers, d_model, d_ff, heads, vocab;
  // Of attention by itself.
  std::optional<std::int64_t> keys;
  bool causal = false;
};

// One swept option.
struct Axis {
  using Setting = std::function<void(RunDraft&)>;
  std::string flag;  // "--context", or two names for one: "--sequence,--context"
  std::string group;
  std::string type_name;
  std::string help;
  std::function<std::vector<Setting>(std::string_view)> parse;  // throws Error (usage) quoting the text
  std::string text;                                             // as given; the default before that, empty for none
  const CLI::Option* option = nullptr;                          // once registered
};

// The model that a draft names: a preset, sizes of its own, or a preset with other sizes. Throws Error (usage).
TransformerConfig model_of(const RunDraft& draft);
// The draft with the Transformer that it names as its workload. Throws Error (usage).
RunConfig finish(RunDraft draft);

class RunOptions {
 public:
  // All of them but the flags in `without`, which keep their defaults.
  explicit RunOptions(const std::vector<std::string_view>& without = {});
  explicit RunOptions(std::vector<Axis> axes) : axes_(std::move(axes)) {}
  RunOptions(const RunOptions&) = delete;
  RunOptions& operator=(const RunOptions&) = delete;

  void add_to(CLI::App& app);
  // The flag of commands that plan a row before they run it.
  static void add_run_anyway(CLI::App& app, bool& run_anyway);

  // Every configuration of the sweep, in order. Throws Error (usage) for a value that is malformed, unknown, not in
  // this build, or at odds with another, before anything runs.
  std::vector<RunConfig> expand() const;
  // The same before the sizes of a model are looked at.
  std::vector<RunDraft> drafts() const;
  // For commands that run one configuration. Throws Error (usage) when the options sweep.
  RunConfig single() const { return finish(single_draft()); }
  RunDraft single_draft() const;
  // Whether the command line has the flag.
  bool given(std::string_view flag) const;
  // The flags that the command line has, in the order of the help.
  std::vector<std::string> given() const;
  // Another default for a flag, before or after the command line is read.
  void set_default(std::string_view flag, std::string text);
  // Another line of the help, before add_to().
  void set_help(std::string_view flag, std::string help);

 private:
  std::vector<Axis> axes_;
};

}  // namespace ridgepoint::cli
