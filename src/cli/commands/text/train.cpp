// ridgepoint train: trains a model on text, with checkpoints from which a run goes on to the bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/text/resumed_run.h"
#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/options/until.h"
#include "cli/options/weights_file.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/run_rows.h"
#include "cli/terminal/width.h"
#include "core/text/units.h"
#include "interchange/tokenizer/tokenizer.h"
#include "models/text_workload.h"
#include "record/fields.h"
#include "record/record_plot.h"
#include "ridgepoint/core/error.h"
#include "run/session/fit_into.h"
#include "train/trainer.h"
#include "train/verify_resume.h"

namespace ridgepoint::cli {
namespace {

using tables::Page;
using tokenizer::Tokenizer;
using train::StepReport;

// The vocabulary of a model that is made for a tokenizer is a multiple of this, so that its products are aligned.
constexpr std::int64_t kVocabularyStep = 64;
// Rows of a table for a person.
constexpr std::int64_t kShownRows = 20;

class Train : public Command {
 public:
  Train() {
    run_options_.set_default("--attention", "flash");
    run_options_.set_default("--compile", "full");
  }

  std::string_view name() const override { return "train"; }
  std::string_view summary() const override { return "train a model on text, with checkpoints to resume from"; }
  std::string_view examples() const override {
    return "ridgepoint train --data book.txt --model tiny --iterations 1000\n"
           "ridgepoint train --data train.bin --validation val.bin --model small --vocab 50304 --dtype bf16 --batch 16 "
           "--context 1024 --iterations 2000 --learning-rate 6e-4 --schedule cosine --warmup 100 --save runs/small "
           "--save-every 500\n"
           "ridgepoint train --data stories.jsonl --tokenizer gpt2/tokenizer.json --end-token '<|endoftext|>' --layers "
           "6 --d-model 384 --heads 6 --iterations 5000 --save runs/stories\n"
           "ridgepoint train --data book.txt --weights gpt2 --lora r=8 --tokenizer gpt2 --iterations 200\n"
           "ridgepoint train --data book.txt --model tiny --iterations 1000 --resume runs/tiny\n"
           "ridgepoint train --data book.txt --model tiny --iterations 20 --verify-resume";
  }
  std::string_view notes() const override {
    return "Steps are the same to the bit whenever the run is repeated, and a run that goes on from a checkpoint has "
           "the losses and weights that it would have had without the interruption. A run that SIGTERM or --time-limit "
           "ends writes a checkpoint and exits with 75, so that a scheduler can queue it again with --resume. "
           "docs/commands/train.md says what data, schedules, checkpoints and the rules for bad steps are.";
  }

  void add_options(CLI::App& app) override {
    add_data_options(app);
    add_step_options(app);
    add_saving_options(app);
    run_options_.add_to(app);
    rank_options_.add_to(app);
    add_option_of(app, "weights", weights_);
    add_output_options(app);
  }

  int run() override {
    check_options();
    rank_options_.start();
    const std::optional<train::FoundCheckpoint> found = find_checkpoint();
    prepare(found);
    if (verifies_resume_) return verify();
    train::TrainingOptions options = training_options(found);
    return run(options);
  }

 private:
  void add_data_options(CLI::App& app) {
    const auto files = [&](const char* flag, std::vector<std::string>& paths, const char* help) {
      app.add_option(flag, paths, help)->type_name("FILE...")->expected(1, -1)->group("Data");
    };
    files("--data", data_, "text, JSON Lines (.jsonl) or tokens (.bin) to train on");
    files("--validation", validation_, "the same for validation [with --validation-share, the end of --data]");
    const OptionGroup group(app, "Data");
    group.add("--validation-share", validation_share_, "X", "the share of --data that is used only for validation [0]");
    group.add("--tokenizer", tokenizer_, "FILE",
              "byte, or a file or folder as tokenize reads it [that of a resumed run, else byte]");
    group.add("--end-token", end_token_, "TOKEN", "put this token after each document of a text");
    group.add("--documents", documents_, "NAME",
              "packed: a sequence may hold several documents; apart: a sequence holds tokens of one document, and the "
              "loss ignores the padding after its end [packed]",
              names_of(train::kAllDocumentLayouts), Takes::one);
    group.add("--shuffle", shuffle_, "NAME",
              "shuffle the sequences, in an order that depends on --seed: on or off [on]");
  }

