#include "inspect/compare/compare_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/text/throw_error.h"
#include "core/types/enum_names.h"
#include "record/columns.h"
#include "record/fields.h"

namespace ridgepoint {
namespace {

constexpr auto kTimeNames = enum_names<ComparedTime>("iteration", "forward", "backward", "predicted");

using Known = std::optional<std::set<std::string>>;

bool is_time(double ms) { return std::isfinite(ms) && ms > 0; }

void require_times(const Record& record, const Statistics& ms, const std::string& file) {
  if (std::ranges::all_of(ms.samples, is_time)) return;
  throw_error(
      "{} has a sample that is no time (0, negative or null) in a row of {}, batch {}, context {}; "
      "remove the row or measure it again",
      file.empty() ? "a run" : fmt::format("'{}'", file), name(record.mode), record.batch, record.context);
}

std::optional<double> memory_ratio_of(const Record& baseline, const Record& record) {
  const auto& before = baseline.memory_bytes.peak_allocated;
  const auto& after = record.memory_bytes.peak_allocated;
  if (!before || !after || *before <= 0) return std::nullopt;
  return static_cast<double>(*after) / static_cast<double>(*before);
}

std::optional<TimeRatio> ratio_of(const ComparedRow& row, Pairing pairing, double confidence) {
  const Statistics before = time_of(row.baseline, row.time);
  const Statistics after = time_of(row.record, row.time);
  if (row.baseline.status != RunStatus::ok || row.record.status != RunStatus::ok) return std::nullopt;
  if (!is_time(before.median) || !is_time(after.median)) return std::nullopt;
  if (row.time == ComparedTime::predicted) {  // without noise
    const double ratio = after.median / before.median;
    return TimeRatio{ratio, TimeRatio::Interval{ratio, ratio}};
  }
  if (before.samples.empty() || after.samples.empty()) return TimeRatio{after.median / before.median, std::nullopt};
  if (pairing == Pairing::rounds) return ratio_of_rounds(before.samples, after.samples, confidence);
  return ratio_of_medians(before.samples, after.samples, confidence);
}

bool has_time(Experiment experiment, ComparedTime time) {
  if (experiment == Experiment::attention) return time == ComparedTime::forward || time == ComparedTime::backward;
  return time == (experiment == Experiment::plan ? ComparedTime::predicted : ComparedTime::iteration);
}

// One row, or two of an attention call.
void add_rows(const Record& baseline, const Record& record, const std::string& baseline_file, const std::string& file,
              RecordComparison& comparison) {
  for (const ComparedTime time : kAllComparedTimes) {
    if (!has_time(record.experiment, time)) continue;
    ComparedRow row{baseline, record, file, time, std::nullopt, Verdict::cannot_tell, std::nullopt};
    require_times(baseline, time_of(baseline, time), baseline_file);
    require_times(record, time_of(record, time), file);
    row.ratio = ratio_of(row, comparison.pairing, comparison.options.confidence);
    if (row.ratio) row.verdict = judge(*row.ratio, comparison.options.same_within);
    row.memory_ratio = memory_ratio_of(baseline, record);
    comparison.rows.push_back(std::move(row));
  }
}

bool has_times(const Record& record) {
  return std::ranges::any_of(kAllComparedTimes,
                             [&](ComparedTime time) { return is_time(time_of(record, time).median); });
}

// For plans and memory histories the peak is compared. A row of the null device never has a time; a failed row is shown
// with its error.
bool is_comparable(const Record& record) {
  const bool is_about_memory = record.experiment == Experiment::plan || record.experiment == Experiment::memory;
  return record.status != RunStatus::ok || has_times(record) ||
         (is_about_memory && record.memory_bytes.peak_allocated.has_value());
}

std::string device_of(const Record& record) {
  const auto& device = record.device;
  if (device.name.empty()) return device.kind.empty() ? "a device that is not named" : device.kind;
  return device.kind.empty() ? device.name : fmt::format("{} ({})", device.name, device.kind);
}

// A run may fail before its device is opened.
bool has_device(const Record& record) { return record.status == RunStatus::ok || !record.device.name.empty(); }

// A foreign record names no kind.
bool is_same_device(const Record& a, const Record& b) {
  if (!has_device(a) || !has_device(b)) return true;
  const bool same_kind = a.device.kind.empty() || b.device.kind.empty() || a.device.kind == b.device.kind;
  return same_kind && !a.device.name.empty() && a.device.name == b.device.name;
}

std::string different_devices(const Record& baseline, const Record& record) {
  if (baseline.device.name.empty() || record.device.name.empty()) {
    return fmt::format(
        "nothing says that {} and {} are the same device, so their times are not comparable; name the device in the "
        "mapping: \"device.name\": \"= NAME\"",
        device_of(baseline), device_of(record));
  }
  return fmt::format("times of different devices are not comparable: {} and {}; measure both on one",
                     device_of(baseline), device_of(record));
}

void require_comparable(std::span<const Record> records) {
  for (const Record& record : records) {
    if (!is_same_device(records.front(), record)) throw Error(different_devices(records.front(), record));
  }
}

// "1 row of 'b.jsonl' is not compared".
std::string not_compared(std::size_t rows, const std::string& file) {
  return fmt::format("{} row{} of '{}' {} not compared", rows, rows == 1 ? "" : "s", file, rows == 1 ? "is" : "are");
}

// A foreign record with the settings of the row that it is compared with; its own settings are the same, or not known.
Record with_settings_of(const Record& baseline, const Record& foreign) {
  Record record = baseline;
  record.engine = foreign.engine;
  record.timestamp = foreign.timestamp;
  record.status = foreign.status;
  record.error = foreign.error;
  record.warmup = foreign.warmup;
  record.steps = foreign.steps;
  record.seed = foreign.seed;
  record.threads_waiting = foreign.threads_waiting;
  record.memory_bytes = foreign.memory_bytes;
  record.build = foreign.build;
  record.training_step = foreign.training_step;
  return record;
}

// Rows of two files.
class Matcher {
 public:
  Matcher(const RecordFile& before, const RecordFile& after, RecordComparison& comparison)
      : before_(before), after_(after), comparison_(comparison) {
    if (before.known_fields) known_ = before.known_fields;
    if (after.known_fields) restrict_to(*after.known_fields);
  }

