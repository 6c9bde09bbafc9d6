// ridgepoint attention: times attention variants over shapes, lists the tensors they allocate, and finds the longest
// sequence that fits. A row is written before the next one begins; a row that fails reports its error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/run_options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/run_rows.h"
#include "inspect/attention/account.h"
#include "inspect/attention/attention_tables.h"
#include "inspect/attention/benchmark.h"
#include "inspect/attention/limit.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

// Without --steps, the timing of forward and of backward each ends after this time.
constexpr double kBudgetSeconds = 1;

AttentionConfig config_of(const RunDraft& draft) {
  return {draft.config,
          {.batch = draft.batch,
           .heads = *draft.heads,
           .d_model = draft.head_dim ? *draft.heads * *draft.head_dim : *draft.d_model,
           .queries = draft.model.context,
           .keys = draft.keys.value_or(draft.model.context),
           .kv_heads = draft.kv_heads.value_or(0),
           .causal = draft.causal,
           .window = draft.window,
           .soft_cap = draft.soft_cap,
           .variant = draft.model.attention,
           .precision = draft.config.compile.precision,
           .model = draft.model_name.empty() ? "" : draft.model.name}};
}

std::vector<RowOutline> outlines(const std::vector<AttentionConfig>& configs) {
  std::vector<RowOutline> rows;
  for (const AttentionConfig& config : configs) rows.push_back(outline(run_config(config)));
  return rows;
}

class Attention : public Command {
 public:
  std::string_view name() const override { return "attention"; }
  std::string_view summary() const override { return "time attention variants, and measure or predict their memory"; }
  std::string_view examples() const override {
    return "ridgepoint attention --d-model 64 --sequence 256:4096:*2 --pivot --baseline composite\n"
           "ridgepoint attention --attention flash,recompute --heads 8 --d-model 512 --causal false,true\n"
           "ridgepoint attention --attention flash --causal true --heads 32 --kv-heads 32,8 --head-dim 128 --window "
           "0,512\n"
           "ridgepoint attention --model llama-3.2-1b,gemma-2-2b --batch 1 --sequence 4096 --dtype bf16\n"
           "ridgepoint attention --sequence 256,1024,4096,8192,16384 --device cuda --output grid.json\n"
           "ridgepoint attention --account --attention composite --sequence 1024\n"
           "ridgepoint attention --oom --card h100";
  }
  std::string_view notes() const override {
    return "Options of Machine and Work take a list or a range; every combination is a row. Times are medians by the "
           "device's clock: of forward alone, and of backward in runs of forward + backward. The flop/s count 4 B H S "
           "K D operations forward, half as many with a causal mask, those of the pairs that it leaves with a window, "
           "and 2.5 times as many backward. Memory before "
           "backward is q, k, v, o, the gradient of o and the saved activations. docs/commands/attention.md explains "
           "the variants.";
  }

  std::string_view why_not(std::string_view option) const override {
    if (option != "--workload") return "";
    return "this command needs the shapes of a call of attention, and runs nothing else; bench --workload NAME times "
           "another workload";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    run_options_.add_skip_to(app);
    RunOptions::add_run_anyway(app, run_anyway_);
    const OptionGroup group(app, "Views");
    pivot_option_ =
        group
            .add("--pivot", pivot_, "COLUMN",
                 fmt::format("print one table for each metric: a row for each sequence, a column for each value of "
                             "COLUMN ({}) [attention]",
                             fmt::join(pivot_columns(), ", ")))
            ->expected(0, 1);
    offer(*pivot_option_, pivot_columns(), Takes::one);
    group.add("--baseline", baseline_, "NAME", "with --pivot: also print the speedup over this column");
    group.add_flag("--account", account_, "list every tensor that is allocated before backward and at the peak");
    group.add_flag("--oom", oom_, "predict the longest sequence that fits in memory, and run it where possible");
    granularity_option_ = group.add("--granularity", granularity_, "N", "with --oom: search multiples of N [1]");
    output_options_.add_to(app);
    output_options_.add_columns_to(app, Experiment::attention);
    output_options_.add_plot_to(app);
  }

  int run() override {
    check_views();
    const std::vector<AttentionConfig> configs = this->configs();
    if (account_) return run_account(configs);
    if (oom_) return run_limits(configs);
    if (pivot_option_->count() > 0) return run_pivot(configs);
    RecordWriter writer(output_options_);
    measure(configs, [&](Record record) { writer.add(std::move(record)); });
    writer.finish();
    return finish(writer.records(), configs.size());
  }

 private:
  void check_views() const {
    const bool pivots = pivot_option_->count() > 0;
    require(!(account_ && oom_) && !(pivots && (account_ || oom_)),
            "--pivot, --account and --oom print different tables; give one");
    require(baseline_.empty() || pivots, "--baseline needs --pivot");
    require(!oom_ || !run_options_.given(kSequence), "--oom searches the sequence; leave --sequence out");
    require(!oom_ || !run_options_.given("--keys"), "--oom searches with as many keys as queries; leave --keys out");
    require(!run_options_.given("--head-dim") || !run_options_.given("--d-model"),
            "--head-dim and --d-model both give the width of heads; leave one of them out");
    require(oom_ || granularity_option_->count() == 0, "--granularity needs --oom");
    require(granularity_ >= 1, "--granularity: the least is 1");
    require(!(account_ || oom_) || !run_options_.given(kSteps), "--account and --oom time nothing; leave --steps out");
    require(!(account_ || oom_) || !run_options_.given("--warmup"),
            "--account and --oom time nothing; leave --warmup out");
    require(output_options_.columns.empty() || !(pivots || account_ || oom_),
            "--columns does not apply to --pivot, --account and --oom; leave it out");
  }