  void add_step_options(CLI::App& app) {
    const OptionGroup group(app, "Steps");
    group.add("--iterations", iterations_, "N", "the number of steps of the whole run [1000]");
    group.add("--learning-rate", learning_rate_, "X",
              "the highest learning rate [depends on the optimizer: 1e-3 for adamw]");
    group.add("--min-learning-rate", lowest_rate_, "X", "the learning rate at the end [0]");
    group.add("--schedule", schedule_, "NAME",
              "how the learning rate falls: constant (not at all), cosine, linear, or wsd (only in the last "
              "--decay-iterations) [constant]",
              names_of(train::kAllDecays), Takes::one);
    group.add("--warmup", warmup_, "N", "the number of steps in which the learning rate rises [0]");
    group.add("--decay-iterations", decay_iterations_, "N",
              "with --schedule wsd: the number of steps in which the rate falls [a tenth]");
    group.add("--evaluate-every", evaluate_every_, "N",
              "steps between evaluations on the validation data [0: only at the end]");
    group.add("--evaluation-batches", evaluation_batches_, "N", "the number of batches of an evaluation [20]");
    group.add("--on-nan", on_nan_, "NAME",
              "if the loss or the gradients are not finite: stop, skip the update, or go back to the newest "
              "checkpoint [stop]",
              names_of(train::kAllReactions), Takes::one);
    group.add("--spike", spike_, "X",
              "a loss above X times the median of the last 64 losses is a spike [0: no loss is]");
    group.add("--on-spike", on_spike_, "NAME", "at a spike: stop, or go back [back]",
              {train::name(train::Reaction::stop), train::name(train::Reaction::back)}, Takes::one);
    group.add("--time-limit", time_limit_, "TIME", "end with a checkpoint after this time: 90s, 30min, 8h");
  }

  void add_saving_options(CLI::App& app) {
    const OptionGroup group(app, "Checkpoints");
    group.add("--save", save_, "FOLDER", "write checkpoints and the history of steps into this folder");
    group.add("--save-every", save_every_, "N", "steps between checkpoints [0: one at the end]");
    group.add("--keep-last", keep_.last, "N", "the number of newest checkpoints to keep [3]");
    group.add("--keep-every", keep_.every, "N", "keep the checkpoints of every Nth step, too [0]");
    group.add("--resume", resume_, "FOLDER", "resume from the newest checkpoint of this folder, and save there");
    group.add_flag(
        "--verify-resume", verifies_resume_,
        "run all steps, and again with a checkpoint in the middle; compare every loss and tensor to the bit");
  }

  void add_output_options(CLI::App& app) {
    output_.add_to(app);
    OptionGroup(app, "Output")
        .add("--log-every", log_every_, "N", "steps between the rows of a table [a twentieth of the run]");
  }

  void check_options() const {
    require(!data_.empty(), "no data is given: ridgepoint train --data FILE");
    const auto at_least = [](const char* flag, std::int64_t value, std::int64_t least) {
      require(value >= least, "{}: {} is too small; the least is {}", flag, value, least);
    };
    at_least("--iterations", iterations_, 1);
    at_least("--warmup", warmup_, 0);
    at_least("--decay-iterations", decay_iterations_, 0);
    at_least("--evaluate-every", evaluate_every_, 0);
    at_least("--evaluation-batches", evaluation_batches_, 1);
    at_least("--save-every", save_every_, 0);
    at_least("--keep-last", keep_.last, 1);
    at_least("--keep-every", keep_.every, 0);
    at_least("--log-every", log_every_, 0);
    require(!learning_rate_ || (*learning_rate_ > 0 && std::isfinite(*learning_rate_)),
            "--learning-rate: it must be above 0");
    require(lowest_rate_ >= 0 && std::isfinite(lowest_rate_), "--min-learning-rate: it must be 0 or more");
    require(validation_share_ >= 0 && validation_share_ < 1, "--validation-share: it must be at least 0 and below 1");
    require(validation_.empty() || validation_share_ == 0, "--validation and --validation-share exclude each other");
    require(shuffle_ == "on" || shuffle_ == "off", "--shuffle: '{}' is unknown; available: on, off", shuffle_);
    require(spike_ == 0 || spike_ > 1, "--spike: it must be above 1");
    require(on_spike_ != "skip", "--on-spike: a spike is known after its update; choose stop or back");
    require(save_every_ == 0 || !folder().empty(), "--save-every needs --save FOLDER");
    require(save_.empty() || resume_.empty(), "--resume saves into its folder; leave --save out");
    require(!verifies_resume_ || folder().empty(),
            "--verify-resume keeps no checkpoint; leave --save and --resume out");
    require(!verifies_resume_ || iterations_ >= 2, "--verify-resume needs two --iterations or more");
    const bool goes_back = on_nan_ == "back" || (spike_ > 0 && on_spike_ == "back");
    require(!goes_back || !folder().empty(),
            "{} needs checkpoints to go back to: give --save FOLDER and --save-every N, or stop",
            on_nan_ == "back" ? "--on-nan back" : "--spike with --on-spike back");
    output_.check();
  }

