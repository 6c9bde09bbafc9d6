#include "record/record_table.h"

#include <algorithm>
#include <sstream>

#include "core/text/units.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

std::string records_as_text(const std::vector<Record>& records, std::size_t width = SIZE_MAX,
                            const std::vector<std::string>& columns = {}) {
  return render(Format::table, records_page(records, Format::table, columns), width);
}
std::string records_as_markdown(const std::vector<Record>& records, const std::vector<std::string>& columns = {}) {
  return render(Format::markdown, records_page(records, Format::markdown, columns));
}
std::string file_of(Format format, const std::vector<Record>& records) {
  return render(format, records_page(records, format));
}

TEST(RecordTable, says_what_is_shared_then_what_varies_then_what_was_measured) {
  Record large = sample_record(Mode::forward);
  large.batch = 16;
  EXPECT_EQ(records_as_text(std::vector{sample_record(Mode::forward), large, out_of_memory_record()}),
            "cpu (Test Processor), threads 2, model tiny, 3.0 M parameters, vocabulary 10000, context 256, fp32,\n"
            "composite attention, seed 7, warm-up 2, steps 4\n"
            "\n"
            "batch  mode     mean ms   std  median    min    max     cv  tokens/s  flop/s  of ceiling  peak memory  "
            "before backward\n"
            "    4  forward    11.62  1.49   11.50  10.00  13.50  12.8%    88.1 k   1.5 T       77.4%    100.0 MiB  "
            "       60.0 MiB\n"
            "   16  forward    11.62  1.49   11.50  10.00  13.50  12.8%    88.1 k   1.5 T       77.4%    100.0 MiB  "
            "       60.0 MiB\n"
            "    4  step     oom: out of memory in backward at matmul\n");
}

TEST(RecordTable, is_markdown_with_the_same_cells) {
  EXPECT_EQ(records_as_markdown(std::vector{out_of_memory_record()}),
            "cpu (Test Processor), threads 2, model tiny, 3.0 M parameters, vocabulary 10000, context 256, batch 4, "
            "fp32, composite attention, seed 7, warm-up 2, steps 4\n"
            "\n"
            "| mode | status |\n"
            "|---|---|\n"
            "| step | oom: out of memory in backward at matmul |\n");
}

TEST(RecordTable, says_in_the_row_why_it_failed) {
  Record record = out_of_memory_record();
  record.status = RunStatus::error;
  record.error = {};
  record.error.message = "the disk is on fire";
  EXPECT_THAT(records_as_text(std::vector{record}), HasSubstr("error: the disk is on fire"));
}

TEST(RecordTable, shows_the_forward_time_of_attention_that_ran_out_of_memory_in_backward) {
  Record failed = attention_record(AttentionVariant::composite, 128);
  failed.status = RunStatus::oom;
  failed.error.message = "out of memory in backward at matmul";
  failed.attention_call->backward_ms = describe({});
  failed.attention_call->backward_flops_per_second = std::nullopt;
  failed.memory_bytes = {};
  const std::string text = records_as_text(std::vector{attention_record(AttentionVariant::composite, 64), failed});
  const std::string time = format_ms(failed.attention_call->forward_ms.median);
  EXPECT_THAT(text, HasSubstr(time + "  oom: out of memory in backward at matmul\n"));
  EXPECT_THAT(records_as_markdown(std::vector{attention_record(AttentionVariant::composite, 64), failed}),
              AllOf(HasSubstr("| 128 | " + time + " |"), HasSubstr("| oom: out of memory in backward at matmul |")));
}

TEST(RecordTable, of_the_null_device_has_what_is_predicted_and_nothing_that_takes_time) {
  Record predicted = sample_record(Mode::step);
  predicted.device.kind = "null";
  predicted.training_step.emplace().flops_per_step = 18'000'000'000;
  Record other = predicted;
  other.dtype = Precision::bf16;
  const std::string text = records_as_text(std::vector{predicted, other});
  EXPECT_THAT(text, HasSubstr("dtype  mode  flop a step  peak memory  before backward\n"));
  EXPECT_THAT(text, Not(HasSubstr("warm-up")));
}

