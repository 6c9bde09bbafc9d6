// Compares whole training configurations, made from seeds, with the reference: a model, what is trained of it, the
// precision, the compile level, attention, checkpointing, the optimizer, micro-batches, chunks of the loss, ranks and
// sharding. Each runs on the processor, on a device that checks every byte (checked_device.h), and
//   - its losses, results, gradients and updated parameters are those of fp32, eager, on one rank, computed in double;
//   - its peaks of memory are as planned, to the byte;
//   - the graph is verified after every pass.
// usage: configurations [FIRST COUNT]   prints a line for each seed that fails, and exits with 1 if one does
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checked_device.h"
#include "models/transformer/transformer.h"
#include "predict/forecast.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/architectures.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::CheckedDevice;
using testing::RankThreads;
using Problems = std::vector<std::string>;

constexpr std::size_t kSteps = 3;  // the third repeats the addresses of the second
constexpr double kMostRefused = 0.1;

struct Configuration {
  TransformerConfig model;
  std::int64_t batch = 1;  // of a micro-batch of a rank
  CompileOptions options;
  testing::CollectiveRuns collectives = testing::CollectiveRuns::in_launch;
};

class Choice {
 public:
  explicit Choice(std::uint64_t seed) : random_(seed) {}
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t count) { return number(1, count) == 1; }
  template <typename List>
  auto of(const List& list) {
    return *(std::begin(list) + number(0, static_cast<std::int64_t>(std::size(list)) - 1));
  }

 private:
  std::mt19937_64 random_;
};

Configuration configuration_of(std::uint64_t seed) {
  Choice choose(seed);
  Configuration made{choose.of(testing::architectures()), choose.number(1, 3), {}};
  made.model.attention = choose.of(kAllAttentionVariants);
  made.model.layers = choose.number(1, 3);
  made.model.context = choose.number(1, 16);
  made.model.vocab = choose.number(2, 80);
  CompileOptions& options = made.options;
  options.mode = choose.one_in(4) ? Mode::forward_backward : Mode::step;
  options.verify = true;
  options.precision = choose.of(std::array{Precision::fp32, Precision::fp32, Precision::bf16, Precision::fp16});
  options.loss_scaling.initial_scale = 128;
  options.level = choose.of(kAllCompiles);
  options.checkpoint =
      choose.of(std::array{Checkpoint::none, Checkpoint::attention, Checkpoint::selective, Checkpoint::block});
  if (options.checkpoint == Checkpoint::block && choose.one_in(2)) {
    options.checkpoint_segment = choose.number(1, 3);
    if (choose.one_in(2)) options.checkpoint = Checkpoint::nested;
  }
  if (choose.one_in(8)) {
    options.checkpoint = Checkpoint::automatic;
    options.checkpoint_segment = 1;
    for (std::int64_t layer = 0; layer < made.model.layers; ++layer)
      options.block_checkpoints[fmt::format("layers.{}", layer)] =
          choose.of(std::array{Checkpoint::none, Checkpoint::selective, Checkpoint::block});
  }
  options.keep = {choose.one_in(3), choose.one_in(3), false};
  if (choose.one_in(3)) options.loss_chunk_rows = choose.number(1, 12);
  options.optimizer.kind = choose.of(kAllOptimizers);
  if (options.optimizer.kind == Optimizer::sgd && choose.one_in(2))
    options.optimizer.hyperparameters.push_back({"momentum", 0.9});
  if (options.precision == Precision::bf16) options.master_weights = !choose.one_in(4);
  if (choose.one_in(4)) options.frozen = {choose.of(std::array{"layers.0", "token_embeddings", "ffn", "attn"})};
  if (choose.one_in(5)) options.lora = LoraOptions{.rank = choose.number(1, 5), .alpha = 3};
  options.accumulate = choose.one_in(2) ? 1 : choose.number(2, 4);
  if (choose.one_in(3)) {
    options.parallel.data = choose.number(2, 4);
    options.parallel.shard = choose.of(kAllShardings);
    options.parallel.bucket_bytes = choose.of(std::array<std::int64_t, 3>{1, 4096, kBucketBytes});
    if (choose.one_in(4)) options.parallel.reduce_dtype = DType::fp32;
    if (choose.one_in(2)) made.collectives = testing::CollectiveRuns::in_wait;
    Choice of_sums(~seed);  // apart, so that a seed keeps its other draws
    options.parallel.overlap = !of_sums.one_in(3);
    if (of_sums.one_in(8)) options.parallel.bucket_bytes = kAllGradients;
  }
  // Those of several micro-batches or ranks are not those of one batch.
  options.keep.activations = options.accumulate * options.parallel.data == 1 && choose.one_in(3);
  return made;
}