  train::DocumentLayout documents_layout() const {
    return parse_option("--documents", documents_, train::document_layout_from_name);
  }
  std::string folder() const { return save_.empty() ? resume_ : save_; }

  std::optional<train::FoundCheckpoint> find_checkpoint() const {
    if (folder().empty()) return std::nullopt;
    std::optional<train::FoundCheckpoint> found = train::find_newest(folder(), joined_ranks().get());
    if (resume_.empty()) {
      // --resume, sample and --on-nan back would take them for those of this run.
      require(!found,
              "--save: '{0}' has checkpoints of an earlier run, up to step {1}; --resume {0} goes on from "
              "there, or choose another folder",
              save_, found ? found->manifest.step : 0);
      return std::nullopt;
    }
    require(found.has_value(), "--resume: '{}' has no checkpoint", resume_);
    for (const std::vector<std::string>* sentences : {&found->passed_over, &found->notes}) {
      for (const std::string& sentence : *sentences) say(sentence);
    }
    return found;
  }

  static void say(std::string_view sentence) {
    if (is_first_rank()) print_warning(sentence);
  }

  // Reads the tokenizer and the data, and makes the configuration.
  void prepare(const std::optional<train::FoundCheckpoint>& found) {
    const bool needs_tokenizer = std::ranges::any_of(std::array{&data_, &validation_}, [](const auto* paths) {
      return !std::ranges::all_of(*paths, train::holds_tokens);
    });
    if (tokenizer_.empty() && found) tokenizer_ = found->manifest.run.value("tokenizer", "");
    if (tokenizer_.empty() && needs_tokenizer) tokenizer_ = "byte";
    if (!tokenizer_.empty()) text_.emplace(tokenizer::read_tokenizer(tokenizer_));
    require(end_token_.empty() || text_, "--end-token is a token of a tokenizer; give --tokenizer");
    make_config();
    read_data();
    describe();
    if (found) {
      for (const std::string& difference : differences_of(*found, description_, training_fields())) say(difference);
    }
  }

  void make_config() {
    take_model_beside(weights_, run_options_);
    RunDraft draft = run_options_.single_draft();
    fit_vocabulary(draft);
    draft.model.ignores_targets = documents_layout() == train::DocumentLayout::apart;
    check_workload(draft);
    workload_ = draft.workload;
    draft.config.compile.mode = Mode::step;
    configs_ = {finish(std::move(draft))};
    RunConfig& config = configs_[0];
    require(config.device != "null", "--device null computes nothing; use cpu or cuda");
    rank_options_.place(configs_);
    if (!weights_.empty()) use_weights(weights_, configs_);
    OptimizerOptions& optimizer = config.compile.optimizer;
    if (!learning_rate_) learning_rate_ = optimizer.find("learning_rate");
    require(lowest_rate_ <= *learning_rate_, "--min-learning-rate: {:g} is above the learning rate, {:g}", lowest_rate_,
            *learning_rate_);
    optimizer.scheduled = true;
    config.compile.keep.gradient_norm = config.compile.keep.micro_gradient_norm = true;
    config.compile.skips_nonfinite = on_nan_ == "skip" && config.compile.precision != Precision::fp16;
    config.warmup = 0;
    config.steps = iterations_;
    fit();
  }

  void fit() {
    std::optional<FittedRun> fitted =
        fit_into(configs_[0], Experiment::bench, {}, [](const StepProgress&) { return !interrupted(); });
    if (!fitted) throw Interrupted("interrupted before the first step");
    if (fitted->failure) throw Error("--fit-into: " + fitted->failure->error.message, ErrorKind::out_of_memory);
    configs_[0] = std::move(fitted->config);
  }