  // If no engine is in both files, rows of different engines are matched: Ridgepoint with another program. If no rows
  // have the same configuration, and the files differ in one setting as a whole, that setting is compared.
  void match() {
    if (found(true) || found(false)) return;
    const std::vector<Difference> differences = differences_of_files();
    if (!differences.empty() && found_without(differences)) return;
    explain_no_match();
  }

 private:
  // A setting that has one value in each file.
  struct Difference {
    std::string name, before, after;
  };

  bool found(bool with_engine) { return match(with_engine) > 0 || other_devices_ > 0; }

  std::map<std::string, std::set<std::string>> values_of(const RecordFile& file) const {
    std::map<std::string, std::set<std::string>> values;
    for (const Record& record : file.records) {
      if (!is_comparable(record)) continue;
      for (const ConfigurationField& field : configuration_of(record, known_, false))
        values[field.name].insert(field.value);
    }
    return values;
  }

  std::vector<Difference> differences_of_files() const {
    const std::map<std::string, std::set<std::string>> before = values_of(before_), after = values_of(after_);
    std::vector<Difference> differences;
    for (const auto& [name, values] : before) {
      const auto other = after.find(name);
      if (other == after.end() || values == other->second || values.size() > 1 || other->second.size() > 1) continue;
      differences.push_back({name, *values.begin(), *other->second.begin()});
    }
    return differences;
  }