std::string text_of(const Configuration& made) {
  const CompileOptions& options = made.options;
  std::string text = fmt::format(
      "{}, {} layers, batch {}, context {}, vocabulary {}, attention {}, mode {}, {}, compile {}, checkpoint {} of {}",
      made.model.name, made.model.layers, made.batch, made.model.context, made.model.vocab, name(made.model.attention),
      name(options.mode), name(options.precision), name(options.level), name(options.checkpoint),
      options.checkpoint_segment);
  if (options.mode == Mode::step) text += fmt::format(", {}", name(options.optimizer.kind));
  if (!options.optimizer.hyperparameters.empty()) text += " with momentum";
  if (!options.master_weights) text += ", no master weights";
  if (options.loss_chunk_rows) text += fmt::format(", loss chunk {}", *options.loss_chunk_rows);
  for (const std::string& pattern : options.frozen) text += fmt::format(", {} frozen", pattern);
  if (options.lora) text += fmt::format(", lora {}", to_text(*options.lora));
  if (options.accumulate > 1) text += fmt::format(", accumulate {}", options.accumulate);
  if (options.parallel.is_parallel())
    text += fmt::format(", {} ranks, shard {}, bucket {}, overlap {}", options.parallel.data,
                        name(options.parallel.shard), options.parallel.bucket_bytes, options.parallel.overlap);
  if (options.keep.results) text += ", keeps results";
  if (options.keep.gradients) text += ", keeps gradients";
  if (options.keep.activations) text += ", keeps activations";
  return text;
}

// The state of a program after each step.
struct Values {
  testing::Tensors outputs, parameters;
  double rounding = 0;  // of the reference's gradients where each result is rounded to the precision: see rounding_of()
};

Values values_of(const Program& program) {
  Values values;
  for (const Output& output : program.graph().outputs())
    values.outputs.emplace(output.name, program.read_output(output.name));
  for (const ParameterDeclaration& parameter : parameters_of(program.graph()))
    values.parameters.emplace(parameter.name, program.read_input(parameter.name));
  return values;
}

// Gives a program the parameters of the reference, so that the next step shows its own differences alone.
void continue_from(Program& program, const Values& values) {
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    const DType dtype = program.read_input(parameter.name).type.dtype;
    const HostTensor& wanted = values.parameters.at(parameter.name);
    program.write_input(parameter.name, wanted.type.dtype == dtype ? wanted : convert(wanted, dtype));
  }
}

double element(const HostTensor& tensor, std::size_t index) {
  return load_element(tensor.type.dtype, tensor.data.data() + index * size_bytes(tensor.type.dtype));
}

// The root of the mean square.
double rms_of(const HostTensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.type.elements());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += element(tensor, i) * element(tensor, i);
  return std::sqrt(sum / std::max<double>(1, static_cast<double>(count)));
}

// What a precision, eager, computes in double on one rank. Its micro-batches are those of all ranks.
class Reference {
 public:
  explicit Reference(const Configuration& made, Precision precision = Precision::fp32)
      : workload_(made.model, made.batch),
        program_(workload_.build(), open_device("reference"), {options_of(made, precision)}) {
    initialise(program_, workload_, 3);
  }

