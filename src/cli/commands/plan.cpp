// ridgepoint plan: the memory that runs would need, and whether it fits a card; nothing runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/card.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/run_rows.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "inspect/calculations/page.h"
#include "predict/cards/datasheet.h"
#include "run/session/fit_into.h"
#include "run/session/plan_run.h"

namespace ridgepoint::cli {
namespace {

// What --fit makes as large as fits.
struct FitSize {
  std::string_view name;
  std::int64_t most;
  std::int64_t granularity;
  void (*set)(RunDraft& draft, std::int64_t value);
};
constexpr FitSize kFitSizes[] = {
    {"batch", std::int64_t{1} << 20, 1, [](RunDraft& draft, std::int64_t value) { draft.batch = value; }},
    {"context", std::int64_t{1} << 22, 128, [](RunDraft& draft, std::int64_t value) { draft.model.context = value; }},
    {"layers", std::int64_t{1} << 12, 1, [](RunDraft& draft, std::int64_t value) { draft.layers = value; }},
};

// What was asked for stands first: a narrow terminal shows the others below.
constexpr std::string_view kLimitColumns = "fits,room,peak_reserved,capacity,";
constexpr std::string_view kHostColumns = "host_memory,";
constexpr std::string_view kDiskColumns = "disk,";
constexpr std::string_view kTimeColumns = "predicted_ms,predicted_range,";  // with cards
constexpr std::string_view kColumns = "peak_allocated,before_backward,peak_phase";
constexpr std::string_view kRankTimeColumns = ",predicted_communication,predicted_exposed";  // with cards
constexpr std::string_view kRankColumns = ",wire_bytes";
constexpr std::string_view kAutoColumns = ",recomputed_flops,checkpoint_blocks";

std::vector<std::string_view> fit_names() {
  std::vector<std::string_view> names;
  for (const FitSize& size : kFitSizes) names.push_back(size.name);
  return names;
}

bool is_auto(const RunDraft& draft) { return draft.config.compile.checkpoint == Checkpoint::automatic; }

class Plan : public Command {
 public:
  Plan() { run_options_.set_default("--device", "null"); }

