// The effects of low precision: sums, the types under autocast, errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "inspect/published/published_rows.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kPrecisionTopic = "Precision";

constexpr double kTerm = 0.01;

const Json* sum_of(const Rows& rows, const char* statement) { return first_of(rows, {{"statement", statement}}); }

// The rows of sums of small terms. Rows of earlier versions lack the term, but have no other sums.
Rows sums_of_small_terms(const PartRows& rows) {
  Rows all = rows_of(rows, StudyPart::accumulation);
  std::erase_if(all, [](const Json* row) {
    const double term = number_at(*row, "term");
    return text_at(*row, "statement").empty() || (has(term) && term != kTerm);
  });
  return all;
}

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

// Whether adding a term to a sum of 8 binary digits rounds back to the sum, far below the true one.
bool is_stuck_in_bf16(double sum) { return sum > 0 && sum < 9.9 && kTerm < std::ldexp(1.0, std::ilogb(sum) - 8); }

StudyAnswer sums(const PartRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "What becomes of a sum of a thousand terms of 0.01?"};
  const Rows all = sums_of_small_terms(rows);
  const Json* full = sum_of(all, "fp32 += fp32");
  const Json* low = sum_of(all, "fp16 += fp16");
  const Json* mixed = sum_of(all, "fp32 += fp16");
  if (full == nullptr || low == nullptr || mixed == nullptr) return unanswered(answer, StudyPart::accumulation);
  for (const Json* row : all) {
    answer.add(StudyPart::accumulation, "{}: {:.8f}, relative error {:.2g}", text_at(*row, "statement"),
               number_at(*row, "result"), number_at(*row, "relative_error"));
  }
  answer.say("In fp32 the sum is {:.5f}, in fp16 {:.5f}. With fp16 terms and an fp32 sum it is {:.5f}.",
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

// A sum in fp16 whose exact value is beyond the type's largest number.
StudyAnswer overflow(const PartRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "When does fp16 overflow, and what avoids it?"};
  constexpr double kLargest = 65504;
  const auto exact_of = [](const Json& row) { return number_at(row, "terms") * number_at(row, "term"); };
  Rows all = rows_of(rows, StudyPart::accumulation);
  std::erase_if(all, [&](const Json* row) { return !(exact_of(*row) > kLargest); });
  const Json* low = sum_of(all, "fp16 += fp16");
  if (low == nullptr) return unanswered(answer, StudyPart::accumulation);
  const auto result_of = [](const Json& row) {
    const double result = number_at(row, "result");
    return has(result) ? fmt::format("{:g}", result) : std::string("no finite number");
  };
  for (const Json* row : all)
    answer.add(StudyPart::accumulation, "{}: {} terms of {:g}, exactly {:g}, give {}", text_at(*row, "statement"),
               number_at(*row, "terms"), number_at(*row, "term"), exact_of(*row), result_of(*row));
  answer.say("{} terms of {:g} are {:g}, and the largest number of fp16 is {:g}: their sum in fp16 is {}.",
             number_at(*low, "terms"), number_at(*low, "term"), exact_of(*low), kLargest, result_of(*low));
  for (const auto& [statement, what] :
       {std::pair("fp32 += fp16", "With the same terms in fp16 and the sum in fp32"), {"bf16 += bf16", "In bf16"}}) {
    const Json* row = sum_of(all, statement);
    if (row == nullptr) continue;
    const double error = number_at(*row, "relative_error");
    answer.say("{} it is {}{}.", what, result_of(*row),
               has(error) ? fmt::format(", with a relative error of {:.2g}", error) : "");
  }
  for (const Json* row : rows_of(rows, StudyPart::sizes, {{"dtype", "fp16"}})) {
    const double skipped = number_at(*row, "loss_scaling.skipped_steps");
    if (!has(skipped)) continue;
    const double iterations = number_at(*row, "warmup") + number_at(*row, "steps");
    const double scale = number_at(*row, "loss_scaling.scale");
    answer.add(StudyPart::sizes, "{}: loss scaling skipped {} of {} iterations, warm-up included; loss scale {:g}",
               workload(*row), skipped, iterations, scale);
    answer.say(
        "Loss scaling skipped {} of {} updates of a training step ({}), those with a gradient that was not finite, and "
        "left a scale of {:g}.",
        skipped, iterations, workload(*row), scale);
  }
  return answer;
}

