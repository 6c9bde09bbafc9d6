#include "ridgepoint/record/record.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/files/temporary_folder.h"
#include "record/columns.h"
#include "record/fields.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"

namespace ridgepoint {
namespace {

std::vector<Record> read_text(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "records") << text;
  return read_records(folder / "records");
}

TEST(RecordJson, round_trips_every_field) {
  for (const Record& record : {sample_record(), out_of_memory_record(), attention_record()}) {
    const std::string json = to_json(record);
    EXPECT_EQ(to_json(record_from_json(json)), json);
  }
  const Record back = record_from_json(to_json(sample_record()));
  EXPECT_EQ(back.model.parameters, 2986624);
  EXPECT_EQ(back.training_step->time_ms.samples, sample_record().training_step->time_ms.samples);
  EXPECT_EQ(back.training_step->ceiling_share, 0.7741935);
  EXPECT_EQ(back.training_step->mfu, std::nullopt);
  EXPECT_EQ(record_from_json(to_json(out_of_memory_record())).error.requested_bytes, 512 << 20);
}

TEST(RecordJson, keeps_what_attention_by_itself_adds) {
  Record record = attention_record();
  record.attention_call->causal = true;
  record.attention_fallback = AttentionVariant::recompute;
  const Record back = record_from_json(to_json(record));
  EXPECT_EQ(back.attention_call->causal, true);
  EXPECT_EQ(back.attention_call->keys, 256);
  EXPECT_EQ(back.attention_fallback, AttentionVariant::recompute);
  EXPECT_EQ(back.attention_call->forward_ms.samples, record.attention_call->forward_ms.samples);
  EXPECT_FALSE(back.training_step.has_value());
  EXPECT_FALSE(record_from_json(to_json(sample_record())).attention_call.has_value());
  EXPECT_THAT(error_of([] { record_from_json(R"({"schema":1,"causal":1})"); }),
              HasSubstr("field 'causal' must be true or false"));
}

TEST(RecordJson, keeps_what_a_sharding_was_chosen_from) {
  Record record = sample_record();
  ParallelSection& parallel = record.training_step->parallel;
  parallel.choice = "--shard auto took none.";
  parallel.tried_capacity_bytes = std::int64_t{80} << 30;
  parallel.tried_shard = {"none", "optimizer"};
  parallel.tried_bucket_bytes = {25 << 20, 1 << 20};
  parallel.tried_peak_reserved = {std::int64_t{7} << 30, 1};
  parallel.tried_ms = {1.5, Statistics::kUnknown};
  const ParallelSection back = record_from_json(to_json(record)).training_step->parallel;
  EXPECT_EQ(back.choice, parallel.choice);
  EXPECT_EQ(back.tried_capacity_bytes, parallel.tried_capacity_bytes);
  EXPECT_EQ(back.tried_shard, parallel.tried_shard);
  EXPECT_EQ(back.tried_bucket_bytes, parallel.tried_bucket_bytes);
  EXPECT_EQ(back.tried_peak_reserved, parallel.tried_peak_reserved);
  EXPECT_EQ(back.tried_ms[0], 1.5);
  EXPECT_TRUE(std::isnan(back.tried_ms[1]));
  EXPECT_THAT(error_of([] { record_from_json(R"({"schema":1,"parallel":{"tried_bucket_bytes":3}})"); }),
              HasSubstr("must be an array of whole numbers"));
  EXPECT_THAT(error_of([] { record_from_json(R"({"schema":1,"parallel":{"tried_bucket_bytes":[1,"a"]}})"); }),
              HasSubstr("must be a whole number of 64 bits"));
}

TEST(RecordJson, has_the_names_scripts_rely_on) {
  const nlohmann::json json = nlohmann::json::parse(to_json(sample_record()));
  for (const char* pointer : {"/status",
                              "/mode",
                              "/dtype",
                              "/compile",
                              "/attention",
                              "/checkpoint",
                              "/checkpoint_blocks",
                              "/batch",
                              "/context",
                              "/device/kind",
                              "/device/name",
                              "/model/name",
                              "/model/parameters",
                              "/time_ms/mean",
                              "/time_ms/std",
                              "/time_ms/min",
                              "/time_ms/max",
                              "/time_ms/median",
                              "/time_ms/cv",
                              "/time_ms/quartiles",
                              "/time_ms/samples",
                              "/warmup_ms",
                              "/tokens_per_second",
                              "/flops_per_step",
                              "/mfu",
                              "/ceiling_share",
                              "/memory_bytes/peak_allocated",
                              "/memory_bytes/peak_reserved",
                              "/memory_bytes/before_backward",
                              "/memory_bytes/planned_peak"}) {
    EXPECT_TRUE(json.contains(nlohmann::json::json_pointer(pointer))) << pointer;
  }
  EXPECT_EQ(json["status"], "ok");
  EXPECT_TRUE(json["mfu"].is_null());
}

TEST(RecordJson, keeps_doubles_to_the_last_bit) {
  Record record = sample_record();
  record.training_step->warmup_ms = {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308};
  EXPECT_EQ(record_from_json(to_json(record)).training_step->warmup_ms, record.training_step->warmup_ms);
}

TEST(RecordJson, writes_undefined_statistics_as_null_and_reads_them_back) {
  const std::string json = to_json(out_of_memory_record());
  EXPECT_THAT(json, HasSubstr(R"("time_ms":{"mean":null,)"));
  EXPECT_TRUE(std::isnan(record_from_json(json).training_step->time_ms.mean));
}

TEST(RecordJson, survives_a_device_name_that_is_not_utf8) {
  Record record = sample_record();
  record.device.name = "bad \xff name";
  EXPECT_THAT(record_from_json(to_json(record)).device.name, HasSubstr("name"));
}

TEST(RecordJson, keeps_how_the_run_was_launched) {
  Record record = sample_record();
  EXPECT_EQ(record_from_json(to_json(record)).captured, std::nullopt);
  record.captured = false;
  record.capture_problem = "no";
  record.unfused_bodies = {"fused_add", "fused_mul \"x\""};
  record.training_step->phase_ms.loss = 0.25;
  const Record read = record_from_json(to_json(record));
  EXPECT_EQ(read.captured, false);
  EXPECT_EQ(read.capture_problem, "no");
  EXPECT_EQ(read.unfused_bodies, record.unfused_bodies);
  EXPECT_EQ(read.training_step->phase_ms.loss, 0.25);
  EXPECT_EQ(read.training_step->phase_ms.forward, std::nullopt);
  for (const char* wrong : {R"({"schema":1,"unfused_bodies":"fused_add"})", R"({"schema":1,"unfused_bodies":[1]})"})
    EXPECT_THROW(record_from_json(wrong), Error);
}

TEST(RecordJson, skips_fields_it_does_not_know_and_defaults_absent_ones) {
  const Record record = record_from_json(R"({"schema":1,"mode":"step","colour":"blue","model":{"wings":2}})");
  EXPECT_EQ(record.mode, Mode::step);
  EXPECT_EQ(record.batch, 0);
}

TEST(RecordJson, names_the_field_that_is_wrong) {
  const auto refuses = [](const std::string& json, const std::string& what) {
    EXPECT_THAT(error_of([&] { record_from_json(json); }), HasSubstr(what)) << json;
  };
  refuses(R"({"schema":1,"batch":"four"})", "'batch'");
  refuses(R"({"schema":1,"batch":1.5})", "'batch'");
  refuses(R"({"schema":1,"batch":18446744073709551615})", "'batch'");
  refuses(R"({"schema":1,"model":{"name":3}})", "'model.name'");
  refuses(R"({"schema":1,"model":[]})", "'model'");
  refuses(R"({"schema":1,"status":"fine"})", "field 'status' must be one of ok, oom, unsupported, error");
  refuses(R"({"schema":1,"dtype":"fp7"})", "field 'dtype' must be one of fp32, tf32, bf16, fp16, fp8");
  refuses(R"({"schema":1,"mode":3})", "field 'mode'");
  refuses(R"({"schema":1,"time_ms":{"samples":[1,"2"]}})", "'time_ms.samples'");
  refuses(R"({"schema":1,"time_ms":{"quartiles":[1,2]}})", "'time_ms.quartiles'");
  refuses(R"({"schema":2})", "a newer Ridgepoint wrote it (schema 2");
  refuses(R"({"schema":0})", "its schema 0 is older");
  refuses(R"({"mode":"step"})", "'schema' is missing");
  refuses(R"([1])", "object");
  refuses(R"({"schema":1)", "not JSON");
  refuses("", "not JSON");
  refuses(R"({"schema":1,"x":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}", "nested deeper");
}

TEST(RecordJson, refuses_sizes_times_and_rates_below_zero) {
  const auto refuses = [](const std::string& members, const std::string& field) {
    EXPECT_THAT(error_of([&] { record_from_json("{\"schema\":1," + members + "}"); }),
                HasSubstr("field '" + field + "' must be 0 at least"))
        << members;
  };
  refuses(R"("batch":-1)", "batch");
  refuses(R"("context":-1)", "context");
  refuses(R"("time_ms":{"median":-1e-3})", "time_ms.median");
  refuses(R"("time_ms":{"samples":[1,2,-3]})", "time_ms.samples");
  refuses(R"("command":"attention","forward_ms":{"median":-1})", "forward_ms.median");
  refuses(R"("memory_bytes":{"planned_peak":-5})", "memory_bytes.planned_peak");
  refuses(R"("tokens_per_second":-1)", "tokens_per_second");
  EXPECT_EQ(record_from_json(R"({"schema":1,"command":"plan","room_bytes":-5})").plan->room_bytes, -5);
}

TEST(RecordJson, refuses_a_median_that_its_samples_lack) {
  const auto read = [](const std::string& times) {
    return record_from_json(R"({"schema":1,"command":"bench","time_ms":)" + times + "}");
  };
  EXPECT_THAT(error_of([&] { read(R"({"median":9,"min":1,"max":3,"samples":[1,2,3]})"); }),
              HasSubstr("field 'time_ms.median' is 9, and the samples are 1 to 3"));
  EXPECT_EQ(read(R"({"median":2,"min":1,"max":3,"samples":[1,2,3]})").training_step->time_ms.median, 2);
}

TEST(RecordJson, refuses_every_size_time_and_rate_below_zero) {
  const auto is_refused = [](std::string_view path, const std::string& value) {
    const FieldPlace place = place_of_field(path);
    const std::string member = "\"" + place.name + "\":" + value;
    try {
      record_from_json(place.object.empty() ? "{\"schema\":1," + member + "}"
                                            : "{\"schema\":1,\"" + place.object + "\":{" + member + "}}");
      return false;
    } catch (const Error& error) {
      return std::string(error.what()).find("must be 0 at least") != std::string::npos;
    }
  };
  const auto check = [&](const std::string& path, Kind kind) {
    if (path.empty()) return;
    const bool is_any_refused = is_refused(path, "-1") || is_refused(path, "[-1]");
    EXPECT_EQ(is_any_refused, is_never_negative(kind)) << path;
  };
  for (const Setting& setting : record_settings()) check(std::string(setting.path), setting.kind);
  for (const Measure& measure : record_measures()) {
    const bool is_of_a_time = measure.path.ends_with(".cv");  // its kind is that of a column
    if (!is_of_a_time) check(std::string(measure.path) + (measure.is_statistics ? ".mean" : ""), measure.kind);
  }
}

TEST(RecordJson, has_the_quality_of_the_timing) {
  Record record = sample_record();
  record.timing.verdict = TimingVerdict::too_few;
  record.timing.ended_by = SamplingEnd::time_limit;
  record.timing.sm_clock_mhz = {1980, 1755};
  record.timing.throttle_reasons = {"sw_power_cap"};
  const nlohmann::json json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["timing"]["verdict"], "too few");
  EXPECT_EQ(json["timing"]["ended_by"], "time limit");
  EXPECT_TRUE(json["timing"]["power_watts"].is_null());
  const Record back = record_from_json(to_json(record));
  EXPECT_EQ(back.timing.verdict, record.timing.verdict);
  EXPECT_EQ(back.timing.sm_clock_mhz, record.timing.sm_clock_mhz);
  EXPECT_EQ(back.timing.power_watts, std::nullopt);
  EXPECT_EQ(back.timing.throttle_reasons, record.timing.throttle_reasons);
}