  // The headings of what tells rows of one sequence apart. Records of calls have no card.
  std::vector<std::string_view> pivot_columns() const {
    std::vector<std::string_view> names;
    for (const Setting* setting : run_options_.settings()) {
      const std::string_view option = setting->option.name();
      if (setting->is_matched && setting->is_column() && option != "sequence" && option != "card")
        names.push_back(setting->heading);
    }
    return names;
  }

  // A CPU takes too long for the longest default sequences, and --account prints too much for a whole sweep.
  std::vector<AttentionConfig> configs() {
    if (run_options_.given("--head-dim")) run_options_.set_default("--d-model", "");
    if (run_options_.given("--model")) {
      for (const char* flag : {"--heads", "--d-model", "--causal"}) run_options_.set_default(flag, "");
    } else if ((account_ || oom_) && !run_options_.given("--head-dim")) {
      run_options_.set_default("--d-model", "64");
    }
    if (account_ || oom_) run_options_.set_default(kSequence, "1024");
    std::vector<RunDraft> drafts = run_options_.drafts();
    const bool on_cards = std::ranges::all_of(drafts, [](const RunDraft& draft) {
      return draft.config.device.starts_with("cuda") || draft.config.device == "null";
    });
    if (!account_ && !oom_ && !on_cards && !run_options_.given(kSequence)) {
      run_options_.set_default(kSequence, "256,1024");
      drafts = run_options_.drafts();
      print_error("without a GPU the default is --sequence 256,1024; with one it is 256,1024,4096,8192,16384");
    }
    std::vector<AttentionConfig> configs;
    for (const RunDraft& draft : drafts) {
      AttentionConfig config = config_of(draft);
      validate(config.problem);
      if (!run_options_.given(kSteps)) config.budget_seconds = kBudgetSeconds;
      config.run_anyway = run_anyway_;
      configs.push_back(std::move(config));
    }
    return configs;
  }

  template <typename Add>
  static void measure(const std::vector<AttentionConfig>& configs, Add add) {
    run_rows(outlines(configs), [&](std::size_t row, Progress& progress) {
      std::optional<Record> record = measure_attention(configs[row], shown_on(progress));
      if (!record) return false;
      progress.clear();
      add(std::move(*record));
      return true;
    });
  }

  int finish(const std::vector<Record>& records, std::size_t rows) const {
    require_complete(records.size(), rows, output_options_.path);
    return exit_code(records);
  }

  int run_pivot(const std::vector<AttentionConfig>& configs) const {
    const tables::PivotOptions options{pivot_.empty() ? "attention" : pivot_, baseline_};
    std::vector<Record> records;
    for (const AttentionConfig& config : configs) records.push_back(describe_run(config));
    check(options, records);
    records.clear();
    PageWriter writer(output_options_,
                      [&](Format format, std::size_t) { return tables::pivot_page(records, options, format); });
    measure(configs, [&](Record record) {
      records.push_back(std::move(record));
      writer.item_added();
    });
    writer.finish();
    return finish(records, configs.size());
  }

  int run_account(const std::vector<AttentionConfig>& configs) const {
    std::vector<AttentionAccount> accounts;
    PageWriter writer(output_options_,
                      [&](Format format, std::size_t) { return tables::account_page(accounts, format); });
    run_rows(outlines(configs), [&](std::size_t row, Progress& progress) {
      accounts.push_back(account_for_attention(configs[row]));
      progress.clear();
      writer.item_added();
      return true;
    });
    writer.finish();
    return finish_view(accounts, configs.size());
  }

  int run_limits(const std::vector<AttentionConfig>& configs) const {
    for (const AttentionConfig& config : configs) {
      if (config.device == "null" && !config.device_options.memory_limit_bytes) {
        refuse("--oom: --device null has no memory size; give one: --card h100 or --memory-limit 20GiB");
      }
    }
    std::vector<AttentionLimit> limits;
    PageWriter writer(output_options_,
                      [&](Format format, std::size_t) { return tables::limit_page(limits, granularity_, format); });
    std::vector<RowOutline> rows;
    for (const AttentionConfig& config : configs)
      rows.push_back({fmt::format("{} attention", ridgepoint::name(config.problem.variant))});
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      std::optional<AttentionLimit> limit =
          find_attention_limit(configs[row], granularity_, [&](std::string_view what) {
            progress.update(std::string(what), 0);
            return !interrupted();
          });
      if (!limit) return false;
      progress.clear();
      limits.push_back(std::move(*limit));
      writer.item_added();
      return true;
    });
    writer.finish();
    return finish_view(limits, configs.size());
  }

  template <typename Row>
  int finish_view(const std::vector<Row>& rows, std::size_t count) const {
    std::vector<Record> runs;
    for (const Row& row : rows) runs.push_back(row.run);
    return finish(runs, count);
  }

  static constexpr const char* kSequence = "--sequence,--context";
  static constexpr const char* kSteps = "--steps,--iterations";

  static constexpr std::string_view kSettings =
      "device threads memory-limit card model dtype causal window soft-cap batch heads kv-heads head-dim d-model "
      "sequence keys attention compile seed warmup steps";
  RunOptions run_options_{kSettings, Rows::attention_calls};
  OutputOptions output_options_;
  CLI::Option* pivot_option_ = nullptr;
  CLI::Option* granularity_option_ = nullptr;
  std::string pivot_, baseline_;
  std::int64_t granularity_ = 1;
  bool account_ = false, oom_ = false, run_anyway_ = false;
};

}  // namespace

std::unique_ptr<Command> make_attention() { return std::make_unique<Attention>(); }

}  // namespace ridgepoint::cli