StudyAnswer autocast(const PartRows& rows) {
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

// The rows of each model in turn: its parameters come first.
std::vector<Rows> models_of(const Rows& all) {
  std::vector<Rows> models;
  std::string last;
  for (const Json* row : all) {
    const std::string part = text_at(*row, "part");
    if (models.empty() || (part == "parameter" && last != "parameter")) models.emplace_back();
    models.back().push_back(row);
    last = part;
  }
  return models;
}

// "fc1 fp16": the module and the types of its results.
std::string typed(const Rows& rows) {
  return fmt::format("{} {}", fmt::join(texts_of(rows, "module"), " and "),
                     fmt::join(texts_of(rows, "result"), " and "));
}

StudyAnswer types_of_a_step(const PartRows& rows) {
  StudyAnswer answer{kPrecisionTopic,
                     "Which type have parameters, first layer, norm, logits, loss and gradients under autocast?"};
  for (const Rows& model : models_of(rows_of(rows, StudyPart::autocast))) {
    const Rows products = rows_of(model, {{"part", "forward"}, {"op", "matmul"}});
    if (products.empty()) continue;
    std::vector<std::string> parts;
    const auto add = [&](const std::string& what, const Rows& of) {
      if (!of.empty()) parts.push_back(fmt::format("{} {}", what, fmt::join(texts_of(of, "result"), " and ")));
    };
    add("parameters", rows_of(model, {{"part", "parameter"}}));
    parts.push_back(fmt::format("first layer ({})", typed({products.front()})));
    if (const Rows norms = rows_of(model, {{"part", "forward"}, {"op", "layer_norm"}}); !norms.empty())
      parts.push_back(fmt::format("norm ({})", typed({norms.front()})));
    if (products.size() > 1) parts.push_back(fmt::format("logits ({})", typed({products.back()})));
    add("loss", rows_of(model, {{"part", "loss"}}));
    add("gradients of parameters", rows_of(model, {{"part", "gradient"}}));
    const std::string operands = text_at(*products.front(), "operands");
    const std::string of = operands.empty() ? "Of one model: " : fmt::format("Where products multiply {}: ", operands);
    answer.say("{}{}.", of, fmt::join(parts, ", "));
    for (const char* part : {"forward", "backward"}) {
      std::vector<std::string> ops;
      for (const Json* row : rows_of(model, {{"part", part}})) {
        const std::string module = text_at(*row, "module"), op = text_at(*row, "op");
        if (!op.empty())
          ops.push_back(fmt::format("{}{}{} {}", module, module.empty() ? "" : " ", op, text_at(*row, "result")));
      }
      if (!ops.empty()) answer.add(StudyPart::autocast, "{}{}: {}", of, part, fmt::join(ops, ", "));
    }
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::autocast) : answer;
}

StudyAnswer low_norms(const PartRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "Does layer norm still need fp32 where everything else is bf16?"};
  const Rows all = rows_of(rows, StudyPart::precision_error);
  for (const std::string dtype : {"bf16", "fp16"}) {
    std::vector<std::string> changes;
    for (const auto& [of, what] : {std::pair("forward", "a module's result"), {"gradient", "a module's gradients"}}) {
      double full = 0, low = 0;
      for (const Json* row : all) {
        const double with = number_at(*row, fmt::format("{}.{}", dtype, of));
        const double without = number_at(*row, fmt::format("{}_low_norms.{}", dtype, of));
        if (!has(with) || !has(without)) continue;
        full = std::max(full, with);
        low = std::max(low, without);
        answer.add(StudyPart::precision_error, "{}, {} of {}: error {:.2g} with norms in fp32, {:.2g} with norms in {}",
                   dtype, of, text_at(*row, "module"), with, without, dtype);
      }
      if (full > 0 && low > 0)
        changes.push_back(
            fmt::format("the largest error of {} from {:.2g} to {:.2g} ({})", what, full, low, times(low / full)));
    }
    if (!changes.empty())
      answer.say("Against double precision, norms in {} instead of fp32 change {}.", dtype,
                 fmt::join(changes, " and "));
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::precision_error) : answer;
}

// Among the steps that were rounded one at a time: those that lose the result, and the one that changes it most.
StudyAnswer norm_steps(const PartRows& rows) {
  StudyAnswer answer{kPrecisionTopic, "Which parts of layer norm are sensitive to low precision?"};
  for (const std::string dtype : {"fp16", "bf16"}) {
    const std::string key = dtype + ".error";
    for (const double spread : {1.0, 300.0}) {
      const Json *worst = nullptr, *best = nullptr;
      std::vector<std::string> lost;
      for (const Json* row : rows_of(rows, StudyPart::accumulation)) {
        const std::string step = text_at(*row, "step");
        if (!row->contains(key) || number_at(*row, "spread") != spread) continue;
        const double error = number_at(*row, key), largest = number_at(*row, "largest");
        answer.add(StudyPart::accumulation, "{} in {}, mean and deviation {:g}: error {}, largest value {:.3g}", step,
                   dtype, spread, has(error) ? fmt::format("{:.2g}", error) : "infinite", largest);
        if (step == "all") continue;
        if (!has(error) || error >= 1) {
          lost.push_back(fmt::format("'{}' (values up to {:.2g})", step, largest));
          continue;
        }
        if (worst == nullptr || error > number_at(*worst, key)) worst = row;
        if (best == nullptr || error < number_at(*best, key)) best = row;
      }
      const std::string where = fmt::format("In {}, with values of mean and deviation {:g}", dtype, spread);
      if (!lost.empty())
        answer.say("{}, each of these steps alone loses the result, with an error of 100 % or more: {}.", where,
                   fmt::join(lost, ", "));
      if (worst != nullptr && worst != best)
        answer.say("{}, the step '{}' adds {} error, {:.2g}, and '{}' the smallest, {:.2g}.", where,
                   text_at(*worst, "step"), lost.empty() ? "the largest" : "the largest other", number_at(*worst, key),
                   text_at(*best, "step"), number_at(*best, key));
    }
  }
  return answer.sentence.empty() ? unanswered(answer, StudyPart::accumulation) : answer;
}

StudyAnswer errors(const PartRows& rows) {
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

std::vector<StudyAnswer> about_precision(const PartRows& rows) {
  return {sums(rows),   overflow(rows),   autocast(rows), types_of_a_step(rows),
          errors(rows), norm_steps(rows), low_norms(rows)};
}

}  // namespace ridgepoint::answers