TEST(ReadRecords, reads_an_array_and_json_lines_alike) {
  const std::vector<Record> records = {sample_record(Mode::forward), out_of_memory_record()};
  const std::string lines = to_json(records[0]) + "\n\n" + to_json(records[1]) + "\n";
  for (const std::string& text : {to_json(records), lines, lines.substr(0, lines.size() - 1)}) {
    const std::vector<Record> back = read_text(text);
    ASSERT_EQ(back.size(), 2U);
    EXPECT_EQ(back[0].mode, Mode::forward);
    EXPECT_EQ(back[1].status, RunStatus::oom);
  }
}

TEST(ReadRecords, of_nothing_are_none) {
  EXPECT_TRUE(read_text("").empty());
  EXPECT_TRUE(read_text("[\n]\n").empty());
}

TEST(ReadRecords, says_which_line_is_wrong) {
  const std::string good = to_json(sample_record()) + "\n";
  EXPECT_THAT(error_of([&] { read_text(good + "{oops\n"); }), HasSubstr("line 2"));
  EXPECT_THAT(error_of([&] { read_text("[" + good + ",3]"); }), HasSubstr("record 2"));
}

TEST(ReadRecords, refuses_deep_nesting_without_falling_over) {
  EXPECT_THROW(read_text(std::string(100'000, '[')), Error);
}

TEST(RecordJson, has_the_sections_of_its_experiment_only) {
  for (const Experiment experiment : kAllExperiments) {
    Record record;
    record.experiment = experiment;
    record.training_step.emplace().parallel.shard = "optimizer";
    const Record read = record_from_json(to_json(record));
    EXPECT_EQ(read.training_step.has_value(), experiment != Experiment::attention) << name(experiment);
    if (read.training_step) {
      EXPECT_EQ(read.training_step->parallel.shard, "optimizer") << name(experiment);
    }
    EXPECT_EQ(read.attention_call.has_value(), experiment == Experiment::attention) << name(experiment);
    EXPECT_EQ(read.plan.has_value(), experiment == Experiment::plan) << name(experiment);
    const bool has_peaks = experiment == Experiment::plan || experiment == Experiment::memory;
    EXPECT_EQ(read.peaks.has_value(), has_peaks) << name(experiment);
  }
}

TEST(RecordJson, reads_other_names_of_values) {
  Record written;
  written.dtype = Precision::bf16;
  written.mode = Mode::forward_backward;
  std::string json = to_json(written);
  for (const auto& [now, other] : {std::pair(R"("checkpoint":"none")", R"("checkpoint":"off")"),
                                   std::pair(R"("mode":"forward_backward")", R"("mode":"backward")"),
                                   std::pair(R"("dtype":"bf16")", R"("dtype":"bfloat16")")}) {
    const std::size_t at = json.find(now);
    ASSERT_NE(at, std::string::npos) << now;
    json.replace(at, std::string_view(now).size(), other);
  }
  const Record record = record_from_json(json);
  EXPECT_EQ(record.checkpoint, Checkpoint::none);
  EXPECT_EQ(record.mode, Mode::forward_backward);
  EXPECT_EQ(record.dtype, Precision::bf16);
}

}  // namespace
}  // namespace ridgepoint
