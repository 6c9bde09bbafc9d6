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

// The printed result of a published sum against this study's, to the last digit of the source.
void add_published_sums(const Rows& sums, StudyAnswer& answer) {
  for (const PublishedRow& row : published_rows()) {
    if (row.kind != PublishedKind::precision || row.table != "accumulation" || row.figures.empty()) continue;
    const std::string statement = statement_of(row);
    const Json* ours = sum_of(sums, statement.c_str());
    const auto figure = std::ranges::find(row.figures, "result", &PublishedFigure::quantity);
    if (ours == nullptr || figure == row.figures.end()) continue;
    const double result = number_at(*ours, "result");
    judge(answer,
          {.source = row.study,
           .text = fmt::format("{} gives {}.", statement, figure->printed),
           .figures = {{figure->value - 5e-9, figure->value + 5e-9}},
           .is_of_card = false},
          *ours, {.figures = {exactly(result)}, .text = fmt::format("it is {:.8f}", result)});
  }
}

constexpr double kTerm = 0.01;

// Whether adding a term to a sum of 8 binary digits rounds back to the sum, far below the true one.
bool is_stuck_in_bf16(double sum) { return sum > 0 && sum < 9.9 && kTerm < std::ldexp(1.0, std::ilogb(sum) - 8); }

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
  answer.say("In fp32 it is {:.5f}, in fp16 {:.5f}. With fp16 terms and an fp32 sum it is {:.5f}.",
             number_at(*full, "result"), number_at(*low, "result"), number_at(*mixed, "result"));
  answer.say(
      "The relative error is {:.2g} with fp16 terms and an fp16 sum, {:.2g} with the same terms and an fp32 sum, "
      "and {:.2g} with fp32 for both.",
      number_at(*low, "relative_error"), number_at(*mixed, "relative_error"), number_at(*full, "relative_error"));
  if (const Json* bf16 = sum_of(all, "bf16 += bf16"); bf16 != nullptr && is_stuck_in_bf16(number_at(*bf16, "result")))
    answer.say("In bf16 the sum stops at {:.4g}, where a term is less than half of its last digit.",
               number_at(*bf16, "result"));
  add_published_sums(all, answer);
  return answer;
}

StudyAnswer autocast(const StudyRows& rows) {
  StudyAnswer answer{kPrecisionTopic,
                     "Which types do the parts of a model have under autocast, and is layer norm an exception?"};
  const Rows all = rows_of(rows, StudyPart::autocast);
  const Rows norms = rows_of(all, {{"op", "layer_norm"}});
  if (norms.empty()) return unanswered(answer, StudyPart::autocast);
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
  const auto types_of = [](const Rows& of) { return fmt::format("{}", fmt::join(texts_of(of, "result"), " and ")); };
  const std::string products = types_of(rows_of(all, {{"op", "matmul"}}));
  const std::string of_norm = types_of(norms);
  for (const auto& [what, part] : {std::pair("Parameters are", "parameter"),
                                   {"The loss is", "loss"},
                                   {"Gradients of parameters are", "gradient"}}) {
    if (const Rows of_part = rows_of(all, {{"part", part}}); !of_part.empty())
      answer.say("{} in {}.", what, types_of(of_part));
  }
  answer.say("Matrix products have results in {}, layer norm in {}, so here it is {}.",
             products.empty() ? "no type" : products, of_norm, products == of_norm ? "no exception" : "an exception");
  const bool has_low_products = first_of(all, {{"op", "matmul"}, {"result", "fp16"}}) != nullptr;
  const bool holds = of_norm == "fp32" && has_low_products;
  judge(answer,
        {.source = "unnamed_card",
         .text = "Under fp16 autocast layer norm gives fp32, the linear layers fp16.",
         .figures = {{1, 1}},
         .is_of_card = false},
        *norms.front(),
        {.figures = {exactly(holds ? 1 : 0)},
         .text = fmt::format("layer norm gives {}, the products {}", of_norm, products.empty() ? "no type" : products),
         .differences = {first_of(all, {{"op", "matmul"}, {"operands", "bf16"}}) != nullptr && !has_low_products
                             ? "another number type (bf16, not fp16)"
                             : ""}});
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