  const Transformer& workload() const { return workload_; }
  HostTensor data(std::string_view name) const { return program_.read_input(name); }
  Values step() {
    program_.run();
    return values_of(program_);
  }
  void continue_from(const Values& values) { ridgepoint::continue_from(program_, values); }

 private:
  static CompileOptions options_of(const Configuration& made, Precision precision) {
    CompileOptions options = made.options;
    options.precision = precision;
    options.level = Compile::off;
    options.checkpoint = Checkpoint::none;
    options.checkpoint_segment = 1;
    options.loss_chunk_rows = 0;
    options.master_weights = true;
    options.keep = {true, true, options.keep.activations};
    options.accumulate *= options.parallel.data;
    options.parallel = {};
    return options;
  }

  Transformer workload_;
  Program program_;
};

// The rows of a tensor that are those of a rank.
HostTensor rows_of(const HostTensor& all, std::int64_t rank, std::int64_t ranks) {
  HostTensor rows({all.type.dtype, with_size(all.type.shape, 0, all.type.shape[0] / ranks)});
  std::memcpy(rows.data.data(), all.data.data() + static_cast<std::size_t>(rank) * rows.data.size(), rows.data.size());
  return rows;
}

// How far what is compared may be from the reference.
struct Tolerance {
  double value;      // as a share of the L2 norm
  double direction;  // as a share of the learning rate: optimizers other than SGD divide by the size of a gradient
  double noise;      // a gradient whose elements are below this share of the largest gradient's is rounding alone
};
Tolerance tolerance_of(const Configuration& made) {
  switch (made.options.precision) {
    case Precision::fp32: return {1e-4, 0.1, 1e-3};
    case Precision::fp16: return {2e-2, 0.7, 5e-2};
    default: return {2e-1, 0.7, 0.15};
  }
}

// Whether there is something to compare beyond memory: rounding sends tokens to other experts, and queries to other
// keys.
bool is_exact(const Configuration& made) {
  const Architecture& a = made.model.architecture;
  return made.options.precision == Precision::fp32 ||
         (a.experts.count == 0 && a.selection.heads == 0 && a.compressed.q_rank == 0);
}

using Names = std::set<std::string, std::less<>>;

// The parameters whose gradients have nothing but rounding, such as the bias of keys.
Names noise_of(const Values& expected, double share) {
  double most = 0;
  for (const auto& [name, tensor] : expected.outputs)
    if (name.starts_with("grad.")) most = std::max(most, rms_of(tensor));
  Names noise;
  for (const auto& [name, tensor] : expected.outputs)
    if (name.starts_with("grad.") && rms_of(tensor) < share * most) noise.insert(name.substr(5));
  return noise;
}

// The largest error of a gradient where the arithmetic is that of the reference, but each result is rounded to the
// precision. Gradients of which much cancels, as behind several norms, have few digits left in any engine.
double rounding_of(const Values& rounded, const Values& expected, double noise_share) {
  const Names noise = noise_of(expected, noise_share);
  double most = 0;
  for (const auto& [name, tensor] : expected.outputs) {
    if (!name.starts_with("grad.") || noise.contains(name.substr(5))) continue;
    const double error = testing::relative_error(rounded.outputs.at(name), tensor);
    if (std::isfinite(error)) most = std::max(most, error);
  }
  return most;
}

class Comparison {
 public:
  Comparison(const Configuration& made, const ParallelOptions& parallel, Problems& problems)
      : options_(made.options),
        parallel_(parallel),
        tolerance_(tolerance_of(made)),
        is_exact_(is_exact(made)),
        problems_(problems) {}

