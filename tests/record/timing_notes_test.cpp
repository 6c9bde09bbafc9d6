

#include <vector>

#include "record/record_table.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

Record judged(TimingVerdict verdict) {
  Record record = sample_record();
  record.timing.verdict = verdict;
  return record;
}

std::string table_of(const std::vector<Record>& records, const std::vector<std::string>& columns = {}) {
  return render(Format::table, records_page(records, Format::table, columns), SIZE_MAX);
}

TEST(TimingNotes, mark_what_is_not_steady) {
  EXPECT_EQ(timing_mark(judged(TimingVerdict::drifting)), "~ drifting");
  EXPECT_EQ(timing_mark(judged(TimingVerdict::too_few)), "~ too few");
  EXPECT_EQ(timing_mark(judged(TimingVerdict::steady)), "-");
  EXPECT_EQ(timing_mark(sample_record()), "-");
}

TEST(TimingNotes, say_once_what_to_do_for_each_mark) {
  const std::vector<Record> records = {judged(TimingVerdict::throttled), judged(TimingVerdict::steady),
                                       judged(TimingVerdict::drifting), judged(TimingVerdict::throttled)};
  const std::string notes = timing_notes(records);
  EXPECT_THAT(notes, HasSubstr("~ drifting: the times rise or fall during the run; raise --warmup"));
  EXPECT_THAT(notes, HasSubstr("\n~ throttled: "));
  EXPECT_EQ(std::ranges::count(notes, '\n'), 1);
}

TEST(TimingNotes, are_one_line_for_every_verdict_but_steady) {
  for (const TimingVerdict verdict : kAllTimingVerdicts) {
    const std::vector<Record> records = {judged(verdict)};
    const std::string notes = timing_notes(records);
    EXPECT_EQ(notes.empty(), verdict == TimingVerdict::steady) << name(verdict);
    EXPECT_EQ(notes.ends_with('.'), verdict != TimingVerdict::steady) << name(verdict);
  }
}

TEST(TimingNotes, stand_below_a_table_with_marks) {
  const std::vector<Record> records = {judged(TimingVerdict::steady), judged(TimingVerdict::outliers)};
  EXPECT_THAT(table_of(records), HasSubstr("~ outliers: a few iterations move the mean"));
  EXPECT_THAT(table_of(records, {"mean"}), Not(HasSubstr("outliers")));
  EXPECT_THAT(table_of({judged(TimingVerdict::steady)}), Not(HasSubstr("timing")));
}

TEST(TimingNotes, stand_beside_the_interval_of_the_median_and_the_ratio_of_the_phases) {
  Record record = judged(TimingVerdict::steady);
  record.training_step->time_ms = describe({12, 8, 11, 10, 9, 10});
  record.training_step->phase_ms = {.forward = 2, .backward = 5};
  const std::string table = table_of({record}, {"median_half_width", "backward_over_forward"});
  EXPECT_THAT(table, HasSubstr("20.00%"));
  EXPECT_THAT(table, HasSubstr("2.50"));
  EXPECT_THAT(table_of({attention_record()}, {"backward_over_forward"}), HasSubstr("2.50"));
}

}  // namespace
}  // namespace ridgepoint::tables