  // A model without a vocabulary of its own gets that of the tokenizer.
  void fit_vocabulary(RunDraft& draft) const {
    const WorkloadKind& kind = workload_kind(draft.workload);
    if (!text_ || draft.vocab || !has_setting(kind, "vocab")) return;
    if (has_setting(kind, "model") && !model_of(draft).architecture.family.empty()) return;
    const auto size = static_cast<std::int64_t>(text_->vocabulary_size());
    draft.vocab = (size + kVocabularyStep - 1) / kVocabularyStep * kVocabularyStep;
  }

  void check_workload(const RunDraft& draft) const {
    const std::shared_ptr<const Workload> workload = workload_of(draft);
    require_learns_text(*workload, "train");
    require(workload->transformer() != nullptr || !draft.model.ignores_targets,
            "--documents apart: the loss of the workload '{}' has the padding in it; use packed", draft.workload);
    const auto size = static_cast<std::int64_t>(text_ ? text_->vocabulary_size() : 0);
    const std::int64_t vocabulary = workload->describe().model.vocab;
    require(size <= vocabulary, "the tokenizer has {} tokens, and the model a vocabulary of {}; {}", size, vocabulary,
            draft.vocab ? "raise --vocab" : "they are not of one model");
  }

  void read_data() {
    const WorkloadDescription workload = configs_[0].workload->describe();
    train::StreamOptions stream;
    if (!end_token_.empty()) stream.end_token = text_->id_of(end_token_);
    stream.vocabulary_size = static_cast<std::size_t>(workload.model.vocab);
    stream.stop_point = stop_if_interrupted;
    train::SequenceOptions sequences;
    sequences.context = workload.context;
    sequences.documents = documents_layout();
    stream.finds_documents = sequences.documents == train::DocumentLayout::apart;
    sequences.is_shuffled = shuffle_ == "on";
    sequences.seed = static_cast<std::uint64_t>(configs_[0].seed);
    const auto sequences_of = [&](const std::vector<std::string>& paths) {
      return train::Sequences(std::make_shared<const train::TokenStream>(paths, text_ ? &*text_ : nullptr, stream),
                              sequences);
    };
    training_data_.emplace(sequences_of(data_));
    if (!validation_.empty()) validation_data_.emplace(sequences_of(validation_));
    if (validation_share_ > 0) {
      const auto [first, second] = training_data_->split(validation_share_);
      training_data_.emplace(first);
      validation_data_.emplace(second);
    }
    require(validation_data_ || evaluate_every_ == 0,
            "--evaluate-every needs data: give --validation FILE or --validation-share 0.1");
  }

  // The fields of a record that have the settings of training.
  std::vector<std::string_view> training_fields() const {
    std::vector<std::string_view> fields;
    for (const Setting* setting : run_options_.settings())
      if (setting->option.group == setting_of_option("optimizer").option.group) fields.push_back(setting->path);
    return fields;
  }

  // What checkpoints say of the run.
  void describe() {
    const RunConfig& config = configs_[0];
    const Json record = parse_json(to_json(describe_run(config, Experiment::bench)));
    std::vector<std::string_view> keys = training_fields();
    keys.insert(keys.end(), {"model", "dtype", "compile", "attention", "batch", "context", "seed"});
    for (const std::string_view key : keys) {
      const FieldPlace place = place_of_field(key);
      description_[std::string(key)] = (place.object.empty() ? record : record.at(place.object)).at(place.name);
    }
    description_["workload"] = workload_;
    const WorkloadDescription workload = config.workload->describe();
    description_["ranks"] = config.compile.parallel.data;
    description_["sequences_of_a_step"] = workload.batch * config.compile.accumulate * config.compile.parallel.data;
    description_["shard"] = std::string(ridgepoint::name(config.compile.parallel.shard));
    description_["tokenizer"] =
        tokenizer_.empty() || tokenizer_ == "byte" ? tokenizer_ : std::filesystem::absolute(tokenizer_).string();
    description_["data"] = data_;
    description_["sequences"] = training_data_->count();
    description_["data_fingerprint"] = training_data_->fingerprint();
    description_["documents"] = documents_;
    description_["shuffle"] = shuffle_;
    description_["learning_rate"] = *learning_rate_;
    description_["min_learning_rate"] = lowest_rate_;
    description_["schedule"] = std::string(train::name(parse_option("--schedule", schedule_, train::decay_from_name)));
    description_["warmup"] = warmup_;
    description_["iterations"] = iterations_;
    description_["decay_iterations"] = decay_iterations_;
  }