TEST(RecordTable, has_a_speedup_for_each_of_dtype_and_compile_that_varies) {
  std::vector<Record> records(4, sample_record());
  records[1].compile = records[3].compile = Compile::full;
  records[2].dtype = records[3].dtype = Precision::bf16;
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].training_step->time_ms = describe({12.0 / static_cast<double>(i + 1)});
  const std::string text = records_as_text(records);
  EXPECT_THAT(text, HasSubstr("dtype  compile  mode  speedup over fp32  speedup over off  mean ms"));
  EXPECT_THAT(text, HasSubstr("fp32   full     step              1.00x             2.00x"));
  EXPECT_THAT(text, HasSubstr("bf16   full     step              2.00x             1.33x"));
  records.resize(2);
  EXPECT_THAT(records_as_text(records), HasSubstr("compile  mode  speedup over off  mean ms"));
}

TEST(RecordTable, names_the_allocator_only_where_the_compile_level_does_not_imply_it) {
  std::vector<Record> records(2, sample_record());
  records[1].compile = Compile::full;
  records[1].allocator = AllocatorKind::arena;
  records[1].training_step->time_ms = describe({5.0});
  EXPECT_THAT(records_as_text(records), AllOf(Not(HasSubstr("allocator")), HasSubstr("2.3")))
      << "the speedup compares runs that differ in the implied allocator";
  records[0].allocator = AllocatorKind::arena;
  EXPECT_THAT(records_as_text(records), HasSubstr("allocator arena"));
  records[1].allocator = AllocatorKind::caching;
  EXPECT_THAT(records_as_text(records), HasSubstr("compile  allocator"));
}

std::vector<Record> checkpointed() {
  std::vector<Record> records(3, sample_record(Mode::step));
  records[0].checkpoint = Checkpoint::none;
  records[1].checkpoint = Checkpoint::attention;
  records[2].checkpoint = Checkpoint::block;
  records[0].training_step->time_ms = describe({10, 10});
  records[1].training_step->time_ms = describe({20, 20});
  records[2].training_step->time_ms = describe({40, 40});
  return records;
}

TEST(RecordTable, has_speedups_of_medians_so_that_an_outlier_makes_none) {
  std::vector<Record> records(2, sample_record());
  records[1].dtype = Precision::bf16;
  records[0].training_step->time_ms = describe({10, 10, 100});
  records[1].training_step->time_ms = describe({5, 5, 5});
  EXPECT_THAT(records_as_text(records), HasSubstr("bf16   step              2.00x"));
}

TEST(RecordTable, has_speedups_over_any_value_of_a_swept_option) {
  const std::vector<Record> records = checkpointed();
  EXPECT_THAT(records_as_text(records), Not(HasSubstr("speedup")));
  const RecordBaseline baseline = parse_baseline("checkpoint=attention", records);
  const std::string text = render(Format::table, records_page(records, Format::table, {}, baseline), SIZE_MAX);
  EXPECT_THAT(text,
              AllOf(HasSubstr("speedup over attention"), HasSubstr("2.00x"), HasSubstr("1.00x"), HasSubstr("0.50x")));
}

TEST(RecordTable, names_the_option_where_the_baseline_is_a_number) {
  std::vector<Record> records(2, sample_record(Mode::step));
  records[1].batch = 16;
  const RecordBaseline baseline = parse_baseline("batch=16", records);
  EXPECT_THAT(render(Format::table, records_page(records, Format::table, {}, baseline), SIZE_MAX),
              HasSubstr("speedup over batch 16"));
}

TEST(RecordTable, refuses_a_baseline_that_no_row_has) {
  const std::vector<Record> records = checkpointed();
  const auto message = [&](std::string_view text) -> std::string {
    return error_of([&] { parse_baseline(text, records); });
  };
  EXPECT_EQ(message("none"), "'none' names no value of an option; write compile=off");
  EXPECT_EQ(message("checkpoint=selective"), "no row has checkpoint 'selective'");
  EXPECT_EQ(message("batch=4"), "'batch' does not vary; what varies: checkpoint");
}