  bool found_without(std::span<const Difference> differences) {
    const Known all = known_;
    std::set<std::string> equal;
    for (const auto& [name, values] : values_of(before_)) equal.insert(name);
    std::string names;
    for (const Difference& difference : differences) {
      equal.erase(difference.name);
      names += fmt::format("{}{} ({} and {})", names.empty() ? "" : ", ", difference.name, shown(difference.before),
                           shown(difference.after));
    }
    known_ = equal;
    if (found(false)) {
      comparison_.warnings.push_back(
          fmt::format("rows of '{}' and '{}' are paired by what is equal; the files differ in {}", before_.path,
                      after_.path, names));
      return true;
    }
    known_ = all;
    return false;
  }

  static std::string shown(const std::string& value) { return value.empty() ? "not given" : value; }

  void restrict_to(const std::set<std::string>& fields) {
    if (!known_) {
      known_ = fields;
      return;
    }
    std::erase_if(*known_, [&](const std::string& name) { return !fields.contains(name); });
  }

  std::size_t match(bool with_engine) {
    if (matched_ > 0 || other_devices_ > 0) return 0;
    std::vector<bool> is_used(before_.records.size(), false);
    std::vector<std::vector<ConfigurationField>> configurations;
    for (const Record& record : before_.records)
      configurations.push_back(configuration_of(record, known_, with_engine));
    std::size_t without_times = 0, without_partner = 0;
    const Record* elsewhere = nullptr;
    const Record* its_baseline = nullptr;
    for (const Record& record : after_.records) {
      if (!is_comparable(record)) {
        ++without_times;
        continue;
      }
      const std::vector<ConfigurationField> wanted = configuration_of(record, known_, with_engine);
      const Record* other_device = nullptr;
      std::size_t place = 0;
      for (; place < before_.records.size(); ++place) {
        const Record& candidate = before_.records[place];
        if (is_used[place] || !is_comparable(candidate) || configurations[place] != wanted) continue;
        if (candidate.experiment != record.experiment) continue;
        if (is_same_device(candidate, record)) break;
        other_device = &candidate;
      }
      if (place < before_.records.size()) {
        is_used[place] = true;
        ++matched_;
        const Record& baseline = before_.records[place];
        add_rows(baseline, after_.known_fields ? with_settings_of(baseline, record) : record, before_.path, after_.path,
                 comparison_);
      } else if (other_device != nullptr) {
        ++other_devices_;
        elsewhere = &record;
        its_baseline = other_device;
      } else {
        ++without_partner;
      }
    }
    if (matched_ + other_devices_ > 0) warn(without_times, without_partner, its_baseline, elsewhere);
    return matched_;
  }

  void warn(std::size_t without_times, std::size_t without_partner, const Record* its_baseline,
            const Record* elsewhere) {
    std::vector<std::string>& warnings = comparison_.warnings;
    if (elsewhere != nullptr) {
      warnings.push_back(fmt::format("{}: {}", not_compared(other_devices_, after_.path),
                                     different_devices(*its_baseline, *elsewhere)));
    }
    if (without_times > 0) warnings.push_back(not_compared(without_times, after_.path) + ", without times");
    if (without_partner > 0) {
      warnings.push_back(fmt::format("{}: '{}' has no row of that configuration",
                                     not_compared(without_partner, after_.path), before_.path));
    }
  }

  // Names the settings in which the first rows differ.
  void explain_no_match() {
    const auto first = std::ranges::find_if(before_.records, is_comparable);
    const auto second = std::ranges::find_if(after_.records, is_comparable);
    for (const auto& [found, file] :
         {std::pair(first == before_.records.end(), &before_), std::pair(second == after_.records.end(), &after_)}) {
      if (!found) continue;
      comparison_.warnings.push_back(
          fmt::format("'{}' has no row with times; ridgepoint bench measures some", file->path));
      return;
    }
    const std::vector<ConfigurationField> a = configuration_of(*first, known_, false);
    const std::vector<ConfigurationField> b = configuration_of(*second, known_, false);
    std::vector<std::string> differences;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      differences.push_back(fmt::format("{} ({} and {})", a[i].name, shown(a[i].value), shown(b[i].value)));
    }
    if (differences.empty()) differences.emplace_back("the command");
    comparison_.warnings.push_back(
        fmt::format("no row of '{}' has the configuration of a row of '{}'; the first rows differ in {}", after_.path,
                    before_.path, fmt::join(differences, ", ")));
  }

