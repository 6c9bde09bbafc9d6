#include "study/pages/study_files.h"

#include <algorithm>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"

namespace ridgepoint::tables {
namespace {

constexpr const char* kHostile = "</script><img src=x>|";

Json row_of(const Record& record) { return Json::parse(to_json(record)); }

StudyDocument document_of(StudyPart part, std::vector<Json> rows, std::vector<std::string> command = {"bench"}) {
  StudyDocument document{.folder = "study",
                         .configuration = {{"program", "0.1.0"}, {"device", "cpu"}, {"limit_seconds", 60.0}},
                         .parts = {{part, "A part", {{std::move(command), 1, 1}}}},
                         .rows = {},
                         .log = {},
                         .answers = {}};
  document.rows[part] = std::move(rows);
  return document;
}

std::vector<std::string> names_of(const std::vector<StudyFile>& files) {
  std::vector<std::string> names;
  std::ranges::transform(files, std::back_inserter(names), &StudyFile::name);
  return names;
}

std::string text_of(const StudyDocument& document, const std::string& name) {
  const std::vector<StudyFile> files = study_files(document);
  const auto found = std::ranges::find(files, name, &StudyFile::name);
  EXPECT_NE(found, files.end()) << name;
  return found == files.end() ? "" : found->text;
}

Json page_data(const StudyDocument& document) {
  const std::string page = study_page(document, "");
  const std::string begin = R"(id="ridgepoint-data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

// The workload of published figures: small, batch 4, context 256, on another card.
Record small_record(Mode mode) {
  Record record = sample_record(mode);
  record.model = {"small", 128625408, 12, 768, 3072, 12, 10000};
  return record;
}

TEST(StudyTables, are_those_that_the_command_prints) {
  const StudyDocument document =
      document_of(StudyPart::sizes, {row_of(sample_record(Mode::forward)), row_of(sample_record(Mode::step))},
                  {"bench", "--model", "tiny"});
  EXPECT_THAT(text_of(document, "tables/sizes.md"),
              AllOf(StartsWith("# A part\n\n    ridgepoint bench --model tiny\n"), HasSubstr("cpu (Test Processor)"),
                    HasSubstr("| mode | mean ms |"), HasSubstr("](../pictures/sizes_time.svg)")));
  EXPECT_THAT(text_of(document, "tables/sizes.csv"), StartsWith("schema,command,device.kind,"));
}

TEST(StudyTables, of_sums_have_every_digit) {
  const StudyDocument document =
      document_of(StudyPart::accumulation,
                  {{{"statement", "fp32 += fp32"}, {"result", 10.000133514404297}, {"relative_error", 1.335e-05}}});
  EXPECT_THAT(text_of(document, "tables/accumulation.md"), HasSubstr("| fp32 += fp32 | 10.00013351 | 1.33e-05 |"));
}

TEST(StudyTables, keep_the_rows_of_two_command_lines_apart) {
  StudyDocument document = document_of(
      StudyPart::autocast, {{{"part", "forward"}, {"result", "fp16"}}, {{"part", "forward"}, {"result", "bf16"}}});
  document.parts[0].commands = {{{"precision", "--autocast", "fp16"}}, {{"precision", "--autocast", "bf16"}}};
  document.log = {{.part = StudyPart::autocast, .command = 0, .rows = 1, .problem = ""},
                  {.part = StudyPart::autocast, .command = 1, .rows = 1, .problem = ""}};
  EXPECT_THAT(text_of(document, "tables/autocast.md"),
              AllOf(HasSubstr("ridgepoint precision --autocast fp16\n\n| part"),
                    HasSubstr("ridgepoint precision --autocast bf16\n\n| part")));
  EXPECT_THAT(text_of(document, "tables/autocast.csv"),
              HasSubstr("ridgepoint precision --autocast bf16,forward,bf16\n"));
  EXPECT_EQ(page_data(document)["files"].size(), 2U);
  document.log.pop_back();  // stopped before the second command line ended: whose the last row is, is not known
  EXPECT_EQ(page_data(document)["files"].size(), 1U);
}

TEST(StudyTables, of_an_account_are_one_for_each_moment_and_say_once_what_all_rows_share) {
  std::vector<Json> rows;
  for (const char* moment : {"before backward", "peak"}) {
    for (const char* component : {"q", "scores"}) {
      rows.push_back({{"attention", "naive"},
                      {"moment", moment},
                      {"dtype", "fp32"},
                      {"batch", 8},
                      {"heads", 1},
                      {"sequence", 1024},
                      {"keys", 1024},
                      {"component", component},
                      {"formula", "4 B S^2"},
                      {"device", "cpu"},
                      {"measured_bytes", component[0] * 1048576}});
    }
  }
  EXPECT_THAT(text_of(document_of(StudyPart::accounting, rows), "tables/accounting.md"),
              AllOf(HasSubstr("naive, 1024 tokens, before backward, dtype fp32, batch 8"),
                    HasSubstr("naive, 1024 tokens, peak, dtype fp32"), HasSubstr("| component | measured |"),
                    HasSubstr("| q | 113.0 MiB |")));
}

TEST(StudyTables, of_memory_say_no_times_of_a_plan) {
  const auto text = [](const Json& ms, const char* verdict) {
    Json row = row_of(small_record(Mode::training_forward));
    row["memory"]["phases"] = {{{"name", "forward"}, {"allocated_bytes", 1024}}};
    row["memory"]["sawtooth"] = {
        {"cycles", 5}, {"height_bytes", 1024}, {"rise_ms", ms}, {"fall_ms", ms}, {"verdict", verdict}};
    return text_of(document_of(StudyPart::memory_forward_loop, {row}), "tables/memory_forward_loop.md");
  };
  EXPECT_THAT(text(2, "host_bound"), HasSubstr("Memory rises by 1.00 KiB in 2.00 ms and falls in 2.00 ms, 5 times: "
                                               "host bound."));
  EXPECT_THAT(text(nullptr, "unknown"), HasSubstr("Memory rises and falls by 1.00 KiB, 5 times."));
}

TEST(StudyTables, show_devices_that_cannot_run_apart) {
  const StudyDocument document =
      document_of(StudyPart::devices, {{{"kind", "cuda"}, {"problem", "there is no driver"}},
                                       {{"kind", "cpu"},
                                        {"name", "A processor"},
                                        {"total_memory_bytes", 1 << 30},
                                        {"matmul", {{{"dtype", "fp32"}, {"flops_per_second", 5e10}}}}}});
  EXPECT_THAT(text_of(document, "tables/devices.md"),
              AllOf(HasSubstr("| cpu | A processor | 1.00 GiB | 50.0 Gflop/s |"),
                    HasSubstr("Devices that cannot be used\n\n"), HasSubstr("| cuda | there is no driver |")));
}

TEST(StudyPictures, are_drawn_of_what_there_is) {
  EXPECT_THAT(names_of(study_files(document_of(StudyPart::sizes, {row_of(sample_record())}))),
              AllOf(Contains("pictures/sizes_time.svg"), Not(Contains("pictures/sizes_phases.svg"))));
  Record record = sample_record();
  record.training_step->phase_ms = {.forward = 3, .backward = 8};
  EXPECT_THAT(names_of(study_files(document_of(StudyPart::sizes, {row_of(record)}))),
              Contains("pictures/sizes_phases.svg"));
}

TEST(StudyPictures, have_published_figures_of_the_same_workload_as_hollow_marks) {
  const auto picture = [](const Record& record) {
    return text_of(document_of(StudyPart::sizes, {row_of(record)}), "pictures/sizes_time.svg");
  };
  EXPECT_THAT(picture(small_record(Mode::forward)),
              AllOf(HasSubstr("a card that is not named (same workload"), HasSubstr("hollow: published"),
                    Not(HasSubstr("unnamed_card"))));
  EXPECT_THAT(picture(sample_record(Mode::forward)), Not(HasSubstr("published")));
}

TEST(StudyPictures, of_one_sequence_are_rows_and_of_several_are_curves) {
  std::vector<Json> rows = {row_of(attention_record(AttentionVariant::naive, 256)),
                            row_of(attention_record(AttentionVariant::flash, 256))};
  EXPECT_THAT(text_of(document_of(StudyPart::ladder, rows), "pictures/ladder_forward.svg"), HasSubstr("at 256"));
  rows.push_back(row_of(attention_record(AttentionVariant::flash, 1024)));
  EXPECT_THAT(text_of(document_of(StudyPart::ladder, rows), "pictures/ladder_forward.svg"),
              HasSubstr("tokens of a sequence"));
}

TEST(StudyPictures, mark_rows_that_ran_out_of_memory_where_they_were_planned) {
  Record out_of_memory = attention_record(AttentionVariant::naive, 4096);
  out_of_memory.status = RunStatus::oom;
  out_of_memory.attention_call->forward_ms = out_of_memory.attention_call->backward_ms = describe({});
  out_of_memory.memory_bytes = {};
  out_of_memory.memory_bytes.planned_peak = 3LL << 30;
  const StudyDocument document = document_of(
      StudyPart::attention_grid, {row_of(attention_record(AttentionVariant::naive, 256)),
                                  row_of(attention_record(AttentionVariant::naive, 1024)), row_of(out_of_memory)});
  EXPECT_THAT(text_of(document, "pictures/attention_grid_peak.svg"),
              HasSubstr("out of memory at 4096, 3.00 GiB planned"));
  EXPECT_THAT(text_of(document, "pictures/attention_grid_forward.svg"),
              HasSubstr("d 64: out of memory at 4096</title>"));
}

TEST(StudyPictures, leave_out_times_and_peaks_of_zero) {
  Json none = row_of(sample_record()), planned = row_of(sample_record());
  for (const char* figure : {"median", "min", "max"}) none["time_ms"][figure] = 0;
  none["time_ms"]["samples"] = Json::array();
  none["memory_bytes"]["peak_allocated"] = 0;
  planned["status"] = "oom";
  planned["memory_bytes"]["planned_peak"] = 0;
  for (const StudyPart part :
       {StudyPart::sizes, StudyPart::contexts, StudyPart::memory_peaks, StudyPart::warmup, StudyPart::compiled_model,
        StudyPart::checkpointing, StudyPart::ranks, StudyPart::data_parallel}) {
    std::vector<Json> rows = {none, planned, row_of(sample_record()), row_of(sample_record())};
    rows[3]["context"] = 2 * rows[2]["context"].get<std::int64_t>();
    for (const StudyFile& file : study_files(document_of(part, rows))) {
      if (!file.name.ends_with(".svg")) continue;
      EXPECT_THAT(file.text, Not(HasSubstr("nan"))) << file.name;
    }
    study_files(document_of(part, {none, planned}));
  }
}

TEST(StudyPictures, divide_a_step_on_several_ranks_by_what_is_sent_measured_or_predicted) {
  Json measured = row_of(sample_record());
  measured["parallel"].update(Json{{"data", 2},
                                   {"overlap", false},
                                   {"bucket_bytes", 1},
                                   {"slowest_ms", 60.0},
                                   {"communication_ms", 30.0},
                                   {"exposed_ms", 10.0}});
  Json unknown = measured, planned = measured;
  unknown["parallel"]["communication_ms"] = nullptr;
  planned["device"]["kind"] = "null";
  planned["predicted_ms"] = 80.0;
  planned["predicted_communication_ms"] = 20.0;
  planned["predicted_exposed_ms"] = 20.0;
  const auto picture = [](const std::vector<Json>& rows) {
    return text_of(document_of(StudyPart::data_parallel, rows), "pictures/data_parallel.svg");
  };
  EXPECT_THAT(picture({measured, unknown}),
              AllOf(HasSubstr("2 ranks; median of the slowest rank"),
                    HasSubstr("one by one behind backward, computes alone: 30, 50 %"),
                    HasSubstr("computes and sends: 20, 33 %"), HasSubstr("waits for what is sent: 10, 17 %"),
                    HasSubstr("not divided: 60, 100 %")));
  EXPECT_THAT(picture({planned}), AllOf(HasSubstr("2 ranks; predicted"), HasSubstr("computes alone: 60, 75 %"),
                                        HasSubstr("waits for what is sent: 20, 25 %")));
}

std::vector<Json> calculations(double tokens) {
  std::vector<Json> rows;
  const std::vector<std::pair<const char*, double>> values = {
      {"symbol.T", tokens},  {"symbol.U", 1000},          {"compute.forward_time", 0.1}, {"compute.backward_time", 0.2},
      {"compute.time", 0.3}, {"data_parallel.time", 0.3}, {"tensor.time", 0.4}};
  for (const auto& [key, value] : values) {
    rows.push_back({{"model", "xl"},
                    {"dtype", "bf16"},
                    {"card", "H100 SXM"},
                    {"ranks", 8},
                    {"context", 512},
                    {"key", key},
                    {"value", value}});
  }
  return rows;
}

TEST(StudyPictures, of_calculations_say_from_how_many_tokens_communication_hides) {
  const StudyDocument document = document_of(StudyPart::calculations, calculations(100));
  EXPECT_THAT(text_of(document, "pictures/calculations.svg"),
              AllOf(HasSubstr("xl, bf16, 8 ranks of H100 SXM, context 512"),
                    HasSubstr("data parallel, gradients behind backward: hidden from 150 tokens: 150, 300"),
                    HasSubstr("tensor parallel, activations in a step: never hidden"), Not(HasSubstr("sharded")),
                    HasSubstr("tokens of a rank (logarithmic)")));
  EXPECT_THAT(text_of(document, "tables/calculations.md"), Not(HasSubstr("symbol.T")));
  EXPECT_EQ(page_data(document)["files"][0]["rows"][0]["key"], "symbol.T");
  for (const double tokens : {0.0, -1.0, 1e-300, 1e300}) {
    for (const StudyFile& file : study_files(document_of(StudyPart::calculations, calculations(tokens)))) {
      if (!file.name.ends_with(".svg")) continue;
      EXPECT_THAT(file.text, Not(HasSubstr("nan"))) << tokens;
    }
  }
}

TEST(StudyPictures, of_several_models_have_names_that_stay_in_their_folder) {
  Record other = sample_record();
  other.model.name = "../../x/y";
  const std::vector<std::string> names = names_of(study_files(document_of(
      StudyPart::memory_peaks, {row_of(sample_record()), row_of(other), row_of(sample_record()), row_of(other)})));
  EXPECT_THAT(names,
              AllOf(Contains("pictures/memory_peaks_tiny.svg"), Contains("pictures/memory_peaks_.._.._x_y.svg")));
}

TEST(StudyReadme, names_every_file_with_its_command_line_and_what_failed) {
  StudyDocument document = document_of(StudyPart::sizes, {row_of(sample_record())}, {"bench", "--model", "tiny"});
  document.parts.push_back({StudyPart::flash, "Another part", {{{"attention"}, 1, 1}}});
  document.log = {{.part = StudyPart::flash, .exit_code = 1, .problem = "it broke"}};
  EXPECT_THAT(
      text_of(document, "README.md"),
      AllOf(HasSubstr("ridgepoint study --device cpu --limit 60s --output study\n"),
            HasSubstr("[records/sizes.jsonl](records/sizes.jsonl): 1 rows"), HasSubstr("(tables/sizes.csv)"),
            HasSubstr("(pictures/sizes_time.svg)"), HasSubstr("    ridgepoint bench --model tiny\n"),
            HasSubstr("## Another part\n\nIt has no rows."), HasSubstr("that measured or planned it"),
            HasSubstr("again from the rows, but not the pictures of timelines:\n\n    ridgepoint study --no-run"),
            HasSubstr("flash, command 1: exit code 1: it broke"), HasSubstr("Measured on Test Processor")));
}

TEST(StudyReadme, quotes_words_that_a_shell_would_take_apart) {
  StudyDocument document = document_of(StudyPart::sizes, {row_of(sample_record())},
                                       {"bench", "--model", "a'; rm -rf b", "--only", "`c`", "~", "#", "", "d\ne"});
  document.folder = "{folder}";
  document.configuration["models"] = {"tiny", 5};
  document.configuration["threads"] = "many";
  EXPECT_THAT(text_of(document, "README.md"),
              AllOf(HasSubstr("ridgepoint bench --model 'a'\\''; rm -rf b' --only '`c`' '~' '#' '' 'd\ne'\n"),
                    HasSubstr("--model tiny --output '{folder}'\n")));
}

TEST(StudyAnswers, stand_with_their_evidence_and_what_others_found) {
  StudyDocument document = document_of(StudyPart::sizes, {row_of(sample_record())});
  document.answers = {{.topic = "Steps",
                       .question = "How long?",
                       .sentence = "Long.",
                       .evidence = {{StudyPart::sizes, "12 ms"}},
                       .elsewhere = {{"a_paper", "Short.", StudyClaim::Verdict::contradicted, "Here it is 12 ms."}}}};
  EXPECT_THAT(text_of(document, "answers.md"),
              AllOf(HasSubstr("## Steps\n\n### How long?\n\nLong.\n\n- 12 ms ([sizes](records/sizes.jsonl))\n"),
                    HasSubstr("- `a_paper`: Short. **contradicted**: Here it is 12 ms.\n")));
  const Json answer = page_data(document)["answers"][0];
  EXPECT_EQ(answer["evidence"][0]["part"], "sizes");
  EXPECT_EQ(answer["elsewhere"][0]["verdict"], "contradicted");
}

TEST(StudyAnswers, are_plain_text_in_markdown) {
  StudyDocument document = document_of(StudyPart::sizes, {row_of(sample_record())});
  document.answers = {{.topic = "Kernels", .question = "Which?", .sentence = "layers.*.attn of <b>"}};
  EXPECT_THAT(text_of(document, "answers.md"), HasSubstr(R"(layers.\*.attn of \<b>)"));
}

TEST(StudyPage, has_a_section_for_each_part_and_its_command_lines) {
  StudyDocument document = document_of(StudyPart::sizes, {row_of(sample_record())}, {"bench", "--model", "tiny"});
  document.parts.push_back({StudyPart::warmup, "Warm-up", {{{"bench"}, 1, 1}}});
  document.rows[StudyPart::warmup] = {row_of(sample_record())};
  const Json data = page_data(document);
  EXPECT_EQ(data["title"], "A study of training steps on Test Processor");
  ASSERT_EQ(data["files"].size(), 2U);
  EXPECT_EQ(data["files"][0]["part"]["commands"][0], "ridgepoint bench --model tiny");
  EXPECT_EQ(data["files"][1]["part"]["title"], "Warm-up");
}

TEST(StudyPage, has_published_figures_of_the_same_workload_in_the_section) {
  const Json files = page_data(document_of(StudyPart::sizes, {row_of(small_record(Mode::forward))}))["files"];
  ASSERT_EQ(files.size(), 2U);
  EXPECT_TRUE(files[1]["is_published"]);
  EXPECT_EQ(files[1]["part"]["id"], "sizes");
  EXPECT_EQ(files[1]["records"][0]["context"], 256);
  EXPECT_THAT(files[1]["records"][0]["compares"].get<std::string>(), StartsWith("same workload"));
}

TEST(StudyPage, leaves_out_unknown_values_and_lists_that_it_does_not_show) {
  Json row = row_of(sample_record());
  row["command"] = "memory";
  row["memory"] = {{"phases", {{{"name", "forward"}, {"groups", {1, 2}}}}}, {"before_backward", {{"event", 1}}}};
  const Json step = page_data(document_of(StudyPart::memory_step, {row}))["files"][0]["records"][0];
  EXPECT_FALSE(step.contains("as"));  // null in the row
  EXPECT_TRUE(step["memory"]["phases"][0].contains("name"));
  EXPECT_FALSE(step["memory"]["phases"][0].contains("groups"));
  EXPECT_FALSE(step["memory"].contains("before_backward"));
  EXPECT_FALSE(page_data(document_of(StudyPart::memory_peaks, {row}))["files"][0]["records"][0].contains("memory"));
}

TEST(StudyFiles, escape_names_from_rows) {
  Record record = sample_record();
  record.model.name = kHostile;
  record.device.name = kHostile;
  const StudyDocument document = document_of(StudyPart::sizes, {row_of(record)});
  EXPECT_THAT(study_page(document, ""), Not(HasSubstr("<img")));
  EXPECT_THAT(text_of(document, "pictures/sizes_time.svg"), Not(HasSubstr("<img")));
}

class StudyFolderReading : public ::testing::Test {
 protected:
  void write(const std::string& records) const {
    const StudyFolder folder(path());
    folder.create({{"device", "cpu"}});
    folder.manifest().write({{"device", "cpu"}},
                            std::vector<StudyPartPlan>{{StudyPart::sizes, "Sizes", {{{"bench"}, 1, 1}}}});
    write_file(path() / "records" / "sizes.jsonl", records);
  }
  std::filesystem::path path() const { return folder_ / "study"; }
  std::string problem() const {
    return error_of([&] { static_cast<void>(read_study(path())); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(StudyFolderReading, leaves_out_a_row_that_is_being_written) {
  const std::string row = to_json(sample_record());
  write(row + "\n" + row.substr(0, 100));
  EXPECT_EQ(read_study(path()).rows.at(StudyPart::sizes).size(), 1U);
  EXPECT_EQ(read_file(path() / "records" / "sizes.jsonl", 1 << 20).size(), row.size() + 101);
}

TEST_F(StudyFolderReading, names_a_record_that_it_cannot_read) {
  Json newer = row_of(sample_record());
  newer["schema"] = 99;
  write(to_json(sample_record()) + "\n" + newer.dump() + "\n");
  EXPECT_THAT(problem(), AllOf(HasSubstr("records/sizes.jsonl, line 2: "), HasSubstr("99")));
}

TEST_F(StudyFolderReading, refuses_rows_that_no_run_can_have) {
  Json row = row_of(sample_record());
  row["context"] = -1;
  write(row.dump() + "\n");
  EXPECT_THAT(problem(), HasSubstr("records/sizes.jsonl, line 1: field 'context' must be 0 at least"));
  row["context"] = 0;
  write_file(path() / "records" / "sizes.jsonl", row.dump() + "\n");
  EXPECT_THAT(problem(), HasSubstr("records/sizes.jsonl, line 1: the batch 4 and the context 0 must both be 1"));
  write_file(path() / "records" / "sizes.jsonl", "{\"mode\":\"step\"}\n" + to_json(sample_record()) + "\n");
  EXPECT_THAT(problem(), HasSubstr("records/sizes.jsonl, line 1: field 'schema' is missing"));
}

TEST_F(StudyFolderReading, reads_no_timeline_through_a_link) {
  write(to_json(sample_record()) + "\n");
  write_file(path().parent_path() / "secret.csv", "event,time_ms,bytes\n");
  std::filesystem::create_symlink("../../secret.csv", path() / "timelines" / "sizes.csv");
  StudyDocument document = read_study(path());
  std::vector<std::string>& command = document.parts.front().commands.front().arguments;
  command = {"memory", "--timeline", "{folder}/timelines/sizes.csv"};
  EXPECT_THAT(error_of([&] { study_page(document, ""); }), HasSubstr("is a symbolic link"));
  EXPECT_THAT(error_of([&] { study_files(document); }), HasSubstr("is a symbolic link"));
  for (const char* elsewhere : {"{folder}/timelines/../../secret.csv", "{folder}/../secret.csv", "/etc/passwd"}) {
    command.back() = elsewhere;
    EXPECT_TRUE(timeline_files(document.parts.front()).empty()) << elsewhere;
  }
}

TEST_F(StudyFolderReading, says_that_a_folder_has_no_study) {
  std::filesystem::create_directories(path());
  EXPECT_THAT(problem(), HasSubstr("has no study (no study.json)"));
}

}  // namespace
}  // namespace ridgepoint::tables
