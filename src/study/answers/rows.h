// Reads the rows of a study for its answers: fields by path, rows by fields, and figures as text.
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

// The field at a path: "time_ms.median". null if a level is missing.
const Json& field(const Json& row, std::string_view path);
double number(const Json& row, std::string_view path);     // NaN if it is no number
std::string text(const Json& row, std::string_view path);  // empty if it is no text
bool has(double value);                                    // not NaN

using Rows = std::vector<const Json*>;
using Conditions = std::initializer_list<std::pair<std::string_view, Json>>;
// The rows of a part whose status is ok, or that have none, and whose fields have these values.
Rows rows_of(const StudyRows& rows, StudyPart part, Conditions conditions = {});
Rows rows_of(const Rows& rows, Conditions conditions);
const Json* first_of(const Rows& rows, Conditions conditions);  // null: none

// The values of a field, each once, in the order of the rows.
std::vector<std::string> texts_of(const Rows& rows, std::string_view path);

// "12.3 ms", "1.5 GiB", "73 %", "0.4 %", "2.13x", "1.2 %".
std::string ms(double milliseconds);
std::string bytes(double count);
std::string percent(double share);
std::string times(double ratio);
std::string flops(double count);  // "4.83 Gflop"

// "small, fp32": the model and the type of a record; "small, fp32, 4 x 256, step".
std::string workload(const Json& row);

// Whether `row` is faster than `baseline` by the samples of a field, with 95 % confidence.
Verdict compare(const Json& baseline, const Json& row, std::string_view samples = "time_ms.samples");

// The exponent of y over x between the first and the last of two or more points, on logarithmic axes; NaN for fewer.
double exponent(std::span<const std::pair<double, double>> points);

// An answer for a question whose rows are missing.
StudyAnswer unanswered(std::string topic, std::string question, StudyPart part);

}  // namespace ridgepoint::answers