  std::string_view name() const override { return "plan"; }
  std::string_view summary() const override {
    return "predict the memory and the time of a run, and whether it fits a card";
  }
  std::string_view examples() const override {
    return "ridgepoint plan --model 2.7b --context 1024 --dtype bf16 --card h100,a100\n"
           "ridgepoint plan --model large --card \"rtx 4090\" --fit batch --checkpoint none,selective,block\n"
           "ridgepoint plan --model 2.7b --context 1024 --dtype bf16 --memory-limit 80GiB --checkpoint auto,block\n"
           "ridgepoint plan --model 2.7b,xl --context 1024 --dtype bf16 --card h100 --fail-unless-fits\n"
           "ridgepoint plan --model xl --memory-limit 40GiB --fit context --attention composite,flash\n"
           "ridgepoint plan --model 2.7b --context 128,256,512 --mode forward,training_forward,step --dtype fp32,bf16\n"
           "ridgepoint plan --model 2.7b --as ridgepoint,torch --attention flash --dtype bf16 --card h100\n"
           "ridgepoint plan --model large --batch 32 --mode training_forward --as torch --card a100 --keep-output "
           "false,true\n"
           "ridgepoint plan --model llama-3.2-3b --context 2048 --dtype bf16 --card h100 --fit batch\n"
           "ridgepoint plan --model xl --dtype bf16 --compile full --card h200 --parallel data=64 --shard "
           "none,optimizer --network \"8x NVLink 450 GB/s, 400 Gb/s InfiniBand\"\n"
           "ridgepoint plan --model 2.7b --dtype bf16 --compile full --card a100 --parallel data=8,bucket=auto --shard "
           "auto\n"
           "ridgepoint plan --model 2.7b --context 512 --dtype bf16 --card h100 --parallel data=8 --explain\n"
           "ridgepoint plan --model llama-3.2-1b --as torch-fused --attention flash --dtype bf16 --checkpoint "
           "none,block\n"
           "ridgepoint plan --model path/to/config.json --config-override num_hidden_layers=4\n"
           "ridgepoint plan --model small --columns parameter,gradient,activation,optimizer_state,temporary";
  }
  std::string_view notes() const override {
    return "Nothing runs: the executor and the allocator of a run walk through the plan, so the figures are those "
           "of a run of this engine, to the byte. Kernels, and so their workspaces, are those of the card, whether or "
           "not this machine has one, and whether or not this build was made with a CUDA toolkit. Without --card, and "
           "for a "
           "card older than compute capability 8.0, they are those of this machine's processor (of its GPU with "
           "--device cuda). "
           "predicted ms is the time of an iteration of this engine by the roofline, at the rates that its kernels "
           "reach, and the range beside it is where a measured time should lie: within 10 % on an H200, and for "
           "compiled steps of one or two ranks on H100s; other cards, and more ranks, have not been measured, so their "
           "range is "
           "wide. The capacity of a card is the memory that its "
           "driver reports, less --keep-free for the CUDA context, libraries and other programs. room is what is "
           "left of it beside the reserved memory; a negative room is what is missing. --as torch predicts "
           "PyTorch's eager mode instead: composite attention is plain ops in Python, softmax torch.softmax(), "
           "flash scaled_dot_product_attention(); bf16 is autocast. For models read from a config.json it predicts "
           "transformers 5: flash is attn_implementation=\"sdpa\", naive, composite and softmax are \"eager\", and "
           "--checkpoint block is gradient_checkpointing_enable(). "
           "--explain writes down what a step on several ranks sends, takes and stores, with data, sharded parameters "
           "and tensor parallelism, from how many tokens on communication hides, and what activation checkpointing "
           "saves. Each is a formula, the same with figures, and what this engine plans. Rates of cards are those of "
           "their datasheets, and rates of links those that long messages reach. docs/calculations.md has the "
           "sources.";
  }

  void add_options(CLI::App& app) override {
    offer(*add_option_of(app, "card", cards_, "Fit"), card_names(), Takes::list);
    const OptionGroup group(app, "Fit");
    group.add("--keep-free", keep_free_, "SIZE", "memory of a card that the run may not take [1GiB]");
    group.add("--fit", fit_, "NAME",
              "plan the largest batch, context (a multiple of 128) or layers that fits, instead of a given one",
              fit_names(), Takes::one);
    group.add_flag("--fail-unless-fits", fails_unless_fits_,
                   "exit with 4 if a row does not fit, instead of if none does");
    const OptionGroup calculations(app, "Calculations");
    calculations.add_flag("--explain", explains_,
                          "print the formulas of a step on several ranks with their figures, instead of plans; needs "
                          "--card, and takes 8 ranks without --parallel");
    run_options_.add_to(app);
    output_options_.add_to(app);
    output_options_.add_columns_to(app, Experiment::plan);
  }

