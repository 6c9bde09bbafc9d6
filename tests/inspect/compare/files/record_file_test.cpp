#include "inspect/compare/files/record_file.h"

#include <functional>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"

namespace ridgepoint {
namespace {

class ReadRecordFile : public ::testing::Test {
 protected:
  RecordFile read(const std::string& text, const std::string& mapping = "") const {
    write_file(folder_ / "a.jsonl", text);
    if (!mapping.empty()) write_file(folder_ / "map.json", mapping);
    return read_record_file(folder_ / "a.jsonl", mapping.empty() ? "" : (folder_ / "map.json").string());
  }
  std::string error_of(const std::string& text, const std::string& mapping = "") const {
    return ridgepoint::error_of([&] { read(text, mapping); });
  }
  static std::string row(Mode mode = Mode::step) { return to_json(sample_record(mode)); }
  static std::string row_with_schema(const std::string& schema) {
    std::string text = row();
    return text.replace(text.find("\"schema\":1"), 10, "\"schema\":" + schema);
  }
  const TemporaryFolder folder_;
};

TEST_F(ReadRecordFile, reads_json_lines_and_arrays) {
  EXPECT_THAT(read(row() + "\n" + row(Mode::forward) + "\n").records, SizeIs(2));
  const std::vector<Record> records = {sample_record(), sample_record(Mode::forward)};
  const RecordFile file = read(to_json(std::span(records)));
  ASSERT_THAT(file.records, SizeIs(2));
  EXPECT_EQ(file.records[1].mode, Mode::forward);
  EXPECT_THAT(file.warnings, IsEmpty());
  EXPECT_FALSE(file.known_fields);
  EXPECT_THAT(read(row()).records, SizeIs(1));
  EXPECT_THAT(read("\uFEFF" + row() + "\n" + row(Mode::forward) + "\n").records, SizeIs(2));
}

TEST_F(ReadRecordFile, uses_the_finished_rows_of_a_file_that_is_cut_off) {
  const std::string rows = row() + "\n" + row() + "\n";
  for (const std::size_t kept : {std::size_t{1}, std::size_t{40}, row().size() - 1}) {
    const RecordFile file = read(rows + row().substr(0, kept));
    EXPECT_THAT(file.records, SizeIs(2));
    EXPECT_THAT(file.warnings,
                ElementsAre(HasSubstr("ends in the middle of row 3; the 2 finished rows before it are")));
  }
  const std::vector<Record> records = {sample_record(), sample_record()};
  const std::string array = to_json(std::span(records));
  const RecordFile file = read(array.substr(0, array.size() - 40));
  EXPECT_THAT(file.records, SizeIs(1));
  EXPECT_THAT(file.warnings, ElementsAre(HasSubstr("the 1 finished row before it is used")));
  EXPECT_THAT(error_of(row().substr(0, 40)), HasSubstr("no finished row; measure again"));
}

TEST_F(ReadRecordFile, refuses_a_row_that_is_broken_in_the_middle) {
  EXPECT_THAT(error_of(row() + "\n{\"schema\":\n" + row() + "\n"),
              HasSubstr("line 2 is not JSON: it ends in the middle"));
  EXPECT_THAT(error_of(row() + "\n{\"schema\":x}\n"), HasSubstr("line 2 is not JSON at byte 11"));
  const std::string deep = "{\"zz\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}\n";
  EXPECT_THAT(error_of(row() + "\n" + deep), HasSubstr("line 2 is nested deeper than 64 levels"));
  EXPECT_THAT(error_of(deep), HasSubstr("line 1 is nested deeper than 64 levels"));
}

TEST_F(ReadRecordFile, refuses_records_of_other_schemas_and_says_what_to_do) {
  EXPECT_THAT(error_of(row_with_schema("99")),
              AllOf(HasSubstr("row 1: a newer Ridgepoint wrote it (schema 99; this build reads 1 to"),
                    HasSubstr("use that version")));
  EXPECT_THAT(error_of(row_with_schema("0")), AllOf(HasSubstr("older"), HasSubstr("measure again")));
  EXPECT_THAT(error_of(row() + "\n{\"a\": 1}\n"), AllOf(HasSubstr("row 2"), HasSubstr("no 'schema'")));
  EXPECT_THAT(error_of(R"({"schema":1,"batch":"four"})"), HasSubstr("row 1: field 'batch' must be"));
}

// Fields that an older version of this schema did not have keep their defaults.
TEST_F(ReadRecordFile, reads_records_with_fewer_fields) {
  const RecordFile file = read(R"({"schema":1,"command":"bench","time_ms":{"median":3,"samples":[3,3]}})");
  EXPECT_EQ(file.records.at(0).training_step->time_ms.median, 3);
}

// A run that goes back to a checkpoint has steps twice.
TEST_F(ReadRecordFile, reads_the_steps_of_a_training) {
  const auto step = [](const char* number, const char* loss) {
    return std::string(R"({"learning_rate":0.1,"tokens":8,"data":"d","step":)") + number + R"(,"loss":)" + loss + "}\n";
  };
  const RecordFile file =
      read(step("1", "3") + step("2", "2.5") + step("3", "null") + step("2", "2.25") + R"({"step":)");
  ASSERT_THAT(file.history.steps, SizeIs(2));
  EXPECT_EQ(file.history.steps[1].loss, 2.25);
  EXPECT_EQ(file.history.steps[1].data, "d");
  EXPECT_FALSE(file.history.steps[1].validation_loss);
  EXPECT_THAT(file.history.returns, ElementsAre(3));
  EXPECT_THAT(file.warnings, ElementsAre(HasSubstr("ends in the middle of row 5")));
  EXPECT_THAT(file.records, SizeIs(0));
  EXPECT_THAT(error_of(step("1", "\"low\"")), HasSubstr("'loss' of a step is \"low\""));
  EXPECT_THAT(error_of(step("1e300", "1")), HasSubstr("'step' of a step is 1e+300"));
  EXPECT_THAT(error_of(step("1", "3") + row()), HasSubstr("a row is no step of a training"));
}

TEST_F(ReadRecordFile, refuses_what_holds_no_records) {
  EXPECT_THAT(error_of("time,batch\n1,2\n"), AllOf(HasSubstr("holds neither records"), HasSubstr("--mapping")));
  EXPECT_THAT(error_of("[{\"latency\": 3}]"), HasSubstr("holds neither records"));
  EXPECT_THAT(error_of("[]"), HasSubstr("holds neither records"));
  EXPECT_THAT(error_of(" \n"), HasSubstr("it is empty"));
  EXPECT_THAT(ridgepoint::error_of([&] { read_record_file(folder_ / "missing.jsonl"); }), HasSubstr("missing.jsonl"));
  EXPECT_THAT(ridgepoint::error_of([&] { read_record_file(folder_.path()); }), HasSubstr("ridgepoint."));
}

constexpr const char* kMapping = R"({"time_ms.samples": "latency_us * 0.001", "batch": "bs", "context": 128,
    "device.name": "= Card X", "memory_bytes.peak_allocated": "peak_mib * 1048576"})";

