// What the answers of a study share: rows by their fields, figures as text, and comparisons.
#pragma once

#include <initializer_list>
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

bool has(double value);  // not NaN

using Rows = std::vector<const Json*>;
using Conditions = std::initializer_list<std::pair<std::string_view, Json>>;
// The rows of a part whose status is ok, or that have none, and whose fields have these values.
Rows rows_of(const StudyRows& rows, StudyPart part, Conditions conditions = {});
Rows rows_of(const Rows& rows, Conditions conditions);
const Json* first_of(const Rows& rows, Conditions conditions);  // null: none
// Each row that meets `first`, with the first row that meets `second` and has the same values of `equal`, if there is
// one.
std::vector<std::pair<const Json*, const Json*>> pairs_of(const Rows& rows, Conditions first, Conditions second,
                                                          std::initializer_list<std::string_view> equal);

// The values of a field, each once, in the order of the rows.
std::vector<std::string> texts_of(const Rows& rows, std::string_view path);

// "12.3 ms", "1.5 GiB", "73 %", "0.4 %", "2.13x", "1.2 %".
std::string ms(double milliseconds);
std::string ms_at(const Json& row, std::string_view path);
std::string bytes(double count);
std::string bytes_at(const Json& row, std::string_view path);
std::string percent(double share);
std::string times(double ratio);
std::string flops(double count);  // "4.83 Gflop"

// "small, fp32": the model and the type of a record; "small, fp32, 4 x 256, step".
std::string workload(const Json& row);

// Whether `row` is faster than `baseline` by the samples of both, with 95 % confidence.
Verdict compare(const Json& baseline, const Json& row);

// The exponent of y over x between the first and the last of two or more points, on logarithmic axes; NaN for fewer.
double exponent(std::span<const std::pair<double, double>> points);

// The positive samples of a field.
std::vector<double> samples_of(const Json& row, std::string_view path = "time_ms.samples");

// The answer to a question whose rows are missing.
StudyAnswer unanswered(const StudyAnswer& asked, StudyPart part);

// The questions by topic, one file each. Every sentence is made of the rows by rules.
std::vector<StudyAnswer> about_steps(const StudyRows& rows);
std::vector<StudyAnswer> about_kernels(const StudyRows& rows);
std::vector<StudyAnswer> about_precision(const StudyRows& rows);
std::vector<StudyAnswer> about_memory(const StudyRows& rows);
std::vector<StudyAnswer> about_attention(const StudyRows& rows);
std::vector<StudyAnswer> about_compilation(const StudyRows& rows);
std::vector<StudyAnswer> about_checkpointing(const StudyRows& rows);
std::vector<StudyAnswer> about_ranks(const StudyRows& rows);

}  // namespace ridgepoint::answers
