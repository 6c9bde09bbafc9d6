// The speedup and the cost of several ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "ridgepoint/ops/parallel.h"
#include "study/answers/rows.h"

namespace ridgepoint::answers {
namespace {

constexpr const char* kRanksTopic = "Several ranks";
constexpr const char* kSlowest = "parallel.slowest_ms";

StudyAnswer bandwidth(const PartRows& rows) {
  StudyAnswer answer{kRanksTopic, "What bandwidth do collectives reach, and how long does the smallest take?"};
  Rows all = rows_of(rows, StudyPart::collectives);
  if (all.empty()) return unanswered(answer, StudyPart::collectives);
  all = rows_like(all, *all.front(), {"device", "ranks"});  // not of processes beside a GPU
  std::vector<std::string> sentences;
  double wrong = 0;
  for (const std::string& op : texts_of(all, "op")) {
    const Rows of_op = rows_of(all, {{"op", op}});
    const auto size = [](const Json* row) { return number_at(*row, "bytes"); };
    const Json& least = **std::ranges::min_element(of_op, {}, size);
    const Json& most = **std::ranges::max_element(of_op, {}, size);
    for (const Json* row : of_op) wrong += number_at(*row, "wrong");
    const double link_share = number_at(most, "link_share");
    const std::string of_link = has(link_share) ? fmt::format(" ({} of the link)", percent(link_share)) : "";
    answer.add(StudyPart::collectives, "{}: {} in {:.1f} us, {} in {}", op, bytes_at(least, "bytes"),
               number_at(least, "time_us"), bytes_at(most, "bytes"), ms(number_at(most, "time_us") / 1e3));
    sentences.push_back(fmt::format("{} {:.2f} GB/s{} at {}, and {:.1f} us at {}", op,
                                    number_at(most, "bus_gb_per_second"), of_link, bytes_at(most, "bytes"),
                                    number_at(least, "time_us"), bytes_at(least, "bytes")));
  }
  answer.say("By the bandwidth of a link of a ring: {}.", fmt::join(sentences, "; "));
  if (wrong > 0) answer.say("{:.0f} elements of the results are wrong.", wrong);
  return answer;
}

// The slowdown against one rank, and the exposed communication; empty if it is not known.
std::string cause(double lost_ms, double exposed_ms) {
  if (!has(exposed_ms) || lost_ms <= 0) return "";
  return fmt::format(": it takes {} longer, and communication that nothing hides takes {}", ms(lost_ms),
                     ms(exposed_ms));
}

StudyAnswer efficiency(const PartRows& rows) {
  StudyAnswer answer{kRanksTopic, "How much of its speed does a step keep on several ranks?"};
  std::vector<std::string> sentences;
  for (const Json* row : rows_of(rows, StudyPart::ranks, {{"parallel.shard", "none"}})) {
    const double ranks = number_at(*row, "parallel.data");
    const double alone = number_at(*row, "parallel.alone_ms"), slowest = number_at(*row, kSlowest);
    const double communication = number_at(*row, "parallel.communication_ms"),
                 hidden = number_at(*row, "parallel.hidden");
    if (!has(alone) || !has(slowest)) continue;
    const std::string collectives =
        has(communication) ? fmt::format("; collectives run {}, {} of it hidden", ms(communication), percent(hidden))
                           : "";
    answer.add(StudyPart::ranks, "{}: {} on {:.0f} ranks, {} alone{}", workload(*row), ms_at(*row, kSlowest), ranks,
               ms(alone), collectives);
    sentences.push_back(fmt::format("a step of {} on {:.0f} ranks keeps {} of the speed of one rank alone{}{}",
                                    text_at(*row, "model.name"), ranks, percent(alone / slowest), doubt(*row),
                                    cause(slowest - alone, number_at(*row, "parallel.exposed_ms"))));
  }
  if (sentences.empty()) return unanswered(answer, StudyPart::ranks);
  answer.say("Where each rank has the batch that one has alone, {}.", fmt::join(sentences, "; "));
  return answer;
}

// The shardings that the study left out for lack of time.
std::string not_measured(const Rows& of_model) {
  std::vector<std::string_view> missing;
  for (const Sharding shard : {Sharding::gradients, Sharding::parameters}) {
    if (first_of(of_model, {{"parallel.shard", std::string(name(shard))}}) == nullptr) missing.push_back(name(shard));
  }
  return missing.empty() ? "" : fmt::format(" ({} not measured)", fmt::join(missing, " and "));
}

StudyAnswer sharding(const PartRows& rows) {
  StudyAnswer answer{kRanksTopic,
                     "What does dividing states, gradients and parameters among ranks save, and what does it cost?"};
  const Rows all = rows_of(rows, StudyPart::ranks);
  std::vector<std::string> sentences;
  for (const std::string& model : texts_of(all, "model.name")) {
    Rows of_model = rows_of(all, {{"model.name", model}});
    const Json* none = first_of(of_model, {{"parallel.shard", "none"}});
    if (none != nullptr) of_model = rows_like(of_model, *none, {"mode", "dtype", "batch", "context", "parallel.data"});
    if (none == nullptr || of_model.size() < 2) continue;
    const Json* least = none;
    for (const Json* row : of_model) {
      answer.add(StudyPart::ranks, "{}, {}: {}, peak of a rank {}", workload(*row), text_at(*row, "parallel.shard"),
                 ms_at(*row, kSlowest), bytes_at(*row, kPeak));
      if (number_at(*row, kPeak) < number_at(*least, kPeak)) least = row;
    }
    if (least == none) {
      sentences.push_back(fmt::format("no sharding lowers the peak of {}", model));
      continue;
    }
    sentences.push_back(
        fmt::format("of {}, '{}' has the lowest peak: {} instead of {} ({} less), for a step that is {}", model,
                    text_at(*least, "parallel.shard"), bytes_at(*least, kPeak), bytes_at(*none, kPeak),
                    percent(1 - number_at(*least, kPeak) / number_at(*none, kPeak)), words(speedup(*none, *least))));
    sentences.back() += not_measured(of_model);
  }
  if (sentences.empty()) return unanswered(answer, StudyPart::ranks);
  answer.say("{}.", fmt::join(sentences, "; "));
  answer.sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(answer.sentence.front())));
  return answer;
}

