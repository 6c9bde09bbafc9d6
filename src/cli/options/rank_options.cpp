#include "cli/options/rank_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/options/axis_kinds.h"
#include "cli/ranks/ranks.h"
#include "core/enum_names.h"
#include "core/nearest.h"
#include "core/units.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::string_view kKeys[] = {"data", "reduce", "bucket"};

std::int64_t ranks_from(std::string_view text) {
  const std::int64_t ranks = parse_integer(text);
  if (ranks >= 1 && ranks <= kMostRanks) return ranks;
  throw Error(fmt::format("'{}' is out of range; the ranks are 1 to {}", text, kMostRanks), ErrorKind::usage);
}

std::optional<DType> reduce_dtype_from(std::string_view text) {
  if (text == "auto") return std::nullopt;
  if (text == "fp32") return DType::fp32;
  if (text == "bf16") return DType::bf16;
  throw Error(fmt::format("reduce: '{}' is unknown; available: auto, fp32, bf16", text), ErrorKind::usage);
}

void set(ParallelOptions& options, std::string_view key, std::string_view value) {
  if (key == "data") {
    options.data = ranks_from(value);
  } else if (key == "reduce") {
    options.reduce_dtype = reduce_dtype_from(value);
  } else if (key == "bucket") {
    options.bucket_bytes = parse_bytes(value);
  } else {
    throw Error(fmt::format("unknown key '{}'{}", key, hint(key, kKeys)), ErrorKind::usage);
  }
}

ParallelOptions parallel_from_text(std::string_view text) {
  ParallelOptions options;
  for (std::string_view rest = text;; rest.remove_prefix(rest.find(',') + 1)) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      throw Error(fmt::format("'{}' is no KEY=VALUE; write data=2 or data=2,reduce=fp32", item), ErrorKind::usage);
    set(options, item.substr(0, equals), item.substr(equals + 1));
    if (item.size() == rest.size()) return options;
  }
}

Axis divide_axis() {
  const auto parse = [](std::string_view text) {
    return std::vector<Axis::Setting>{
        [options = parallel_from_text(text)](RunDraft& draft) { draft.config.compile.parallel = options; }};
  };
  return {"--parallel",
          "Ranks",
          "KEYS",
          "divide a run among ranks, which are processes: data=N gives each a batch of its own (--batch is that of a "
          "rank) and averages gradients over them; reduce=auto, fp32 or bf16 is the type of their sums (auto: that of "
          "backward), bucket=SIZE the least that is summed at a time [data=1,reduce=auto,bucket=25MiB]",
          parse,
          ""};
}

Axis shard_axis() {
  return choice_axis(
      "--shard", "Ranks", "none", {names_of(kAllShardings), {}},
      "what each rank keeps a part of, instead of the whole (optimizer: the states of the optimizer and "
      "fp32 masters of bf16 weights, as ZeRO stage 1; gradients: these too, as stage 2; parameters: all of these and "
      "parameters, gathered a layer ahead of their use and freed behind it, as stage 3)",
      [](RunDraft& d, const std::string& v) { d.config.compile.parallel.shard = sharding_from_name(v); });
}

}  // namespace

std::vector<Axis> parallel_axes() {
  std::vector<Axis> axes;
  axes.push_back(divide_axis());
  axes.push_back(shard_axis());
  return axes;
}

void RankOptions::add_to(CLI::App& app) {
  app.add_option("--ranks", ranks_, "start this number of ranks on this machine, with mpirun")
      ->type_name("N")
      ->group("Ranks")
      ->check([](const std::string& text) {
        ranks_from(text);
        return std::string();
      });
}

void RankOptions::start() const {
  if (ranks_ > 1 && !is_started_as_rank()) start_ranks(ranks_);
}

void RankOptions::place(std::span<RunConfig> configs) const {
  for (const RunConfig& config : configs) {
    const std::int64_t ranks = config.compile.parallel.data;
    if (ranks_ == 0 || ranks == ranks_) continue;
    throw Error(fmt::format("--ranks {0} starts {0} ranks, and the options are for {1}; give --parallel data={0}",
                            ranks_, ranks),
                ErrorKind::usage);
  }
  start();
  std::ranges::for_each(configs, place_on_rank);
}

}  // namespace ridgepoint::cli
