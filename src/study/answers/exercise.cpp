// Other questions of the exercise: the memory of a rank around the optimizer's step, communication by formula, and the
// leaderboard's problem.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kSharingTopic = "Several ranks";

double of_first_rank(const Json& row, const char* figure) {
  const Json& ranks = field(row, "memory.ranks");
  return ranks.is_array() && !ranks.empty() ? number_at(ranks.front(), figure) : std::nan("");
}

StudyAnswer around_the_optimizer(const PartRows& rows) {
  StudyAnswer answer{kSharingTopic,
                     "What does a rank hold after initialisation, before and after the optimizer's step?"};
  const Rows all = rows_of(rows, StudyPart::sharded_memory);
  const Json* none = first_of(all, {{"parallel.shard", "none"}});
  if (none == nullptr) return unanswered(answer, StudyPart::sharded_memory);
  std::vector<std::string> others;
  for (const Json* row : rows_like(all, *none, {"model.name", "mode", "dtype", "batch", "context", "parallel.data"})) {
    const double before = of_first_rank(*row, "before_optimizer_bytes");
    answer.add(StudyPart::sharded_memory, "--shard {}: {}, {}, {}; peak {}", text_at(*row, "parallel.shard"),
               bytes(of_first_rank(*row, "initialised_bytes")), bytes(before),
               bytes(of_first_rank(*row, "after_optimizer_bytes")), bytes_at(*row, kPeak));
    if (row != none) others.push_back(fmt::format("with {} {}", text_at(*row, "parallel.shard"), bytes(before)));
  }
  answer.say("A rank of {:.0f} with {} holds {}, {} and {} if nothing is divided.", number_at(*none, "parallel.data"),
             workload(*none), bytes(of_first_rank(*none, "initialised_bytes")),
             bytes(of_first_rank(*none, "before_optimizer_bytes")),
             bytes(of_first_rank(*none, "after_optimizer_bytes")));
  if (!others.empty()) answer.say("Before the step it holds {}.", fmt::join(others, ", "));
  return answer;
}

StudyAnswer hidden_by_formula(const PartRows& rows) {
  StudyAnswer answer{kSharingTopic, "From how many tokens of a rank does communication hide, by formula?"};
  for (const std::string& model : texts_of(rows_of(rows, StudyPart::calculations), "model")) {
    const Rows of_model = rows_of(rows, StudyPart::calculations, {{"model", model}});
    std::vector<std::string> texts;
    constexpr std::pair<const char*, const char*> kWays[] = {{"data_parallel.tokens", "plain data parallelism"},
                                                             {"fully_sharded.tokens", "parameters sharded"},
                                                             {"both.tokens", "parameters sharded and tensors divided"}};
    for (const auto& [key, way] : kWays) {
      const Json* row = first_of(of_model, {{"key", key}});
      if (row == nullptr) continue;
      texts.push_back(fmt::format("{} with {}", number_at(*row, "value"), way));
      answer.add(StudyPart::calculations, "{}, {}: {} = {}", model, way, text_at(*row, "formula"),
                 text_at(*row, "figures"));
    }
    if (texts.empty()) continue;
    answer.say("Of {} on {:.0f} ranks of {}: {}.", model, number_at(*of_model.front(), "ranks"),
               text_at(*of_model.front(), "card"), fmt::join(texts, ", "));
  }
  return answer.evidence.empty() ? unanswered(answer, StudyPart::calculations) : answer;
}

StudyAnswer leaderboard(const PartRows& rows) {
  StudyAnswer answer{"Leaderboard", "How long does the problem of the leaderboard take?"};
  const Rows all = rows_of(rows, StudyPart::leaderboard);
  if (all.empty()) return unanswered(answer, StudyPart::leaderboard);
  const Json& row = *all.front();
  const double forward = number_at(row, "forward_ms.median"), backward = number_at(row, "backward_ms.median");
  if (has(forward)) {
    answer.add(StudyPart::leaderboard, "forward {}, backward {}", ms(forward), ms(backward));
    answer.say("{} attention with {:.0f} heads over {:.0f} tokens takes {}, forward and backward.",
               text_at(row, "attention"), number_at(row, "model.heads"), number_at(row, "context"),
               ms(forward + backward));
  } else {
    const double step = is_planned(row) ? number_at(row, "predicted_ms") : number_at(row, "parallel.slowest_ms");
    const bool is_call = !has(number_at(row, "parallel.data"));
    const std::string run = is_call ? text_at(row, "attention") + " attention"
                                    : fmt::format("{:.0f} ranks, shard {}", number_at(row, "parallel.data"),
                                                  text_at(row, "parallel.shard"));
    const std::string peak = bytes_at(row, has(number_at(row, kPeak)) ? kPeak : kPlannedPeak);
    answer.add(StudyPart::leaderboard, "{}, {}: {}, peak{} {}", workload(row), run,
               has(step) ? ms(step) : "no time is known", is_call ? "" : " of a rank", peak);
    answer.say("{}, and {} needs {}.", has(step) ? "A step takes " + ms(step) : "No time is known",
               is_call ? "the call" : "a rank", peak);
  }
  return answer;
}

}  // namespace

std::vector<StudyAnswer> about_exercise(const PartRows& rows) {
  std::vector<StudyAnswer> answers;
  for (StudyAnswer& answer : std::vector{around_the_optimizer(rows), hidden_by_formula(rows), leaderboard(rows)}) {
    if (!answer.missing) answers.push_back(std::move(answer));  // of several ranks and of editions alone
  }
  return answers;
}

}  // namespace ridgepoint::answers