  void compare(std::size_t step, const Values& found, const Values& expected) {
    if (!is_exact_) return;
    noise_.merge(noise_of(expected, tolerance_.noise));
    const double of_gradients = std::max(tolerance_.value, kRoundings * expected.rounding);
    for (const auto& [name, tensor] : found.outputs) {
      const bool is_gradient = name.starts_with("grad.");
      if (is_gradient && noise_.contains(name.substr(5))) continue;
      // Keys that such a bias has shifted give the same attention.
      if (name.starts_with("activation.") && noise_.contains(name.substr(11) + ".bias")) continue;
      // A result of the model has the rows of this rank.
      const HostTensor& all = expected.outputs.at(name);
      const HostTensor wanted =
          tensor.type.shape == all.type.shape ? all : rows_of(all, parallel_.rank, parallel_.data);
      check(fmt::format("step {}, {}", step, name), testing::relative_error(tensor, wanted),
            is_gradient ? of_gradients : tolerance_.value);
    }
    for (const auto& [name, tensor] : found.parameters) {
      if (!noise_.contains(name)) compare_parameter(step, name, tensor, expected, of_gradients);
    }
  }

 private:
  // Optimizers other than SGD divide by the size of a gradient, so that the direction of an element whose gradient is
  // smaller than the error of gradients is rounding: such an element may lie anywhere within what a step can change.
  void compare_parameter(std::size_t step, const std::string& name, HostTensor found, const Values& expected,
                         double of_gradients) {
    const HostTensor& wanted = expected.parameters.at(name);
    double allowed = tolerance_.value;
    const auto gradient = expected.outputs.find("grad." + name);
    if (options_.optimizer.kind != Optimizer::sgd && gradient != expected.outputs.end()) {
      const double change = options_.optimizer.find("learning_rate").value();
      const double least = of_gradients * rms_of(gradient->second);
      std::vector<bool>& is_rounding = is_rounding_[name];
      is_rounding.resize(static_cast<std::size_t>(wanted.type.elements()));
      for (std::size_t i = 0; i < is_rounding.size(); ++i) {
        if (std::fabs(element(gradient->second, i)) <= least) is_rounding[i] = true;
        const double at = element(wanted, i);
        const double most = kMostChange * change + tolerance_.value * std::fabs(at);
        if (is_rounding[i] && std::fabs(element(found, i) - at) <= most)
          store_element(found.type.dtype, found.data.data() + i * size_bytes(found.type.dtype), at);
      }
      allowed += change * tolerance_.direction / std::max(rms_of(wanted), 1e-30);
    }
    check(fmt::format("step {}, {}", step, name), testing::relative_error(found, wanted), allowed);
  }

  void check(const std::string& what, double error, double allowed) {
    if (!(error <= allowed))
      problems_.push_back(fmt::format("{}: relative error {:.2g}, at most {:.2g} allowed", what, error, allowed));
  }

  static constexpr double kRoundings = 3;   // the engine rounds in other orders, and in more places
  static constexpr double kMostChange = 4;  // learning rates between two opposite steps, with momenta of earlier ones

  const CompileOptions& options_;
  ParallelOptions parallel_;
  Tolerance tolerance_;
  bool is_exact_;
  Problems& problems_;
  Names noise_;
  std::map<std::string, std::vector<bool>> is_rounding_;  // by parameter and element, of this step or an earlier one
};

void compare_memory(const MemoryForecast& planned, const Program& program, Problems& problems) {
  const MemoryUse found = program.memory_use();
  const auto compare = [&](std::string_view what, std::size_t expected, std::size_t measured) {
    if (expected != measured)
      problems.push_back(fmt::format("{}: planned {} bytes, measured {}", what, expected, measured));
  };
  compare("peak allocated", planned.use.peak_allocated_bytes, found.peak_allocated_bytes);
  compare("peak reserved", planned.use.peak_reserved_bytes, found.peak_reserved_bytes);
  compare("peak requested", planned.use.peak_requested_bytes, found.peak_requested_bytes);
}

