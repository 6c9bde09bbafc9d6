#include "cli/options/rank_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::string_view kAutomatic = "auto";
constexpr std::string_view kKeys[] = {"data", "reduce", "bucket"};

std::int64_t ranks_from(std::string_view text) {
  const std::int64_t ranks = parse_integer(text);
  if (ranks >= 1 && ranks <= kMostRanks) return ranks;
  throw Error(fmt::format("'{}' is out of range; the ranks are 1 to {}", text, kMostRanks), ErrorKind::usage);
}

std::optional<DType> reduce_dtype_from(std::string_view text) {
  if (text == kAutomatic) return std::nullopt;
  if (text == "fp32") return DType::fp32;
  if (text == "bf16") return DType::bf16;
  throw Error(fmt::format("reduce: '{}' is unknown; available: auto, fp32, bf16", text), ErrorKind::usage);
}

std::int64_t bucket_from(std::string_view text) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw Error(fmt::format("bucket: {}; auto takes the size with the least predicted time", error.what()),
                ErrorKind::usage);
  }
}

// What --parallel says of a run.
struct Division {
  ParallelOptions options;
  bool choose_bucket = false;
};

void set(Division& division, std::string_view key, std::string_view value) {
  if (key == "data") {
    division.options.data = ranks_from(value);
  } else if (key == "reduce") {
    division.options.reduce_dtype = reduce_dtype_from(value);
  } else if (key == "bucket") {
    division.choose_bucket = value == kAutomatic;
    division.options.bucket_bytes = division.choose_bucket ? kBucketBytes : bucket_from(value);
  } else {
    throw Error(fmt::format("unknown key '{}'{}", key, hint(key, kKeys)), ErrorKind::usage);
  }
}

Division division_from_text(std::string_view text) {
  Division division;
  std::vector<std::string_view> keys;
  for (std::string_view rest = text;; rest.remove_prefix(rest.find(',') + 1)) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos && !is_digits(item))
      throw Error(fmt::format("'{}' is no KEY=VALUE; write data=2 or data=2,reduce=fp32", item), ErrorKind::usage);
    const std::string_view key = is_digits(item) ? "data" : item.substr(0, equals);
    if (std::ranges::find(keys, key) != keys.end()) {
      throw Error(
          fmt::format("'{}' has {} twice, and a command divides its runs in one way; run it once for each", text, key),
          ErrorKind::usage);
    }
    keys.push_back(key);
    set(division, key, is_digits(item) ? item : item.substr(equals + 1));
    if (item.size() == rest.size()) return division;
  }
}

}  // namespace

Axis::Change division_of(std::string_view text) {
  return [division = division_from_text(text)](RunDraft& draft) {
    draft.config.compile.parallel = division.options;
    draft.config.choose_bucket = division.choose_bucket;
  };
}

void RankOptions::add_to(CLI::App& app) {
  app.add_option("--ranks", ranks_, "start this number of ranks on this machine, with mpirun")
      ->type_name("N")
      ->group("Ranks")
      ->check([](const std::string& text) {
        parse_option("--ranks", text, ranks_from);
        return std::string();
      });
}

void RankOptions::start() const {
  if (ranks_ > 1 && !is_started_as_rank()) start_ranks(ranks_);
}

void RankOptions::place(std::span<RunConfig> configs) const {
  for (const RunConfig& config : configs) {
    const std::int64_t ranks = config.compile.parallel.data;
    if (config.network && !config.chooses_parallel()) {
      throw Error(
          "--network is for predicted times, and a run has measured ones; leave it out, or add --shard auto or "
          "--parallel bucket=auto",
          ErrorKind::usage);
    }
    if (ranks_ == 0 || ranks == ranks_) continue;
    throw Error(fmt::format("--ranks {0} starts {0} ranks, and the options are for {1}; give --parallel data={0}",
                            ranks_, ranks),
                ErrorKind::usage);
  }
  start();
  std::ranges::for_each(configs, place_on_rank);
}

}  // namespace ridgepoint::cli
