#include "inspect/compare/compare_records.h"

#include <functional>

#include "inspect/compare/noise.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"

namespace ridgepoint {
namespace {

Record timed(double factor, std::uint64_t seed, Mode mode = Mode::step) {
  Noise noise(seed);
  Record record = sample_record(mode);
  record.training_step->time_ms = describe(times_of(30, normal_times(0.01), noise, factor));
  return record;
}

RecordFile file(const std::string& path, std::vector<Record> records) { return {path, std::move(records), {}, {}}; }

std::string error_of(const std::vector<RecordFile>& files) {
  try {
    compare_files(files, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CompareFiles, matches_rows_by_configuration_whatever_their_order) {
  const RecordFile before = file("a", {timed(1, 1), timed(1, 2, Mode::forward)});
  Record other_seed = timed(1.1, 3, Mode::forward);
  other_seed.seed = 99;
  other_seed.warmup = 50;
  const RecordComparison found =
      compare_files(std::vector{before, file("b", {other_seed, timed(0.9, 4)})}, CompareOptions{});
  ASSERT_THAT(found.rows, SizeIs(2));
  EXPECT_EQ(found.rows[0].record.mode, Mode::forward);
  EXPECT_EQ(found.rows[0].baseline.mode, Mode::forward);
  EXPECT_EQ(found.rows[0].verdict, Verdict::slower);
  EXPECT_EQ(found.rows[1].verdict, Verdict::faster);
  EXPECT_EQ(found.rows[0].memory_ratio, 1);
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST(CompareFiles, matches_rows_of_as_many_ranks_and_the_same_sharding) {
  const auto of_ranks = [](double ms, std::int64_t ranks, const std::string& shard) {
    Record record = timed(ms, 1);
    ParallelSection& parallel = record.training_step->parallel;
    parallel.data = ranks;
    parallel.shard = shard;
    parallel.bucket_bytes = 1 << 26;
    parallel.slowest_ms = ms;  // a figure, no setting
    return record;
  };
  const RecordComparison found = compare_files(
      std::vector{file("a", {of_ranks(1, 2, "none"), of_ranks(2, 2, "optimizer"), of_ranks(3, 2, "parameters")}),
                  file("b", {of_ranks(3, 2, "parameters"), of_ranks(9, 3, "none"), of_ranks(1, 2, "none")})},
      CompareOptions{});
  ASSERT_THAT(found.rows, SizeIs(2));
  for (const ComparedRow& row : found.rows) {
    EXPECT_EQ(row.record.training_step->parallel.shard, row.baseline.training_step->parallel.shard);
    EXPECT_NEAR(row.ratio->ratio, 1, 0.1);
  }
}

TEST(CompareFiles, matches_repeated_rows_in_their_order) {
  const RecordFile before = file("a", {timed(1, 1), timed(2, 2)});
  const RecordComparison found = compare_files(std::vector{before, before}, {});
  ASSERT_THAT(found.rows, SizeIs(2));
  for (const ComparedRow& row : found.rows) EXPECT_DOUBLE_EQ(row.ratio->ratio, 1);
}

TEST(CompareFiles, says_which_rows_are_left_out) {
  Record large = timed(1, 3);
  large.batch = 64;
  const RecordComparison found =
      compare_files(std::vector{file("a", {timed(1, 1)}), file("b", {timed(1, 2), large})}, {});
  EXPECT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.warnings, ElementsAre("1 row of 'b' is not compared: 'a' has no row of that configuration"));
}

TEST(CompareFiles, refuses_rows_of_different_devices_and_names_both) {
  Record elsewhere = timed(1, 2);
  elsewhere.device.name = "Other Processor";
  EXPECT_THAT(error_of({file("a", {timed(1, 1)}), file("b", {elsewhere})}),
              AllOf(HasSubstr("different devices are not comparable: Test Processor (cpu) and Other Processor (cpu)"),
                    HasSubstr("measure both on one")));
  EXPECT_THAT(error_of({file("a", {timed(1, 1), elsewhere})}), HasSubstr("different devices"));
}

TEST(CompareFiles, pairs_rows_of_files_that_differ_in_an_option_and_names_it) {
  const auto compiled = [](std::uint64_t seed, Mode mode) {
    Record record = timed(0.5, seed, mode);
    record.compile = Compile::full;
    return record;
  };
  const RecordComparison found =
      compare_files(std::vector{file("a", {timed(1, 1), timed(1, 2, Mode::forward)}),
                                file("b", {compiled(3, Mode::forward), compiled(4, Mode::step)})},
                    {});
  ASSERT_THAT(found.rows, SizeIs(2));
  for (const ComparedRow& row : found.rows) {
    EXPECT_EQ(row.record.mode, row.baseline.mode);
    EXPECT_EQ(row.verdict, Verdict::faster);
  }
  EXPECT_THAT(found.warnings, ElementsAre(HasSubstr("paired by what is equal; the files differ in compile (off and "
                                                    "full)")));
}

TEST(CompareFiles, says_in_which_settings_files_without_common_rows_differ) {
  Record large = timed(1, 2);
  large.batch = 64;
  large.dtype = Precision::bf16;
  Record larger = large;
  larger.batch = 128;
  EXPECT_THAT(error_of({file("a", {timed(1, 1)}), file("b", {large, larger})}),
              AllOf(HasSubstr("no row of 'b' has the configuration of a row of 'a'"),
                    HasSubstr("batch (4 and 64), dtype (fp32 and bf16)")));
  large.model.name.clear();
  EXPECT_THAT(error_of({file("a", {timed(1, 1)}), file("b", {large, larger})}),
              HasSubstr("model.name (tiny and not given)"));
}

TEST(CompareFiles, refuses_rows_without_times) {
  Record planned = sample_record();
  planned.training_step->time_ms = describe({});
  EXPECT_THAT(error_of({file("a", {planned}), file("b", {timed(1, 1)})}), HasSubstr("'a' has no row with times"));
  EXPECT_THAT(error_of({file("a", {planned, timed(1, 1)})}), HasSubstr("one row with times, and comparing needs two"));
}

TEST(CompareFiles, refuses_samples_that_are_no_times) {
  Record broken = timed(1, 2);
  broken.training_step->time_ms.samples[3] = -1;
  EXPECT_THAT(error_of({file("a", {timed(1, 1)}), file("b", {broken})}), HasSubstr("'b' has a sample that is no time"));
}

TEST(CompareFiles, matches_engines_without_their_version_and_another_program_as_a_whole) {
  Record torch = timed(2, 2);
  torch.engine = "torch 2.10.0 eager";
  Record newer = timed(2, 3);
  newer.engine = "torch 2.11.0 eager";
  const RecordComparison versions =
      compare_files(std::vector{file("a", {timed(1, 1), torch}), file("b", {newer, timed(1, 4)})}, {});
  ASSERT_THAT(versions.rows, SizeIs(2));
  EXPECT_EQ(versions.rows[0].baseline.engine, torch.engine);
  const RecordComparison engines = compare_files(std::vector{file("a", {timed(1, 1)}), file("b", {torch})}, {});
  ASSERT_THAT(engines.rows, SizeIs(1));
  EXPECT_EQ(engines.rows[0].verdict, Verdict::slower);
}

TEST(CompareFiles, matches_foreign_records_by_the_fields_that_they_have) {
  Record foreign = timed(2, 2);
  foreign.engine = "";
  foreign.dtype = Precision::bf16;  // not known
  foreign.device.kind = "";
  RecordFile other{"b", {foreign}, std::set<std::string>{"batch", "context", "time_ms.samples"}, {}};
  const RecordComparison found = compare_files(std::vector{file("a", {timed(1, 1)}), other}, {});
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.rows[0].verdict, Verdict::slower);
  EXPECT_EQ(found.rows[0].record.dtype, Precision::fp32);  // that of the baseline
  EXPECT_EQ(found.rows[0].record.engine, "");
  other.records[0].device.name = "";
  EXPECT_THAT(error_of({file("a", {timed(1, 1)}), other}), HasSubstr("\"device.name\": \"= NAME\""));
}

TEST(CompareFiles, keeps_rows_that_failed_without_a_ratio) {
  const RecordComparison found =
      compare_files(std::vector{file("a", {timed(1, 1)}), file("b", {out_of_memory_record()})}, {});
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_FALSE(found.rows[0].ratio);
  EXPECT_EQ(found.rows[0].verdict, Verdict::cannot_tell);
}

TEST(CompareFiles, compares_forward_and_backward_of_attention_calls) {
  const RecordFile calls = file("a", {attention_record()});
  const RecordComparison found = compare_files(std::vector{calls, calls}, {});
  ASSERT_THAT(found.rows, SizeIs(2));
  EXPECT_EQ(found.rows[1].time, ComparedTime::backward);
  EXPECT_EQ(found.rows[1].ratio->ratio, 1);
  EXPECT_EQ(found.rows[1].verdict, Verdict::cannot_tell);  // one sample
}

TEST(CompareRuns, pairs_samples_by_round) {
  Noise noise(5);
  const std::vector<double> shared = drift(30, 0.95, 0.2, noise);
  std::vector<Record> records = {timed(1, 1), timed(1.03, 2)};
  for (Record& record : records) {
    std::vector<double> samples = record.training_step->time_ms.samples;
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] *= shared[i];
    record.training_step->time_ms = describe(samples);
  }
  EXPECT_EQ(compare_runs(records, {}).rows.at(0).verdict, Verdict::slower);
  EXPECT_EQ(compare_files(std::vector{file("a", records)}, {}).rows.at(0).verdict, Verdict::cannot_tell);
}

}  // namespace
}  // namespace ridgepoint