void run_rank(const Configuration& made, const Reference& reference, std::span<const Values> expected, std::size_t rank,
              std::shared_ptr<Communicator> others, Problems& problems) {
  const auto device = std::make_shared<CheckedDevice>(open_device("cpu", {.threads = 1, .memory_limit_bytes = {}}));
  ProgramOptions options{.compile = made.options};
  options.compile.parallel.rank = static_cast<std::int64_t>(rank);
  if (others != nullptr) options.communicator = device->checked(std::move(others));
  const ProgramPlan plan(reference.workload().build(), device, options);
  const MemoryForecast planned = forecast_memory(plan);
  Program program(plan, nullptr, options);
  initialise(program, reference.workload(), 3);
  const ParallelOptions& parallel = options.compile.parallel;
  for (const char* name : {"inputs", "targets"})
    program.write_input(name, rows_of(reference.data(name), parallel.rank, parallel.data));
  Comparison comparison(made, parallel, problems);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    device->begin_run(program.graph());
    program.run();
    comparison.compare(step + 1, values_of(program), expected[step]);
    continue_from(program, expected[step]);
  }
  compare_memory(planned, program, problems);
  problems.insert(problems.end(), device->problems().begin(), device->problems().end());
}

// What is wrong with a configuration; empty if it is refused, with a sentence.
std::optional<Problems> problems_of(const Configuration& made) {
  Problems problems;
  try {
    Reference reference(made);
    std::vector<Values> expected;
    for (std::size_t step = 0; step < kSteps; ++step) expected.push_back(reference.step());
    if (made.options.precision != Precision::fp32 && is_exact(made)) {
      Reference rounded(made, made.options.precision);
      for (Values& values : expected) {
        values.rounding = rounding_of(rounded.step(), values, tolerance_of(made).noise);
        rounded.continue_from(values);
      }
    }
    if (!made.options.parallel.is_parallel()) {
      run_rank(made, reference, expected, 0, nullptr, problems);
      return problems;
    }
    std::mutex mutex;
    RankThreads(static_cast<std::size_t>(made.options.parallel.data), made.collectives)
        .run([&](std::size_t rank, const std::shared_ptr<Communicator>& others) {
          Problems mine;
          run_rank(made, reference, expected, rank, others, mine);
          const std::scoped_lock lock(mutex);
          for (const std::string& problem : mine) problems.push_back(fmt::format("rank {}: {}", rank, problem));
        });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::unsupported) return std::nullopt;
    problems.emplace_back(error.what());
  }
  return problems;
}

bool is_wrong(std::uint64_t seed, std::uint64_t& refused) {
  const Configuration made = configuration_of(seed);
  const std::optional<Problems> problems = problems_of(made);
  if (!problems) ++refused;
  if (!problems || problems->empty()) return false;
  fmt::print("seed {}: {}\n", seed, text_of(made));
  for (const std::string& problem : *problems) fmt::print("  {}\n", problem);
  std::fflush(stdout);
  return true;
}

std::uint64_t number_from(const char* text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  if (error != std::errc() || *end != '\0') throw Error(fmt::format("'{}' is no number", text), ErrorKind::usage);
  return number;
}

int run(int argc, char** argv) {
  if (argc != 1 && argc != 3) throw Error("usage: configurations [FIRST COUNT]", ErrorKind::usage);
  const std::uint64_t first = argc == 3 ? number_from(argv[1]) : 0;
  const std::uint64_t count = argc == 3 ? number_from(argv[2]) : 300;
  std::uint64_t wrong = 0, refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) wrong += is_wrong(seed, refused) ? 1 : 0;
  fmt::print("{} configurations, {} refused, {} wrong\n", count, refused, wrong);
  const bool are_too_many_refused = static_cast<double>(refused) > kMostRefused * static_cast<double>(count) + 3;
  return wrong > 0 || are_too_many_refused ? 1 : 0;
}

}  // namespace
}  // namespace ridgepoint

int main(int argc, char** argv) {
  try {
    return ridgepoint::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
