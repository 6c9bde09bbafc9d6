// Compares the times and peaks of records: of one run with alternating iterations, of the rows of one file, or of rows
// of two files with the same configuration, that is, with equal values of all settings that rows are matched by.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/compare/files/record_file.h"
#include "inspect/compare/ratio.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

struct CompareOptions {
  double confidence = 0.99;
  double same_within = 0.01;
};

// The time that is compared: of an iteration, of forward or backward of one attention call, or what a plan predicts.
enum class ComparedTime : std::uint8_t { iteration, forward, backward, predicted };
inline constexpr std::array kAllComparedTimes = {ComparedTime::iteration, ComparedTime::forward, ComparedTime::backward,
                                                 ComparedTime::predicted};
std::string_view name(ComparedTime time);
Statistics time_of(const Record& record, ComparedTime time);  // a predicted time has no samples

struct ComparedRow {
  Record baseline;
  Record record;
  std::string file;  // of `record`; empty for runs
  ComparedTime time = ComparedTime::iteration;
  std::optional<TimeRatio> ratio;  // empty if one of the two has no time
  Verdict verdict = Verdict::cannot_tell;
  std::optional<double> memory_ratio;  // of memory_bytes.peak_allocated

  // Rows of plans and of memory histories may have peaks and no time.
  bool has_only_memory() const { return !ratio && memory_ratio && record.status == RunStatus::ok; }
};

// How the baseline of a row is found.
enum class Pairing : std::uint8_t {
  rounds,    // the first record; sample i of all is of round i
  rows,      // the first record; the runs followed one another
  two_files  // the row of the first file with the same configuration
};

struct RecordComparison {
  Pairing pairing = Pairing::rows;
  CompareOptions options;
  std::vector<std::string> files;     // the first has the baseline; empty for runs
  std::vector<ComparedRow> rows;      // with Pairing::rounds and rows without one for the baseline itself
  std::vector<std::string> warnings;  // a sentence for each group of rows that are not compared
};

// Compares the others with the first. Throws Error if there are fewer than two, or if they ran on different devices.
RecordComparison compare_runs(std::span<const Record> records, const CompareOptions& options);

// One file: compares its other rows with its first row. Several files: compares the rows of each with the rows of the
// first file. A configuration is all settings but seed, warm-up and number of steps; several rows with one
// configuration are matched in order. A foreign record is matched by the fields that it has, and gets the others from
// its baseline. Throws Error if nothing is comparable, and says why: rows of different devices, with both names; no
// times; no common configuration.
RecordComparison compare_files(std::span<const RecordFile> files, const CompareOptions& options);

struct ConfigurationField {
  std::string name;
  std::string value;
  friend bool operator==(const ConfigurationField&, const ConfigurationField&) = default;
};

// The configuration: without the device, and without seed, warm-up and steps, which say how a row was measured. The
// engine has no version. `known` restricts the configuration to these fields.
std::vector<ConfigurationField> configuration_of(const Record& record,
                                                 const std::optional<std::set<std::string>>& known, bool with_engine);

}  // namespace ridgepoint
