

#include <cstdint>
#include <string>
#include <vector>

#include "record/record_table.h"
#include "ridgepoint/ops/parallel.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Record chosen_record(std::int64_t batch, const std::string& shard) {
  Record record = sample_record();
  record.batch = batch;
  ParallelSection& parallel = record.training_step->parallel;
  parallel.data = 2;
  parallel.shard = shard;
  parallel.bucket_bytes = 64 * kMiB;
  parallel.choice = "--shard auto took " + shard + ".";
  parallel.tried_capacity_bytes = 50 * kMiB;
  parallel.tried_shard = {"none", "optimizer"};
  parallel.tried_bucket_bytes = {64 * kMiB, 64 * kMiB};
  parallel.tried_peak_reserved = {60 * kMiB, 50 * kMiB};
  parallel.tried_ms = {1.25, Statistics::kUnknown};
  return record;
}

std::string text_of(const std::vector<Record>& records) {
  return render(Format::table, records_page(records, Format::table), SIZE_MAX);
}

TEST(ParallelChoices, are_a_table_of_what_was_tried) {
  EXPECT_THAT(text_of({chosen_record(4, "optimizer")}),
              HasSubstr("--shard auto took optimizer.\n"
                        "\n"
                        "What was tried\n"
                        "sharded     buckets  peak reserved  fits  predicted ms  chosen\n"
                        "none       64.0 MiB       60.0 MiB    no          1.25  -\n"
                        "optimizer  64.0 MiB       50.0 MiB   yes             -  *\n"));
}

TEST(ParallelChoices, of_several_rows_have_what_tells_them_apart) {
  Record given = sample_record();
  given.training_step->parallel.data = 2;
  const std::string text = text_of({chosen_record(4, "optimizer"), chosen_record(8, "none"), given});
  EXPECT_THAT(text, HasSubstr("batch  sharded     buckets"));
  EXPECT_THAT(text, HasSubstr("    8  none       64.0 MiB"));
  EXPECT_THAT(text, HasSubstr("--shard auto took optimizer.\n--shard auto took none.\n"));
}

TEST(ParallelChoices, are_not_there_where_nothing_was_chosen) {
  EXPECT_THAT(text_of({sample_record()}), Not(HasSubstr("tried")));
  Record one = chosen_record(4, "optimizer");
  ParallelSection& parallel = one.training_step->parallel;
  parallel.tried_shard = {"optimizer"};
  EXPECT_EQ(parallel_choice_table(std::vector{one}), std::nullopt);
  EXPECT_EQ(parallel_choice_notes(std::vector{one, one}), "--shard auto took optimizer.");
}

TEST(ParallelChoices, say_the_size_of_buckets_where_it_is_not_the_usual_one) {
  Record record = chosen_record(4, "optimizer");
  EXPECT_THAT(records_caption(std::vector{record}), Not(HasSubstr("buckets")));
  record.training_step->parallel.bucket_bytes = 128 * kMiB;
  EXPECT_THAT(text_of({record}), HasSubstr("buckets of 128.0 MiB"));
  record.training_step->parallel.bucket_bytes = kEachGradient;
  EXPECT_THAT(text_of({record}), HasSubstr("buckets of one gradient"));
  record.training_step->parallel.tried_bucket_bytes = {kAllGradients, kAllGradients};
  EXPECT_THAT(text_of({record}), HasSubstr("none       all gradients"));
}

// Sums overlap, also in records that do not say so.
TEST(ParallelChoices, say_that_sums_do_not_overlap) {
  Record old = chosen_record(4, "none"), beside = old, behind = old;
  beside.training_step->parallel.overlap = true;
  behind.training_step->parallel.overlap = false;
  EXPECT_THAT(records_caption(std::vector{old, beside}), Not(HasSubstr("overlap")));
  EXPECT_THAT(text_of({behind}), HasSubstr("overlap off"));
  EXPECT_FALSE(varies(std::vector{old, beside}, *find_setting("overlap")));
  EXPECT_TRUE(varies(std::vector{beside, behind}, *find_setting("overlap")));
}

}  // namespace
}  // namespace ridgepoint::tables