TEST_F(ReadRecordFile, maps_the_columns_of_csv) {
  const RecordFile file = read("bs,latency_us,peak_mib\r\n1,2000,1.5\r\n2,5000,3\r\n1,4000,1.5\r\n", kMapping);
  ASSERT_THAT(file.records, SizeIs(2));
  const Record& first = file.records[0];
  EXPECT_THAT(first.training_step->time_ms.samples, ElementsAre(2, 4));
  EXPECT_EQ(first.training_step->time_ms.median, 3);
  EXPECT_EQ(first.batch, 1);
  EXPECT_EQ(first.context, 128);
  EXPECT_EQ(first.device.name, "Card X");
  EXPECT_EQ(first.memory_bytes.peak_allocated, 3 << 19);
  EXPECT_NEAR(*first.training_step->tokens_per_second, 128 / 3e-3, 1);
  EXPECT_EQ(file.records[1].batch, 2);
  EXPECT_THAT(*file.known_fields, Contains("batch"));
}

TEST_F(ReadRecordFile, maps_paths_and_arrays_of_json) {
  const std::string mapping = R"({"time_ms.samples": "result.times * 1000", "batch": "config.batch"})";
  const RecordFile file = read(R"([{"config": {"batch": 4}, "result": {"times": [0.001, 0.002, 0.003]}}])", mapping);
  ASSERT_THAT(file.records, SizeIs(1));
  EXPECT_EQ(file.records[0].training_step->time_ms.median, 2);
  EXPECT_EQ(file.records[0].batch, 4);
  EXPECT_THAT(
      read("ms,b\n1;2;9,4\n", R"({"time_ms.samples": "ms", "batch": "b"})").records[0].training_step->time_ms.samples,
      ElementsAre(1, 2, 9));
}

TEST_F(ReadRecordFile, refuses_a_mapping_that_names_an_unknown_field) {
  EXPECT_THAT(error_of("a\n1\n", R"({"time_ms.sample": "a"})"),
              AllOf(HasSubstr("map.json"), HasSubstr("'time_ms.sample' is not a field"),
                    HasSubstr("did you mean 'time_ms.samples'?")));
}

TEST_F(ReadRecordFile, refuses_mappings_and_rows_that_do_not_fit) {
  const std::string csv = "latency,bs\n1,2\n";
  EXPECT_THAT(error_of(csv, R"({"batch": "bs"})"), HasSubstr("it names no times"));
  EXPECT_THAT(error_of(csv, "[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of(csv, R"({"time_ms.samples": "latency * x"})"), HasSubstr("no number after '*'"));
  EXPECT_THAT(error_of(csv, R"({"time_ms.samples": ["latency"]})"), HasSubstr("must be the name of a column"));
  EXPECT_THAT(error_of(csv, R"({"time_ms.samples": "latenzy"})"),
              AllOf(HasSubstr("there is no column 'latenzy'"), HasSubstr("did you mean 'latency'?")));
  EXPECT_THAT(error_of("latency,bs\nfast,2\n", R"({"time_ms.samples": "latency"})"),
              AllOf(HasSubstr("row 1"), HasSubstr("needs a number, and the value is \"fast\"")));
  EXPECT_THAT(error_of("latency,bs\n1,2.5\n", R"({"time_ms.samples": "latency", "batch": "bs"})"),
              HasSubstr("needs a whole number"));
  EXPECT_THAT(error_of(csv, R"({"time_ms.samples": "latency", "mode": "= sideways"})"),
              HasSubstr("field 'mode' must be one of"));
  EXPECT_THAT(error_of("latency,bs\n1\n", kMapping), HasSubstr("row 1 has 1 cells and the heading has 2"));
  EXPECT_THAT(error_of("latency,bs\n\"1,2\n", kMapping), HasSubstr("quotation mark"));
  EXPECT_THAT(error_of("latency,bs, latency\n1,2,3\n", kMapping), HasSubstr("two columns are called 'latency'"));
}

}  // namespace
}  // namespace ridgepoint
