// Rows of a study for the tests of its answers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "study/answer.h"

namespace ridgepoint::testing {

inline StudyAnswer answer(const StudyRows& rows, std::string_view question) {
  for (StudyAnswer& each : answer_questions(rows)) {
    if (each.question.starts_with(question)) return each;
  }
  ADD_FAILURE() << "there is no question " << question;
  return {};
}

inline std::string sentence(const StudyRows& rows, std::string_view question) {
  return answer(rows, question).sentence;
}

inline Json model(std::string_view name, double parameters) {
  return {{"name", name}, {"parameters", parameters}, {"d_model", 64}};
}

// A timed row whose samples all are near `ms`.
inline Json bench_row(std::string_view size, double parameters, std::string_view mode, std::string_view dtype,
                      double ms) {
  std::vector<double> samples;
  for (int i = -4; i <= 4; ++i) samples.push_back(ms * (1 + 0.001 * i));
  return {{"schema", 1},
          {"command", "bench"},
          {"status", "ok"},
          {"mode", mode},
          {"dtype", dtype},
          {"batch", 4},
          {"context", 256},
          {"model", model(size, parameters)},
          {"device", {{"kind", "cpu"}, {"name", "a processor"}}},
          {"time_ms",
           {{"mean", ms},
            {"std", 0.002 * ms},
            {"median", ms},
            {"cv", 0.002},
            {"median_half_width", 0.003},
            {"samples", samples}}},
          {"flops_per_step", (mode == "forward" ? 1 : 3) * parameters},
          {"phase_ms", {{"forward", ms / 3}, {"backward", ms * 2 / 3}}},
          {"memory_bytes", {{"peak_allocated", 1000 * ms}, {"before_backward", 500 * ms}}},
          {"timing", {{"verdict", "steady"}}}};
}

}  // namespace ridgepoint::testing