  int run() override {
    const std::vector<MemoryLimit> cards = limits();
    const FitSize* fit = fit_size();
    if (explains_) check_explain();
    const std::vector<RunDraft> drafts = run_options_.drafts();
    if (explains_) return explain_rows(drafts, cards);
    for (const RunDraft& draft : drafts) {
      if (fit != nullptr) require_setting(draft.workload, fit->name);
    }
    const bool has_auto = std::ranges::any_of(drafts, is_auto);
    const bool offloads = std::ranges::any_of(
        drafts, [](const RunDraft& draft) { return draft.config.compile.offload != Offload::none; });
    const bool has_file =
        std::ranges::any_of(drafts, [](const RunDraft& draft) { return !draft.config.compile.offload_folder.empty(); });
    const bool has_ranks =
        std::ranges::any_of(drafts, [](const RunDraft& draft) { return draft.config.compile.parallel.is_parallel(); });
    require(!fails_unless_fits_ || is_limited(),
            "--fail-unless-fits needs a memory to fit in; give --card or --memory-limit");
    require(!has_auto || is_limited(), "--checkpoint auto needs a memory to fit in; give --card or --memory-limit");
    require(is_limited() ||
                std::ranges::none_of(drafts, [](const RunDraft& draft) { return draft.config.choose_sharding; }),
            "--shard auto needs a memory to fit in; give --card or --memory-limit");
    require(is_limited() ||
                std::ranges::none_of(drafts, [](const RunDraft& draft) { return draft.config.chooses_offload(); }),
            "--offload auto needs a memory to fit in; give --card or --memory-limit");
    if (output_options_.columns.empty() && is_for_people(output_options_.resolved_format()))
      output_options_.columns =
          fmt::format("{}{}{}{}{}{}{}{}", is_limited() ? kLimitColumns : "peak_reserved,", offloads ? kHostColumns : "",
                      has_file ? kDiskColumns : "", cards_.empty() ? "" : kTimeColumns, kColumns,
                      has_ranks && !cards_.empty() ? kRankTimeColumns : "", has_ranks ? kRankColumns : "",
                      has_auto ? kAutoColumns : "");
    RecordWriter writer(output_options_);
    std::vector<RowOutline> rows;
    for (const RunDraft& draft : drafts) {
      for (std::size_t i = 0; i < cards.size(); ++i) rows.push_back({outline(finish(draft)).description, 1});
    }
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      const MemoryLimit& card = cards[row % cards.size()];
      const RunDraft draft = on_card(drafts[row / cards.size()], card);
      std::optional<Record> record = planned(draft, limit_of(draft, card), fit, shown_on(progress));
      progress.clear();
      if (record) writer.add(std::move(*record));
      return record.has_value();
    });
    writer.finish();
    require_complete(writer.records().size(), rows.size(), output_options_.path);
    return exit_code(writer.records(), fails_unless_fits_ ? Fitting::all_rows : Fitting::any_row);
  }

 private:
  void check_explain() const {
    require(!cards_.empty(), "--explain divides by the rates of a card; name one, as --card h100");
    require(fit_.empty(), "--explain calculates with given sizes; leave --fit out");
    require(!run_options_.given("--shard"), "--explain has every sharding; leave --shard out");
    require(output_options_.columns.empty(),
            "--columns chooses figures of plans, and --explain prints others; leave --columns out");
  }