  train::TrainingOptions training_options(const std::optional<train::FoundCheckpoint>& found) const {
    train::TrainingOptions options;
    options.config = configs_[0];
    options.schedule = schedule_of(description_);
    options.data = &*training_data_;
    options.validation = validation_data_ ? &*validation_data_ : nullptr;
    options.evaluate_every = evaluate_every_;
    options.evaluation_batches = evaluation_batches_;
    if (!folder().empty()) options.saving = train::Saving{folder(), save_every_, keep_};
    options.resumed = found;
    options.on_nonfinite = parse_option("--on-nan", on_nan_, train::reaction_from_name);
    options.spikes = {spike_, parse_option("--on-spike", on_spike_, train::reaction_from_name)};
    if (!time_limit_.empty()) options.limit_seconds = parse_option("--time-limit", time_limit_, parse_seconds);
    options.description = description_;
    return options;
  }

  bool is_shown(const StepReport& report, Format format) const {
    if (!is_for_people(format)) return true;
    const std::int64_t every = log_every_ > 0 ? log_every_ : std::max<std::int64_t>(1, iterations_ / kShownRows);
    return report.step == 1 || report.step == iterations_ || report.step % every == 0 || report.validation_loss;
  }

  Page page_of(Format format, std::size_t first) const {
    Page page;
    page.tables.push_back(train::step_table(std::span(shown_).subspan(first), format));
    if (!is_for_people(format)) return page;
    page.tables.back().note = ending_;
    if (!ending_.empty() && losses_.size() > 2) page.tables.push_back(loss_plot());
    return page;
  }

  // A plot needs no more points than a terminal has columns.
  static std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
    constexpr std::size_t kPoints = 200;
    const std::size_t stride = std::max<std::size_t>(1, points.size() / kPoints);
    std::vector<std::pair<double, double>> kept;
    for (std::size_t i = 0; i < points.size(); i += stride) kept.push_back(points[i]);
    return kept;
  }

  tables::Table loss_plot() const {
    tables::Plot plot{.title = "training",
                      .x_heading = "step",
                      .y_heading = "loss",
                      .y_text = [](double loss) { return fmt::format("{:.2f}", loss); },
                      .series = {{"loss", thinned(losses_), {}}}};
    if (validation_losses_.size() > 1) plot.series.push_back({"validation loss", validation_losses_, {}});
    return tables::plot_table(plot, output_width());
  }

  void take(const StepReport& report, Format format) {
    const auto at = static_cast<double>(report.step);
    if (report.loss > 0 && std::isfinite(report.loss)) losses_.emplace_back(at, report.loss);
    if (report.validation_loss && *report.validation_loss > 0)
      validation_losses_.emplace_back(at, *report.validation_loss);
    if (is_shown(report, format)) shown_.push_back(report);
  }

  std::string live_line(const StepReport& report) const {
    std::string text = fmt::format("step {}/{}  loss {:.4f}  {} tokens/s", report.step, iterations_, report.loss,
                                   format_count(report.tokens_per_second));
    if (report.mfu) text += fmt::format("  MFU {:.1f}%", 100 * *report.mfu);
    return text + fmt::format("  {} of {} planned",
                              format_bytes(static_cast<std::uint64_t>(report.peak_allocated_bytes)),
                              format_bytes(static_cast<std::uint64_t>(planned_bytes_)));
  }

  int run(train::TrainingOptions& options) {
    const Format format = output_.resolved_format();
    PageWriter writer(
        output_, [&](Format as, std::size_t first) { return page_of(as, first); },
        is_for_people(format) ? PageWriter::Items::one_table : PageWriter::Items::independent);
    const RowOutline row{fmt::format("train {}", options.config.workload->describe().model.name)};
    const auto summary = run_row(row, [&](Progress& progress) {
      const std::int64_t first = options.resumed ? options.resumed->manifest.step : 0;
      train::TrainingEvents events;
      events.watch = shown_on(progress);
      events.is_asked_to_stop = interrupted;
      events.say = [&](std::string_view sentence) {
        progress.clear();
        say(sentence);
      };
      events.on_plan = [&](std::int64_t bytes) { planned_bytes_ = bytes; };
      events.on_step = [&](const StepReport& report) {
        const std::size_t before = shown_.size();
        take(report, format);
        if (shown_.size() > before) {
          progress.clear();
          writer.item_added();
        }
        progress.update(live_line(report), static_cast<double>(report.step - first) /
                                               static_cast<double>(std::max<std::int64_t>(1, iterations_ - first)));
      };
      return train::train(options, events);
    });
    if (!summary) throw Interrupted("interrupted before the first step");
    ending_ = ending_of(*summary);
    writer.finish();
    return exit_code_of(*summary);
  }