StudyAnswer ways(const PartRows& rows) {
  StudyAnswer answer{kRanksTopic,
                     "How should gradients be summed: one by one or as one message behind backward, one by one or in "
                     "buckets beside it?"};
  const Rows all = rows_of(rows, StudyPart::data_parallel);
  const Json* first = first_of(all, {{"parallel.overlap", false}, {"parallel.bucket_bytes", kEachGradient}});
  if (first == nullptr) return unanswered(answer, StudyPart::data_parallel);
  std::vector<std::string> others;
  for (const Json* row : rows_like(all, *first, {"model.name", "mode", "dtype", "batch", "context", "parallel.data"})) {
    const double communication = number_at(*row, "parallel.communication_ms");
    answer.add(StudyPart::data_parallel, "{}: {}{}", way_of(*row), ms_at(*row, kSlowest),
               has(communication) ? fmt::format(", collectives {}, {} of it exposed", ms(communication),
                                                ms(number_at(*row, "parallel.exposed_ms")))
                                  : "");
    if (row != first) others.push_back(fmt::format("{} it is {}", way_of(*row), words(speedup(*first, *row))));
  }
  answer.say("A step of {} on {:.0f} ranks takes {} with gradients {}{}.", workload(*first),
             number_at(*first, "parallel.data"), ms_at(*first, kSlowest), way_of(*first),
             others.empty() ? "" : fmt::format("; {}", fmt::join(others, "; ")));
  return answer;
}

}  // namespace

std::string way_of(const Json& row) {
  const double bucket = number_at(row, "parallel.bucket_bytes");
  const std::string size = bucket == static_cast<double>(kEachGradient) ? "one by one"
                           : bucket == static_cast<double>(kAllGradients)
                               ? "as one message"
                               : fmt::format("in buckets of {}", bytes(bucket));
  return size + (field(row, "parallel.overlap") == false ? " behind backward" : " beside backward");
}

std::vector<StudyAnswer> about_ranks(const PartRows& rows) {
  std::vector<StudyAnswer> answers = {bandwidth(rows), efficiency(rows), sharding(rows)};
  if (StudyAnswer of_ways = ways(rows); !of_ways.missing) answers.push_back(std::move(of_ways));  // of editions alone
  return answers;
}

}  // namespace ridgepoint::answers
