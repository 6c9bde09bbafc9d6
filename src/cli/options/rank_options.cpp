#include "cli/options/rank_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/messages.h"
#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::string_view kAutomatic = "auto";

std::int64_t ranks_from(std::string_view text) {
  const std::int64_t ranks = parse_integer(text);
  if (ranks >= 1 && ranks <= kMostRanks) return ranks;
  refuse("'{}' is out of range; the ranks are 1 to {}", text, kMostRanks);
}

std::optional<DType> reduce_dtype_from(std::string_view text) {
  if (text == kAutomatic) return std::nullopt;
  if (text == "fp32") return DType::fp32;
  if (text == "bf16") return DType::bf16;
  refuse("'{}' is unknown; available: auto, fp32, bf16", text);
}

std::int64_t bucket_from(std::string_view text) {
  if (text == "each") return kEachGradient;
  if (text == "all") return kAllGradients;
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    refuse(
        "{}; each sums every gradient by itself, all sums them as one message, and auto takes the size with the least "
        "predicted time",
        error.what());
  }
}

bool overlap_from(std::string_view text) {
  if (text == "on" || text == "off") return text == "on";
  refuse("'{}' is unknown; available: on, off", text);
}

// What --parallel says of a run.
struct Division {
  ParallelOptions options;
  bool choose_bucket = false;
};

using Divisions = std::vector<Division>;
using Change = std::function<void(Division&)>;

std::vector<Change> data_changes(std::string_view value) {
  std::vector<Change> changes;
  for (const std::int64_t ranks : parse_numbers(value, {.parse = ranks_from}))
    changes.emplace_back([ranks](Division& division) { division.options.data = ranks; });
  return changes;
}

std::vector<Change> reduce_changes(std::string_view value) {
  return {[dtype = reduce_dtype_from(value)](Division& division) { division.options.reduce_dtype = dtype; }};
}

std::vector<Change> overlap_changes(std::string_view value) {
  return {[overlap = overlap_from(value)](Division& division) { division.options.overlap = overlap; }};
}

std::vector<Change> bucket_changes(std::string_view value) {
  if (value == kAutomatic) return {[](Division& division) { division.choose_bucket = true; }};
  std::vector<Change> changes;
  for (const std::int64_t bytes : parse_numbers(value, {.parse = bucket_from}))
    changes.emplace_back([bytes](Division& division) { division.options.bucket_bytes = bytes; });
  return changes;
}

struct Key {
  std::string_view name;
  std::vector<Change> (*changes)(std::string_view value);
};
constexpr Key kKeys[] = {
    {"data", data_changes}, {"reduce", reduce_changes}, {"overlap", overlap_changes}, {"bucket", bucket_changes}};

const Key& key_named(std::string_view name) {
  const Key* found = std::ranges::find(kKeys, name, &Key::name);
  if (found != std::end(kKeys)) return *found;
  std::vector<std::string_view> names;
  for (const Key& key : kKeys) names.push_back(key.name);
  refuse("unknown key '{}'{}", name, hint(name, names));
}

// A key of a division, and what each of its values changes.
struct Swept {
  const Key* key;
  std::vector<Change> changes;
};

// Items between commas: KEY=VALUE, or another value of the key before. The first may be the ranks alone.
std::vector<Swept> keys_of(std::string_view text) {
  std::vector<Swept> keys;
  for (const std::string& item : split_list(text)) {
    const std::size_t equals = item.find('=');
    if (equals != std::string::npos || keys.empty()) {
      if (equals == std::string::npos && !is_digits(item.substr(0, 1)))
        refuse("'{}' is no KEY=VALUE; write data=2 or data=2,reduce=fp32", item);
      const Key& key = key_named(equals == std::string::npos ? "data" : item.substr(0, equals));
      if (std::ranges::find(keys, &key, &Swept::key) != keys.end()) {
        refuse("'{}' has {} twice; write the values of a sweep as {}=A,B", text, key.name, key.name);
      }
      keys.push_back({&key, {}});
    }
    auto& [key, changes] = keys.back();
    const std::string value = item.substr(equals == std::string::npos ? 0 : equals + 1);
    std::ranges::move(parse_option(key->name, value, key->changes), std::back_inserter(changes));
  }
  return keys;
}

// The product of the values of all keys; the last key varies fastest.
Divisions divisions_from(std::string_view text) {
  Divisions divisions(1);
  for (const Swept& swept : keys_of(text)) {
    if (divisions.size() * swept.changes.size() > kMaxSweepValues)
      refuse("'{}' has more than {} values", text, kMaxSweepValues);
    Divisions product;
    for (const Division& division : divisions) {
      for (const Change& change : swept.changes) change(product.emplace_back(division));
    }
    divisions = std::move(product);
  }
  return divisions;
}

}  // namespace

std::vector<Axis::Change> divisions_of(std::string_view text) {
  std::vector<Axis::Change> changes;
  for (const std::string_view one : repeated_values(text)) {
    for (const Division& division : divisions_from(one)) {
      changes.emplace_back([division](RunDraft& draft) {
        draft.config.compile.parallel = division.options;
        draft.config.choose_bucket = division.choose_bucket;
      });
    }
  }
  return changes;
}

void RankOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "Ranks");
  group.add("--ranks", ranks_, "N", "start this number of ranks on this machine, with mpirun")
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
      refuse(
          "--network is for predicted times, and a run has measured ones; leave it out, or add --shard auto or "
          "--parallel bucket=auto");
    }
    if (ranks_ == 0 || ranks == ranks_) continue;
    refuse("--ranks {0} starts {0} ranks, and the options are for {1}; give --parallel data={0}", ranks_, ranks);
  }
  start();
  std::ranges::for_each(configs, place_on_rank);
}

}  // namespace ridgepoint::cli