  std::string ending_of(const train::TrainingSummary& summary) const {
    const std::int64_t steps = summary.last_step - summary.first_step + 1;
    std::string text = steps <= 0
                           ? fmt::format("All {} steps are done already.", iterations_)
                           : fmt::format("{} step{} in {}: {} tokens/s, peak memory {}.", steps, steps == 1 ? "" : "s",
                                         format_duration(summary.seconds), format_count(summary.tokens_per_second),
                                         format_bytes(static_cast<std::uint64_t>(summary.peak_allocated_bytes)));
    text += noise_of(summary);
    if (!folder().empty())
      text += fmt::format(" Checkpoints are in '{0}'; 'ridgepoint sample --checkpoint {0}' writes text.", folder());
    return text;
  }

  std::string noise_of(const train::TrainingSummary& summary) const {
    const CompileOptions& compile = configs_[0].compile;
    if (summary.last_step < summary.first_step) return "";
    if (compile.accumulate == 1)
      return " The gradient noise scale is not known: it needs the gradients of micro-batches, --accumulate 2 or more.";
    if (!summary.noise_scale)
      return " The gradient noise scale is not known: it cannot be told from the norms of these steps.";
    const WorkloadDescription workload = configs_[0].workload->describe();
    const auto tokens =
        static_cast<double>(workload.batch * workload.context * compile.accumulate * compile.parallel.data);
    return fmt::format(" The gradient noise scale is {} tokens, and a step has {}.", format_count(*summary.noise_scale),
                       format_count(tokens));
  }

  int exit_code_of(const train::TrainingSummary& summary) const {
    if (summary.ending == train::Ending::finished) return kExitOk;
    const std::string where =
        folder().empty() ? "nothing is saved without --save" : fmt::format("--resume {} goes on from there", folder());
    if (is_first_rank())
      print_error(fmt::format("{} after step {} of {}; {}",
                              summary.ending == train::Ending::asked ? "interrupted" : "out of time", summary.last_step,
                              iterations_, where));
    const bool is_of_person = summary.ending == train::Ending::asked && interrupt_exit_code() == 128 + SIGINT;
    if (folder().empty() || is_of_person)
      return summary.ending == train::Ending::asked ? interrupt_exit_code() : kExitFailure;
    return kExitResume;
  }

  int verify() {
    const train::TrainingOptions options = training_options(std::nullopt);
    const auto verdict = run_row({"train --verify-resume"}, [&](Progress& progress) {
      return train::verify_resume(options, shown_on(progress), interrupted);
    });
    if (!verdict) throw Interrupted("interrupted");
    print_output(verdict->sentence + "\n");
    return verdict->is_equal ? kExitOk : kExitFailure;
  }

  static constexpr std::string_view kSettings =
      "device threads memory-limit workload model config-override layers d-model d-ff heads vocab context batch dtype "
      "compile "
      "allocator attention checkpoint segment loss-chunk fit-into seed optimizer momentum weight-decay no-decay "
      "clip-norm z-loss accumulate master-weights parallel shard";
  RunOptions run_options_{kSettings};
  RankOptions rank_options_;
  OutputOptions output_;
  std::vector<std::string> data_, validation_;
  std::string tokenizer_, end_token_, documents_ = "packed", shuffle_ = "on", weights_;
  double validation_share_ = 0;
  std::int64_t iterations_ = 1000, warmup_ = 0, decay_iterations_ = 0, evaluate_every_ = 0, evaluation_batches_ = 20;
  std::optional<double> learning_rate_;
  double lowest_rate_ = 0, spike_ = 0;
  std::string schedule_ = "constant", on_nan_ = "stop", on_spike_ = "back", time_limit_;
  std::string save_, resume_;
  std::int64_t save_every_ = 0, log_every_ = 0;
  train::KeepRule keep_;
  bool verifies_resume_ = false;

  std::optional<Tokenizer> text_;
  std::string workload_;
  std::vector<RunConfig> configs_;  // one
  std::optional<train::Sequences> training_data_, validation_data_;
  Json description_ = Json::object();
  std::vector<StepReport> shown_;
  std::vector<std::pair<double, double>> losses_, validation_losses_;  // by step
  std::int64_t planned_bytes_ = 0;
  std::string ending_;
};

}  // namespace

std::unique_ptr<Command> make_train() { return std::make_unique<Train>(); }

}  // namespace ridgepoint::cli
