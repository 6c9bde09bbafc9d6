// Traces of all forms, and what is wrong with traces.
#include "interchange/trace/read_trace.h"

#include <fmt/format.h>
#include <zlib.h>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/trace/trace_collector.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::UnorderedElementsAre;

std::string kernel_at(std::string_view ts, std::string_view dur, std::string_view name = "gemm", int stream = 7) {
  return fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {},)"
                     R"( "args": {{"device": 0, "stream": {}, "correlation": 5}}}})",
                     name, stream, ts, dur, stream);
}

std::string document(std::string_view events) {
  return fmt::format("{{\"schemaVersion\": 1, \"traceEvents\": [{}], \"baseTimeNanoseconds\": 1700}}", events);
}

Trace read_text(std::string_view text) {
  const TemporaryFolder folder;
  OutputFile file(folder / "trace.json");
  file.write(text);
  file.commit();
  return read_trace(folder / "trace.json");
}

std::string problem_of(std::string_view text) {
  return error_of([&] { read_text(text); });
}

std::string in_gzip(std::string_view text) {
  std::string packed(text.size() + 1024, '\0');
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(ReadTrace, keeps_times_to_the_nanosecond) {
  const Trace trace = read_text(document(kernel_at("4458676983543.183", "41.407")));
  ASSERT_THAT(trace.activities, SizeIs(1));
  EXPECT_EQ(trace.activities[0].start_ns, 4458676983543183);
  EXPECT_EQ(trace.activities[0].duration_ns, 41407);
  EXPECT_EQ(trace.activities[0].correlation, 5u);
  EXPECT_EQ(trace.names[trace.activities[0].name], "gemm");
}

TEST(ReadTrace, rounds_times_to_the_nearest_nanosecond) {
  const auto ns = [](std::string_view start, std::string_view duration) {
    const Trace trace = read_text(document(kernel_at(start, duration)));
    return std::pair(trace.activities.at(0).start_ns, trace.activities.at(0).duration_ns);
  };
  EXPECT_EQ(ns("7.0004999", "2.0004"), std::pair(std::int64_t{7000}, std::int64_t{2000}));
  EXPECT_EQ(ns("7.0005", "2.0015000"), std::pair(std::int64_t{7001}, std::int64_t{2002}));
  EXPECT_EQ(ns("7.9995", "2.9999"), std::pair(std::int64_t{8000}, std::int64_t{3000}));
}

TEST(ReadTrace, takes_times_that_can_only_be_nanoseconds_as_nanoseconds) {
  const Trace trace = read_text(document(kernel_at("1682725898082228000", "500")));
  EXPECT_EQ(trace.activities.at(0).start_ns, 1682725898082228000);
  EXPECT_EQ(trace.activities.at(0).duration_ns, 500);
}

TEST(ReadTrace, knows_the_categories_of_old_forms_and_text_for_threads) {
  const Trace trace = read_text(document(
      R"({"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":10,"dur":3,"args":{}},)"
      R"({"ph":"X","cat":"Memcpy","name":"c","pid":0,"tid":"stream 7","ts":20,"dur":1},)"
      R"({"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":9,"tid":"9","ts":5,"dur":1,"args":{"correlation":4}},)"
      R"({"ph":"X","cat":"Operator","name":"ProfilerStep#2","pid":9,"tid":"9","ts":1,"dur":50})"));
  EXPECT_THAT(trace.activities, SizeIs(2));
  EXPECT_THAT(trace.calls, SizeIs(1));
  EXPECT_THAT(trace.marks, SizeIs(1));
  EXPECT_EQ(trace.tracks[trace.activities[0].track].thread, "stream 7");
}

TEST(ReadTrace, keeps_the_nodes_of_backward_of_old_forms_which_have_no_call_of_the_engine) {
  const auto op = [](std::string_view category, std::string_view name) {
    return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":9,"tid":"9","ts":1,"dur":5}})", category, name);
  };
  const auto marks = [&](std::string_view category, std::string_view name) {
    return read_text(document(op(category, name))).marks.size();
  };
  for (const std::string_view node : {"MmBackward", "AddBackward1", "torch::autograd::AccumulateGrad"}) {
    EXPECT_EQ(marks("Operator", node), 1) << node;
    EXPECT_EQ(marks("cpu_op", node), 0) << node;  // lies within autograd::engine::evaluate_function
  }
  EXPECT_EQ(marks("Operator", "aten::mse_loss_backward"), 0);
}

TEST(ReadTrace, takes_calls_of_hip) {
  const Trace trace = read_text(document(
      R"({"ph":"X","cat":"cuda_runtime","name":"hipExtModuleLaunchKernel","pid":1,"tid":1,"ts":5,"dur":1},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"hipGetDevicePropertiesR0600","pid":1,"tid":1,"ts":6,"dur":1})"));
  EXPECT_THAT(trace.calls, SizeIs(1));
}

TEST(ReadTrace, takes_a_list_of_events_without_an_object_around_it) {
  EXPECT_THAT(read_text('[' + kernel_at("1", "2") + ",\n" + kernel_at("4", "2")).activities, SizeIs(2));
}

TEST(ReadTrace, reads_gzip_to_the_same_events) {
  const std::string text = document(kernel_at("1", "2") + ',' + kernel_at("3", "2"));
  const Trace packed = read_text(in_gzip(text));
  EXPECT_THAT(packed.activities, SizeIs(2));
  EXPECT_EQ(packed.format, "Chrome trace, gzip");
}

TEST(ReadTrace, reads_an_event_that_is_longer_than_its_buffer) {
  const std::string name(5 << 20, 'x');
  const Trace trace = read_text(document(kernel_at("1", "2", name) + ',' + kernel_at("3", "2")));
  EXPECT_THAT(trace.activities, SizeIs(2));
  EXPECT_LT(trace.names[trace.activities[0].name].size(), 20000u) << "a name is kept up to a limit";
}

TEST(ReadTrace, uses_what_is_whole_in_a_file_that_is_cut_off) {
  const std::string text = document(kernel_at("1", "2") + ',' + kernel_at("3", "2"));
  const Trace trace = read_text(text.substr(0, text.size() - 60));
  EXPECT_THAT(trace.activities, SizeIs(1));
  EXPECT_EQ(trace.fault(TraceFault::cut_off), 1u);
}

TEST(ReadTrace, uses_what_is_whole_in_gzip_that_is_cut_off) {
  std::string events;
  for (int i = 0; i < 2000; ++i) events += kernel_at(std::to_string(1000 + 37 * i % 999), "2") + ',';
  const std::string packed = in_gzip(document(events + kernel_at("1", "1")));
  const Trace trace = read_text(std::string_view(packed).substr(0, packed.size() / 2));
  EXPECT_GT(trace.activities.size(), 500u);
  EXPECT_EQ(trace.fault(TraceFault::cut_off), 1u);
}

TEST(ReadTrace, passes_over_what_is_not_json_between_events) {
  const Trace trace = read_text(
      document(kernel_at("1", "2") + R"(,{"ph": "X", "name": bad " quotes", "ts": }, )" + kernel_at("3", "2")));
  EXPECT_THAT(trace.activities, SizeIs(2));
  EXPECT_GE(trace.fault(TraceFault::damaged), 1u);
}

TEST(ReadTrace, loses_no_more_than_an_event_without_a_quotation_mark) {
  const std::string damaged =
      R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 2, "dur": 1, "args": {"a": "x}})";
  const Trace trace = read_text(
      document(kernel_at("1", "2") + ',' + damaged + ",\n" + kernel_at("3", "2") + ',' + kernel_at("5", "2")));
  EXPECT_THAT(trace.activities, SizeIs(3));
  EXPECT_EQ(trace.fault(TraceFault::damaged), 1u);
  EXPECT_EQ(trace.fault(TraceFault::cut_off), 0u);
}

TEST(ReadTrace, has_one_name_for_those_beyond_the_limit) {
  TraceCollector collector;
  for (std::size_t i = 0; i < TraceCollector::kMostNameBytes / 16384; ++i) collector.name(fmt::format("{:016384}", i));
  for (std::size_t size = 300; size > 0; --size) collector.name(std::string(size, 'x'));
  EXPECT_EQ(collector.text_of(collector.name("late")), "(names beyond those that are kept)");
}

TEST(ReadTrace, counts_negative_durations_and_keeps_zero) {
  const Trace trace = read_text(document(kernel_at("1", "-2") + ',' + kernel_at("3", "0")));
  EXPECT_THAT(trace.activities, SizeIs(1));
  EXPECT_EQ(trace.fault(TraceFault::negative_duration), 1u);
}

TEST(ReadTrace, counts_integers_beyond_63_bits) {
  const Trace trace = read_text(document(
      kernel_at("99999999999999999999999", "2") + ',' + kernel_at("3", "2") +
      R"(,{"ph":"X","cat":"cpu_op","name":"record","pid":0,"tid":1,"ts":2,"dur":1,"args":{"Comms Id":10159970886766084423}})"));
  EXPECT_THAT(trace.activities, SizeIs(1));
  EXPECT_EQ(trace.fault(TraceFault::beyond_63_bits), 1u) << "not the argument that no one asks for";
}

TEST(ReadTrace, leaves_room_for_durations_behind_times) {
  EXPECT_EQ(read_text(document(kernel_at("9.1e15", "1e15"))).fault(TraceFault::beyond_63_bits), 1u);
}

TEST(ReadTrace, keeps_sums_of_operations_within_63_bits) {
  std::string events;
  for (int i = 0; i < 4; ++i)
    events += R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5,"args":)"
              R"({"Input Dims":[[1000000,1000000],[1000000,1000000]]}},)";
  EXPECT_THAT(read_text(document(events + kernel_at("1", "1"))).marks, SizeIs(2)) << "two of 2e18 fit";
}

TEST(ReadTrace, keeps_sums_of_durations_within_63_bits) {
  std::string events = kernel_at("1", "1");
  for (int i = 0; i < 5; ++i) events += ',' + kernel_at("1", "2000000000000000");
  const Trace trace = read_text(document(events));
  EXPECT_THAT(trace.activities, SizeIs(3));
  EXPECT_EQ(trace.fault(TraceFault::beyond_63_bits), 3u);
}

TEST(ReadTrace, leaves_out_the_time_0_where_other_times_are_late) {
  const Trace late = read_text(document(kernel_at("0", "2") + ',' + kernel_at("1682725898082228", "2")));
  EXPECT_THAT(late.activities, SizeIs(1));
  EXPECT_EQ(late.fault(TraceFault::no_time), 1u);
  EXPECT_THAT(read_text(document(kernel_at("0", "2") + ',' + kernel_at("10", "2"))).activities, SizeIs(2));
}

TEST(ReadTrace, counts_events_without_a_time_and_pairs_of_begin_and_end) {
  const Trace trace = read_text(document(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":0},)"
                                         R"({"ph":"B","cat":"kernel","name":"k","pid":0,"tid":0,"ts":1})"));
  EXPECT_EQ(trace.fault(TraceFault::no_time), 1u);
  EXPECT_EQ(trace.fault(TraceFault::begin_without_end), 1u);
}

TEST(ReadTrace, has_no_activities_in_a_trace_of_a_cpu) {
  const Trace trace = read_text(
      document(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1,"dur":5})"));
  EXPECT_THAT(trace.activities, SizeIs(0));
  EXPECT_THAT(trace.marks, SizeIs(1));
}

TEST(ReadTrace, does_not_take_annotations_on_the_track_of_a_device_for_kernels) {
  const Trace trace = read_text(
      document(R"({"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#1","pid":0,"tid":7,"ts":1,"dur":5},)"
               R"({"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":7,"ts":1,"dur":5})"));
  EXPECT_THAT(trace.activities, SizeIs(0));
  EXPECT_THAT(trace.marks, SizeIs(0));
}

TEST(ReadTrace, does_without_properties_of_devices) {
  EXPECT_THAT(read_text(document(kernel_at("1", "2"))).devices, SizeIs(0));
  const Trace trace = read_text(R"({"deviceProperties": [{"id": 0, "name": "H100"}, {"id": 1}], "traceEvents": []})");
  ASSERT_THAT(trace.devices, SizeIs(2));
  EXPECT_EQ(trace.devices[0].name, "H100");
}

TEST(ReadTrace, counts_events_of_devices_beyond_those_that_are_kept) {
  TraceCollector collector;
  const TraceEvent event{
      .start_ns = 1, .duration_ns = 1, .name = collector.name("k"), .track = collector.track("0", "7")};
  for (std::size_t i = 0; i < TraceCollector::kMostActivities + 3; ++i) collector.add_activity(event);
  EXPECT_THAT(collector.trace().activities, SizeIs(TraceCollector::kMostActivities));
  EXPECT_EQ(collector.trace().fault(TraceFault::over_limit), 3u);
}

TEST(ReadTrace, keeps_flows_from_forward_to_backward_and_no_others) {
  const Trace trace = read_text(document(R"({"ph":"s","id":4,"cat":"fwdbwd","name":"fwdbwd","pid":1,"tid":1,"ts":1},)"
                                         R"({"ph":"f","id":4,"cat":"fwdbwd","name":"fwdbwd","pid":1,"tid":2,"ts":9},)"
                                         R"({"ph":"s","id":5,"cat":"ac2g","name":"ac2g","pid":1,"tid":1,"ts":1})"));
  EXPECT_THAT(trace.flow_begins, SizeIs(1));
  ASSERT_THAT(trace.flow_ends, SizeIs(1));
  EXPECT_EQ(trace.flow_ends[0].correlation, 4u);
}

TEST(ReadTrace, counts_the_work_of_products_whose_shapes_are_recorded) {
  const auto product = [](std::string_view name, std::string_view dims) {
    return fmt::format(R"({{"ph":"X","cat":"cpu_op","name":"{}","pid":1,"tid":1,"ts":1,"dur":5,"args":{{"Input type":)"
                       R"(["c10::BFloat16","c10::BFloat16","c10::BFloat16"],"Input Dims":{}}}}})",
                       name, dims);
  };
  const Trace trace = read_text(
      document(product("aten::mm", "[[2, 3], [3, 5]]") + ',' + product("aten::addmm", "[[5], [2, 3], [3, 5], [], []]") +
               ',' + product("aten::bmm", "[[7, 2, 3], [7, 3, 5]]") + ',' + product("aten::mm", "[[2, 3], [4, 5]]") +
               ',' + product("aten::mm", "[[9223372036854775807, 3], [3, 9223372036854775807]]") + ',' +
               product("aten::add", "[[2, 3], [3, 5]]")));
  ASSERT_THAT(trace.marks, SizeIs(3));
  std::vector<std::int64_t> flops;
  for (const TraceEvent& mark : trace.marks) {
    const TraceWork& work = trace.works.at(mark.note);
    flops.push_back(work.flops);
    EXPECT_EQ(work.dtype, "bf16");
    EXPECT_TRUE(work.is_product);
    EXPECT_EQ(work.bytes, work.flops / 60 * 2 * (6 + 15 + 10));
  }
  EXPECT_THAT(flops, UnorderedElementsAre(60, 60, 7 * 60)) << "2 x 2 x 3 x 5 of each product";
}

TEST(ReadTrace, has_no_work_of_shapes_beyond_those_that_are_kept) {
  constexpr std::string_view kOp =
      R"({{"ph":"X","cat":"cpu_op","name":"aten::mul","pid":1,"tid":1,"ts":1,"dur":5,"args":{{"Input type":["float"],)"
      R"("Input Dims":[[{}{}]]}}}})";
  const std::string spaces(20'000, ' ');
  const Trace trace =
      read_text(document(fmt::format(fmt::runtime(kOp), spaces, 8) + ',' + fmt::format(fmt::runtime(kOp), "", 4) + ',' +
                         fmt::format(fmt::runtime(kOp), spaces, 16)));
  ASSERT_THAT(trace.marks, SizeIs(1)) << "longer texts are cut, so two may look alike";
  EXPECT_EQ(trace.works.at(trace.marks[0].note).bytes, 2 * 4 * 4);
}

TEST(ReadTrace, knows_when_its_time_0_was_where_the_file_says_it) {
  const auto base_of = [](std::string_view ts, std::string_view member) {
    return read_text(fmt::format(R"({{"traceEvents": [{}]{}}})", kernel_at(ts, "2"), member)).base_ns;
  };
  constexpr std::string_view kBase = R"(, "baseTimeNanoseconds": 1751410836000000000)";
  EXPECT_EQ(base_of("1419247334121.6", kBase), 1751410836000000000);
  EXPECT_EQ(base_of("1682725898082228", ""), 0) << "old forms have times since 1970";
  EXPECT_EQ(base_of("1682725898082228", kBase), 0);
  EXPECT_EQ(base_of("12", ""), std::nullopt);
  EXPECT_EQ(base_of("12", R"(, "baseTimeNanoseconds": 1700)"), std::nullopt) << "a time in 1970 is none";
  EXPECT_EQ(base_of("12", R"(, "baseTimeNanoseconds": 9223372036854775807)"), std::nullopt);
}

TEST(ReadTrace, reads_the_sums_of_nsys_stats_as_text_and_as_csv) {
  const Trace table = read_text(
      "Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...\n\n"
      " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name\n"
      " --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----\n"
      "     75.0              300          2     150.0     150.0       100       200         70.7  void gemm<4, "
      "2>(int)\n"
      "     25.0              100          1     100.0     100.0       100       100          0.0  add\n");
  ASSERT_THAT(table.sums, SizeIs(2));
  EXPECT_EQ(table.names[table.sums[0].name], "void gemm<4, 2>(int)");
  EXPECT_EQ(table.sums[0].calls, 2);
  EXPECT_EQ(table.sums[0].total_ns, 300);
  const Trace csv = read_text(
      "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
      "75.0,300,2,150.0,150.0,100,200,70.7,\"void gemm<4, 2>(int)\"\n"
      "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
      "75.0,300,2,150.0,150.0,100,200,70.7,cudaLaunchKernel\n");
  ASSERT_THAT(csv.sums, SizeIs(1)) << "calls of the host are no kernels";
  EXPECT_EQ(csv.names[csv.sums[0].name], "void gemm<4, 2>(int)");
}

TEST(ReadTrace, says_what_a_file_is_that_is_no_trace) {
  EXPECT_THAT(problem_of("\x80\x04]q"), HasSubstr("it is a pickle; `ridgepoint snapshot` reads"));
  EXPECT_THAT(problem_of("PK\x03\x04"), HasSubstr("zip archive"));
  EXPECT_THAT(problem_of(R"({"model": "small"})"), HasSubstr("JSON without a list `traceEvents`"));
  EXPECT_THAT(problem_of(R"({"model": "sm)"), HasSubstr("ends before a list `traceEvents`"));
  EXPECT_THAT(problem_of(R"([{"status": "ok"}])"), HasSubstr("a JSON list without events"));
  EXPECT_THAT(problem_of(""), HasSubstr("it is empty"));
  EXPECT_THAT(problem_of("hello"),
              AllOf(HasSubstr("it is neither Chrome trace JSON"), HasSubstr("export_chrome_trace")));
}

TEST(ReadTrace, ends_for_brackets_without_end_and_strings_without_end) {
  EXPECT_EQ(read_text("{\"traceEvents\": [" + std::string(1 << 20, '[')).fault(TraceFault::cut_off), 1u);
  EXPECT_EQ(read_text("{\"traceEvents\": [{\"ph\": \"" + std::string(20 << 20, 'x')).fault(TraceFault::cut_off), 1u);
  EXPECT_EQ(read_text("{\"traceEvents\": [" + std::string(1 << 16, '{')).fault(TraceFault::cut_off), 1u);
  std::string nested = "{\"traceEvents\": [";
  for (int i = 0; i < 1'000'000; ++i) nested += "{\"ph\":";
  EXPECT_EQ(read_text(nested).fault(TraceFault::cut_off), 1u);
}

}  // namespace
}  // namespace ridgepoint