  int explain_rows(const std::vector<RunDraft>& drafts, const std::vector<MemoryLimit>& cards) {
    constexpr std::int64_t kUsualRanks = 8;  // of a machine
    std::vector<Explanation> explanations;
    std::vector<RunConfig> configs;
    std::vector<RowOutline> rows;
    for (const RunDraft& draft : drafts) {
      require(!run_options_.given("--parallel") || draft.config.compile.parallel.is_parallel(),
              "--explain is about several ranks; give more, as --parallel data=8, or leave --parallel out");
      for (const MemoryLimit& card : cards) {
        RunDraft on_ranks = on_card(draft, card);
        ParallelOptions& parallel = on_ranks.config.compile.parallel;
        if (!parallel.is_parallel()) parallel.data = kUsualRanks;
        configs.push_back(finish(std::move(on_ranks)));
        rows.push_back({outline(configs.back()).description, 1});
      }
    }
    PageWriter writer(output_options_,
                      [&](Format format, std::size_t) { return tables::explanation_page(explanations, format); });
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      const MemoryLimit& card = cards[row % cards.size()];
      std::optional<Explanation> explanation =
          explain(configs[row], *find_datasheet(*card.card), *card.capacity_bytes, shown_on(progress));
      progress.clear();
      if (!explanation) return false;
      explanations.push_back(std::move(*explanation));
      writer.item_added();
      return true;
    });
    writer.finish();
    require_complete(explanations.size(), rows.size(), output_options_.path);
    return kExitOk;
  }

  bool is_limited() const {
    return !cards_.empty() || run_options_.given("--memory-limit") || run_options_.given("--fit-into");
  }

  // One for each card; without cards one that only --memory-limit may fill.
  std::vector<MemoryLimit> limits() const {
    if (cards_.empty()) {
      require(keep_free_.empty(), "--keep-free is part of a card's memory; give --card too");
      return {MemoryLimit{}};
    }
    require(!run_options_.given("--memory-limit"), "--card and --memory-limit are two limits; give one");
    const std::uint64_t kept = parse_option("--keep-free", keep_free_.empty() ? kKeptFree : keep_free_,
                                            [](std::string_view t) { return parse_bytes(t); });
    std::vector<MemoryLimit> limits;
    for (const std::string& name : parse_option("--card", cards_, split_list)) {
      const Datasheet& sheet = card_named(name);
      limits.push_back({.card = std::string(sheet.card), .capacity_bytes = usable_bytes(sheet, kept)});
    }
    return limits;
  }

  static MemoryLimit limit_of(const RunDraft& draft, MemoryLimit limit) {
    if (draft.config.fit_into_bytes) {
      limit.capacity_bytes = static_cast<std::int64_t>(std::min(*draft.config.fit_into_bytes, limit.bytes()));
      return limit;
    }
    if (!limit.capacity_bytes && draft.config.device_options.memory_limit_bytes)
      limit.capacity_bytes = static_cast<std::int64_t>(*draft.config.device_options.memory_limit_bytes);
    return limit;
  }

  // The null device takes the kernels and workspaces of the card, where there are kernels for it.
  static RunDraft on_card(RunDraft draft, const MemoryLimit& limit) {
    if (draft.config.device != "null" || !limit.card) return draft;
    const Datasheet& sheet = *find_datasheet(*limit.card);
    if (can_describe_card(sheet.compute_capability)) draft.config.device_options.card = describe_card(sheet);
    return draft;
  }

  const FitSize* fit_size() const {
    if (fit_.empty()) return nullptr;
    std::vector<std::string_view> names;
    for (const FitSize& size : kFitSizes) names.push_back(size.name);
    const auto found = std::ranges::find(kFitSizes, fit_, &FitSize::name);
    require(found != std::end(kFitSizes), "--fit: '{}' is unknown{}", fit_, hint(fit_, names));
    require(!run_options_.given("--fit-into"),
            "--fit makes a run as large as fits, and --fit-into makes one that fits as fast as it can be; give one");
    require(!run_options_.given("--" + fit_), "--fit {0} chooses --{0}; leave one of them out", fit_);
    require(is_limited(), "--fit needs a memory to fit in; give --card or --memory-limit");
    return &*found;
  }

  std::optional<Record> planned(RunDraft draft, const MemoryLimit& limit, const FitSize* fit,
                                const StepWatcher& watch) const {
    if (fit == nullptr) return planned(finish(draft), limit, watch);
    const auto config_of = [&](std::int64_t value) {
      RunDraft sized = draft;
      fit->set(sized, value);
      return finish(std::move(sized));
    };
    return plan_largest(std::string(fit->name), config_of, limit, fit->most, fit->granularity, watch);
  }

  // With the schedule that was chosen. Where none fits, the plan is that of the least memory.
  static std::optional<Record> planned(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch) {
    std::optional<FittedRun> fitted = fit_into(config, Experiment::plan, limit, watch);
    if (!fitted) return std::nullopt;
    if (fitted->failure && !fitted->config.schedule) return std::move(fitted->failure);
    return plan_run(fitted->config, limit, watch);
  }

  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context batch dtype "
      "compile allocator attention checkpoint segment loss-chunk fit-into mode optimizer momentum weight-decay "
      "no-decay clip-norm z-loss master-weights accumulate parallel shard network as keep-output";
  RunOptions run_options_{kSettings};
  OutputOptions output_options_;
  std::string cards_, keep_free_, fit_;
  bool explains_ = false, fails_unless_fits_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan() { return std::make_unique<Plan>(); }

}  // namespace ridgepoint::cli