TEST(RecordTable, has_speedups_of_forward_and_of_backward_for_attention) {
  std::vector<Record> records(4, attention_record(AttentionVariant::composite));
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i >= 2) records[i].attention = AttentionVariant::flash;
    if (i % 2 == 1) records[i].compile = Compile::fuse;
    records[i].attention_call->forward_ms = describe({8.0 / static_cast<double>(i + 1)});
    records[i].attention_call->backward_ms = describe({5.0 + static_cast<double>(i)});
  }
  const std::string text = records_as_text(records);
  EXPECT_THAT(text, HasSubstr("compile  attention  forward speedup over off  backward speedup over off  forward ms"));
  EXPECT_THAT(text, HasSubstr("fuse     composite                     2.00x                      0.83x"));
  EXPECT_THAT(text, HasSubstr("fuse     flash                         1.33x                      0.88x"));
  records[1].attention_call->backward_ms = describe({});
  EXPECT_THAT(records_as_text(records),
              HasSubstr("fuse     composite                     2.00x                          -"));
}

TEST(RecordTable, has_a_column_for_each_phase_that_was_timed) {
  std::vector<Record> records(2, sample_record(Mode::forward_backward));
  EXPECT_THAT(records_as_text(records), Not(HasSubstr("backward ms")));
  records[1].training_step->phase_ms = {.forward = 3.0, .loss = 0.25, .backward = 6.5};
  const std::string text = records_as_text(records);
  EXPECT_THAT(text, HasSubstr("forward ms  loss ms  backward ms"));
  EXPECT_THAT(text, HasSubstr("3.00   0.2500         6.50"));
  EXPECT_THAT(text, Not(HasSubstr("optimizer ms")));
}

TEST(RecordTable, has_no_column_for_an_optimizer_that_only_some_modes_have) {
  std::vector<Record> records = {sample_record(Mode::forward), sample_record(Mode::step)};
  records[0].optimizer.reset();
  records[1].optimizer = Optimizer::adamw;
  EXPECT_THAT(records_as_text(records), Not(HasSubstr("optimizer")));
  records[1].optimizer = Optimizer::sgd;
  EXPECT_THAT(records_as_text(records), AllOf(HasSubstr(", sgd,"), Not(HasSubstr("optimizer"))));
  records.push_back(records[1]);
  records[2].optimizer = Optimizer::adamw;
  EXPECT_THAT(records_as_text(records), HasSubstr("optimizer  mode"));
}

TEST(RecordTable, leaves_out_the_least_telling_columns_of_a_narrow_terminal_and_says_so) {
  const std::string text = records_as_text(std::vector{sample_record()}, 60);
  EXPECT_THAT(text, HasSubstr("mean ms"));
  EXPECT_THAT(text, HasSubstr("peak memory"));
  EXPECT_THAT(text, HasSubstr("Omitted for lack of width: median, min, max, cv, flop/s,"));
}