  const RecordFile& before_;
  const RecordFile& after_;
  RecordComparison& comparison_;
  Known known_;
  std::size_t matched_ = 0, other_devices_ = 0;
};

void compare_rows(const RecordFile& file, RecordComparison& comparison) {
  std::vector<Record> records;
  std::ranges::copy_if(file.records, std::back_inserter(records), is_comparable);
  if (records.size() < 2)
    throw_error(
        "'{}' has {} with times, and comparing needs two; give a second file, or measure with "
        "ridgepoint bench",
        file.path, records.empty() ? "no row" : "one row");
  require_comparable(records);
  if (const std::size_t left_out = file.records.size() - records.size(); left_out > 0) {
    comparison.warnings.push_back(not_compared(left_out, file.path) + ", without times");
  }
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].experiment != records.front().experiment)
      throw_error("'{}' has rows of {} and of {}, whose times are not comparable", file.path,
                  name(records.front().experiment), name(records[i].experiment));
    add_rows(records.front(), records[i], file.path, file.path, comparison);
  }
}

// "torch 2.11.0 eager" is "torch eager".
std::string without_version(const std::string& engine) {
  const std::size_t first = engine.find(' ');
  if (first == std::string::npos) return engine;
  const std::size_t second = engine.find(' ', first + 1);
  const std::string rest = second == std::string::npos ? "" : engine.substr(second);
  return engine.substr(0, first) + rest;
}

}  // namespace

std::string_view name(ComparedTime time) { return kTimeNames[time]; }

Statistics time_of(const Record& record, ComparedTime time) {
  switch (time) {
    case ComparedTime::forward: return section_of(record.attention_call).forward_ms;
    case ComparedTime::backward: return section_of(record.attention_call).backward_ms;
    case ComparedTime::predicted: {
      Statistics ms;
      ms.median = section_of(record.plan).predicted_ms.value_or(Statistics::kUnknown);
      return ms;
    }
    case ComparedTime::iteration: break;
  }
  return section_of(record.training_step).time_ms;
}

RecordComparison compare_runs(std::span<const Record> records, const CompareOptions& options) {
  if (records.size() < 2) throw Error("comparing needs two runs or more");
  require_comparable(records);
  RecordComparison comparison{Pairing::rounds, options, {}, {}, {}};
  for (const Record& record : records.subspan(1)) add_rows(records.front(), record, "", "", comparison);
  return comparison;
}

RecordComparison compare_files(std::span<const RecordFile> files, const CompareOptions& options) {
  if (files.empty()) throw Error("there is no file to compare");
  RecordComparison comparison{files.size() == 1 ? Pairing::rows : Pairing::two_files, options, {}, {}, {}};
  for (const RecordFile& file : files) comparison.files.push_back(file.path);
  if (files.size() == 1) {
    compare_rows(files.front(), comparison);
    return comparison;
  }
  for (const RecordFile& file : files.subspan(1)) Matcher(files.front(), file, comparison).match();
  if (comparison.rows.empty()) throw Error(comparison.warnings.front());
  return comparison;
}

std::vector<ConfigurationField> configuration_of(const Record& record,
                                                 const std::optional<std::set<std::string>>& known, bool with_engine) {
  std::vector<ConfigurationField> fields;
  for (const Setting& setting : record_settings()) {
    if (!setting.is_matched || setting.path.empty()) continue;
    std::string path(setting.path);
    if (!known || known->contains(path)) fields.push_back({std::move(path), setting.value(record)});
  }
  if (with_engine) fields.push_back({"engine", without_version(record.engine)});
  return fields;
}

}  // namespace ridgepoint
