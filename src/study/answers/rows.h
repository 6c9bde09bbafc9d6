// Shared by the answers of a study: rows by their fields, figures as text, and comparisons.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "inspect/compare/ratio.h"
#include "study/answer.h"
#include "study/study_rows.h"

namespace ridgepoint::answers {

// Paths of fields that several topics read.
inline constexpr const char* kMedian = "time_ms.median";
inline constexpr const char* kPeak = "memory_bytes.peak_allocated";
inline constexpr const char* kPlannedPeak = "memory_bytes.planned_peak";

inline constexpr double kConfidence = 0.95;  // of all intervals

bool has(double value);  // not NaN

using Rows = std::vector<const Json*>;
using PartRows = std::map<StudyPart, Rows>;  // of a study, whose rows must outlive it
using Conditions = std::initializer_list<std::pair<std::string_view, Json>>;
// The rows of a part whose status is ok or missing and whose fields have these values.
Rows rows_of(const PartRows& rows, StudyPart part, Conditions conditions = {});
Rows rows_of(const Rows& rows, Conditions conditions);
const Json* first_of(const Rows& rows, Conditions conditions);  // null: none
// The rows that ran out of memory, or would by the plan, and have a planned peak.
Rows too_large(const PartRows& rows, StudyPart part);
const Json* largest_of(const Json& list, std::string_view path);  // null: an empty list
// Pairs each row that meets `first` with the first row that meets `second` and has the same values of `equal`.
std::vector<std::pair<const Json*, const Json*>> pairs_of(const Rows& rows, Conditions first, Conditions second,
                                                          std::initializer_list<std::string_view> equal);

// The measured rows. With `or_planned`, the planned rows if a part has no measured ones.
PartRows measured_rows(const StudyRows& rows, bool or_planned);
// States that the figures are planned, if they come only from planned rows.
void mark_planned(StudyAnswer& answer, const StudyRows& rows);
// Whether the question has no answer because the rows of its part are planned.
bool is_about_planned(const StudyAnswer& answer, const StudyRows& rows);

// The rows whose fields have the values of `row`; the rows in ascending order of a number.
Rows rows_like(const Rows& rows, const Json& row, std::initializer_list<std::string_view> equal);
Rows sorted_by(Rows rows, std::string_view path);

// The values of a field, each once, in the order of the rows.
std::vector<std::string> texts_of(const Rows& rows, std::string_view path);

// " (~ throttled)" where the samples of a time of the row are in doubt; empty where they are steady, or not judged.
std::string doubt(const Json& row, std::string_view statistic = "time_ms");

// " (ran as recompute)" where the device has no kernel for the attention of the row.
std::string fallback(const Json& row);

// "12.3 ms", "1.5 GiB", "73 %", "0.4 %", "2.13x", "1.2 %". A time of a row has its doubt with it.
std::string ms(double milliseconds);
std::string ms_at(const Json& row, std::string_view path);
std::string bytes(double count);
std::string bytes_at(const Json& row, std::string_view path);
std::string percent(double share);
std::string times(double ratio);
std::string flops(double count);  // "4.83 Gflop"

// "small, 4 x 256, fp32": the model, the batch and context, and the type of a record.
std::string workload(const Json& row);
// "one by one behind backward", "in buckets of 9.54 MiB beside backward": how the ranks of a row sum gradients.
std::string way_of(const Json& row);
// "a training step", "a forward pass": what an iteration of a mode is.
std::string pass_name(std::string_view mode);

// A figure with its interval. If the figure is exact, both ends are the figure.
struct Range {
  double low = 0;
  double high = 0;
};
constexpr Range exactly(double value) { return {value, value}; }

// How many times as fast one row is as another.
struct Speedup {
  double ratio = 0;                        // of the medians
  std::optional<Range> interval = {};      // of 95 %; empty: too few samples
  std::string doubt = {};                  // of either row
  Verdict verdict = Verdict::cannot_tell;  // by the interval
};
// By the time that the statistics of a row add up to.
Speedup speedup(const Json& baseline, const Json& row,
                std::initializer_list<std::string_view> statistics = {"time_ms"});
// "1.90x as fast (1.88x to 1.92x)", "1.20x as long", "0.97x to 1.04x as fast, so the noise hides which is faster",
// "1.67x as fast, by too few iterations for an interval".
std::string words(const Speedup& speedup);
// "2.00x", "1.90x to 2.10x".
std::string times(const Range& range);

// A published claim: figures, each with the range that agrees with it, and the fields that the source states.
struct PublishedClaim {
  std::string source = {};
  std::string text = {};
  std::vector<Range> figures = {};
  std::vector<std::pair<std::string_view, Json>> of = {};
  bool is_of_card = true;  // false: no time or share of a time
};
// The figures of this study.
struct OwnFigures {
  std::vector<std::optional<Range>> figures = {};  // empty: not known well enough, as too few samples were taken
  std::string text = {};                           // "they take 2.99x"
  std::string doubt = {};
  std::vector<std::string> differences = {};  // besides the fields and the card: why they do not compare
};
// Adds the claim. The claim is not comparable if the card, a field or anything else differs, if the figures are in
// doubt, or if the noise hides whether they agree; the reason says which. It is confirmed only if all its figures
// agree.
void judge(StudyAnswer& answer, PublishedClaim claim, const Json& row, OwnFigures own);

// The exponent of y over x between the first and the last of two or more points, on logarithmic axes; NaN for fewer.
double exponent(std::span<const std::pair<double, double>> points);

// The positive samples of a field.
std::vector<double> samples_of(const Json& row, std::string_view path = "time_ms.samples");

// The answer to a question whose rows are missing.
StudyAnswer unanswered(const StudyAnswer& asked, StudyPart part);

// The questions by topic, one file each. Every sentence is made of the rows by rules.
std::vector<StudyAnswer> about_steps(const PartRows& rows);
std::vector<StudyAnswer> about_kernels(const PartRows& rows);
std::vector<StudyAnswer> about_precision(const PartRows& rows);
std::vector<StudyAnswer> about_memory(const PartRows& rows);
std::vector<StudyAnswer> about_attention(const PartRows& rows);
std::vector<StudyAnswer> about_compilation(const PartRows& rows);
std::vector<StudyAnswer> about_checkpointing(const PartRows& rows);
std::vector<StudyAnswer> about_ranks(const PartRows& rows);
std::vector<StudyAnswer> about_exercise(const PartRows& rows);
std::vector<StudyAnswer> about_plans(const StudyRows& rows);  // of all rows; none where all are measured

}  // namespace ridgepoint::answers