TEST(RecordTable, fits_eighty_and_sixty_columns_whatever_its_rows_are) {
  std::vector<Record> records = {sample_record(Mode::forward), sample_record(Mode::step), out_of_memory_record()};
  records[1].batch = 128;
  records[1].dtype = Precision::bf16;
  records[1].compile = Compile::fuse;
  records[2].model.name = "custom";
  records[2].model.layers = 100;
  records[2].context = 65536;
  records[2].status = RunStatus::error;
  records[2].error.message = "anomaly in iteration 1: the first NaN is made by log in 'layers.0.attn.softmax', forward";
  for (const std::size_t width : {80, 60, 40}) {
    std::istringstream lines(records_as_text(records, width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(RecordTable, has_no_measurement_columns_where_no_run_ended_well) {
  Record record = sample_record();
  record.status = RunStatus::error;
  record.error.message = "anomaly in iteration 1";
  EXPECT_THAT(records_as_text(std::vector{record}), EndsWith("mode  status\nstep  error: anomaly in iteration 1\n"));
}

TEST(RecordTable, shows_the_columns_asked_for_in_the_order_asked_for) {
  const std::vector<std::string> columns = {"peak_over_before_backward", "peak_reserved", "allocated_at_end", "mean"};
  EXPECT_THAT(records_as_text(std::vector{sample_record()}, SIZE_MAX, columns),
              EndsWith("mode  peak less before backward  peak reserved  allocated at end  mean ms\n"
                       "step                   40.0 MiB      128.0 MiB          90.0 MiB    11.62\n"));
  EXPECT_THAT(records_as_markdown(std::vector{attention_record()},
                                  std::vector<std::string>{"samples", "peak_over_before_backward"}),
              HasSubstr("| steps | peak less before backward |\n|---:|---:|\n| 3+1 | 40.0 MiB |\n"));
}

TEST(RecordTable, says_which_runs_had_given_weights_and_looked_for_anomalies) {
  Record record = sample_record();
  record.training_step->weights = "w.safetensors";
  record.training_step->detect_anomaly = true;
  EXPECT_THAT(records_as_text(std::vector{record}),
              AllOf(HasSubstr("weights from 'w.safetensors'"), HasSubstr("checked for NaN and infinity")));
}

TEST(RecordTable, of_the_sizes_shows_those_that_vary) {
  Record deeper = sample_record();
  deeper.model.name = "custom";
  deeper.model.layers = 3;
  Record deepest = deeper;
  deepest.model.layers = 4;
  const std::string text = records_as_text(std::vector{deeper, deepest});
  EXPECT_THAT(text, HasSubstr("\nlayers  mode"));
  EXPECT_THAT(text, HasSubstr("d_model 128, d_ff 384, heads 4"));
}

TEST(RecordTable, of_no_records_is_empty) { EXPECT_EQ(records_as_text({}), ""); }

TEST(RecordFile, json_is_an_array_with_a_record_a_line) {
  const std::string text = file_of(Format::json, std::vector{sample_record(), out_of_memory_record()});
  EXPECT_THAT(text, StartsWith("[\n{\"schema\":1,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(file_of(Format::json, {}), "[\n]\n");
}

TEST(RecordFile, json_lines_have_no_brackets) {
  const std::string text = file_of(Format::jsonl, std::vector{sample_record(), out_of_memory_record()});
  EXPECT_THAT(text, StartsWith("{\"schema\":1,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(RecordFile, csv_begins_with_its_heading) {
  EXPECT_THAT(file_of(Format::csv, {}), StartsWith("schema,command,device.kind,device.name,"));
}

std::string row_of(const Record& record) {
  const std::string text = file_of(Format::csv, {record});
  return text.substr(text.find('\n') + 1);
}

TEST(RecordFile, csv_has_a_cell_for_every_column) {
  // Commas in quotes do not separate.
  const auto cells = [](const std::string& line) {
    std::size_t count = 1;
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++count;
    }
    return count;
  };
  EXPECT_EQ(cells(row_of(sample_record())), cells(file_of(Format::csv, {})));
  EXPECT_EQ(cells(row_of(out_of_memory_record())), cells(file_of(Format::csv, {})));
}

TEST(RecordFile, csv_quotes_what_would_break_a_row) {
  Record record = sample_record();
  record.device.name = "a \"fast\", new\none";
  EXPECT_THAT(row_of(record), HasSubstr(R"(,"a ""fast"", new)"
                                        "\n"
                                        R"(one",)"));
}

TEST(RecordFile, csv_keeps_the_samples_in_one_cell) {
  EXPECT_THAT(row_of(sample_record()), HasSubstr(",10;12;11;13.5,"));
  EXPECT_THAT(file_of(Format::csv, {}), HasSubstr(",time_ms.samples,"));
}

}  // namespace
}  // namespace ridgepoint::tables
