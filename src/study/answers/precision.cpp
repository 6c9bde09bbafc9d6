// What low number types change: sums, the types under autocast, errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "inspect/published/published_rows.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kPrecisionTopic = "Precision";

const Json* sum_of(const Rows& rows, const char* statement) { return first_of(rows, {{"statement", statement}}); }

// The printed result of a published sum against this study's, with the digits of the source.
void add_published_sums(const Rows& sums, StudyAnswer& answer) {
  for (const PublishedRow& row : published_rows()) {
    if (row.kind != PublishedKind::precision || row.table != "accumulation" || row.figures.empty()) continue;
    const std::string sum = row.text("accumulator_dtype").value_or("");
    const std::string term = row.text("addend_dtype").value_or("");
    const Json* ours = first_of(sums, {{"statement", fmt::format("{} += {}", sum, term)}});
    const auto figure = std::ranges::find(row.figures, "result", &PublishedFigure::quantity);
    if (ours == nullptr || figure == row.figures.end()) continue;
    const bool agrees = std::abs(number_at(*ours, "result") - figure->value) < 5e-9;
    StudyClaim claim{row.study, fmt::format("{} += {} gives {}.", sum, term, figure->printed),
                     agrees ? StudyClaim::Verdict::confirmed : StudyClaim::Verdict::contradicted,
                     fmt::format("Here it is {:.8f}.", number_at(*ours, "result"))};
    const auto is_same = [&](const StudyClaim& each) { return each.text == claim.text; };
    if (std::ranges::none_of(answer.elsewhere, is_same)) answer.elsewhere.push_back(std::move(claim));
  }
}

StudyAnswer sums(const StudyRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "What becomes of a sum of a thousand terms of 0.01?"};
  const Rows all = rows_of(rows, StudyPart::accumulation);
  const Json* full = sum_of(all, "fp32 += fp32");
  const Json* low = sum_of(all, "fp16 += fp16");
  const Json* mixed = sum_of(all, "fp32 += fp16");
  if (full == nullptr || low == nullptr || mixed == nullptr) return unanswered(answer, StudyPart::accumulation);
  for (const Json* row : all) {
    answer.add(StudyPart::accumulation, "{}: {:.8f}, relative error {:.2g}", text_at(*row, "statement"),
               number_at(*row, "result"), number_at(*row, "relative_error"));
  }
  const double gain = number_at(*low, "relative_error") / number_at(*mixed, "relative_error");
  answer.say("In fp32 it is {:.5f}, in fp16 {:.5f}. With fp16 terms and an fp32 sum it is {:.5f}: {}.",
             number_at(*full, "result"), number_at(*low, "result"), number_at(*mixed, "result"),
             gain > 2
                 ? fmt::format("{} closer, so the type of the sum matters more than the type of the terms", times(gain))
                 : "hardly closer, so rounding the terms is what costs");
  if (const Json* bf16 = sum_of(all, "bf16 += bf16"); bf16 != nullptr && number_at(*bf16, "relative_error") > 0.1)
    answer.say("In bf16 the sum stops at {:.4g}, where a term is less than half of its last digit.",
               number_at(*bf16, "result"));
  add_published_sums(all, answer);
  return answer;
}

StudyAnswer autocast(const StudyRows& rows) {
  StudyAnswer answer{kPrecisionTopic,
                     "Which types do the parts of a model have under autocast, and why is layer norm an exception?"};
  const Rows all = rows_of(rows, StudyPart::autocast);
  const Json* norm = first_of(all, {{"op", "layer_norm"}});
  if (norm == nullptr) return unanswered(answer, StudyPart::autocast);
  std::vector<std::string> low, full;
  for (const Json* row : rows_of(all, {{"part", "forward"}})) {
    const std::string result = text_at(*row, "result");
    const std::string entry = text_at(*row, "module").empty() ? text_at(*row, "op") : text_at(*row, "module");
    auto& list = result == "fp32" ? full : low;
    const std::string words = fmt::format("{} {}", entry, result);
    if (std::ranges::find(list, words) == list.end()) list.push_back(words);
  }
  answer.add(StudyPart::autocast, "low: {}", fmt::join(low, ", "));
  answer.add(StudyPart::autocast, "fp32: {}", fmt::join(full, ", "));
  const bool is_full = text_at(*norm, "result") == "fp32";
  answer.say(
      "Matrix products run in the 16-bit type; parameters and the loss stay in fp32. Layer norm has results in {}: {}.",
      text_at(*norm, "result"),
      is_full
          ? "its mean and variance are sums of many terms, which overflow in fp16 and lose digits in both 16-bit types"
          : "here it is not an exception");
  answer.compare("unnamed_card", "Under fp16 autocast layer norm gives fp32, the linear layers fp16.",
                 agreement(is_full && !low.empty()), "Here layer norm gives {}.", text_at(*norm, "result"));
  return answer;
}

StudyAnswer errors(const StudyRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "How large are the errors of each type against double precision?"};
  const Rows all = rows_of(rows, StudyPart::precision_error);
  std::vector<std::pair<std::string, double>> worst;
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    double most = 0;
    for (const Json* row : all) {
      // The keys contain dots.
      for (const char* of : {"forward", "gradient"}) {
        const auto found = row->find(fmt::format("{}.{}", dtype, of));
        if (found != row->end() && found->is_number()) most = std::max(most, found->get<double>());
      }
    }
    if (most > 0) worst.emplace_back(dtype, most);
  }
  if (worst.size() < 2) return unanswered(answer, StudyPart::precision_error);
  for (const auto& [dtype, error] : worst)
    answer.add(StudyPart::precision_error, "{}: largest relative error of a module {:.2g}", dtype, error);
  std::ranges::sort(worst, {}, &std::pair<std::string, double>::second);
  answer.say(
      "The largest relative error of a module is {:.1g} in {}, the most exact type, and {:.1g} in {}, the least exact "
      "one.",
      worst.front().second, worst.front().first, worst.back().second, worst.back().first);
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_precision(const StudyRows& rows) { return {sums(rows), autocast(rows), errors(rows)}; }

}  // namespace ridgepoint::answers
