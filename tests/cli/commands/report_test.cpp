// The report command from its files to its page. web/test has the tests of what the page does in a browser.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using ::testing::IsSupersetOf;
using Json = nlohmann::json;

constexpr std::uint64_t kFileLimit = 1 << 24;
constexpr const char* kRecord = R"({"schema":1,"command":"bench","status":"ok","model":{"name":"toy"}})";

ProgramResult report(std::vector<std::string> more) {
  more.insert(more.begin(), "report");
  return run_program(more);
}

// The data within a page.
Json data_of(const std::string& page) {
  const std::string begin = R"(id="ridgepoint-data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

class Report : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    write_file(folder_ / name, content);
    return (folder_ / name).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string page() const { return read_file(folder_ / "page.html", kFileLimit); }
  ProgramResult make_page(std::vector<std::string> files) const {
    files.insert(files.end(), {"-o", path("page.html")});
    return report(files);
  }
  void expect_failure(const std::vector<std::string>& files, const std::string& message) const {
    EXPECT_THAT(make_page(files), fails(1, AllOf(StartsWith("ridgepoint: "), HasSubstr(message)))) << message;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "page.html"));
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Report, has_the_steps_of_a_training_as_columns_under_the_name_of_its_folder) {
  const auto step = [](int number, const char* loss) {
    return fmt::format(R"({{"step":{},"loss":{},"learning_rate":0.1,"seconds":0.5,"tokens":{},"data":"d"}})", number,
                       loss, 8 * number) +
           "\n";
  };
  const std::string history = step(1, "4") + step(2, "3") + step(3, "9") + step(3, "null") + R"({"step":4,)";
  std::filesystem::create_directory(path("run"));
  const std::string inside = file("run/steps.jsonl", history);
  for (const std::string& given : {path("run"), path("run") + "/", inside}) {
    EXPECT_THAT(make_page({given}), warns("the page has the 3 rows before it"));
    const Json shown = data_of(page())["files"][0];
    EXPECT_EQ(shown["name"], "run");
    EXPECT_EQ(shown["steps"]["step"], Json({1, 2, 3}));
    EXPECT_EQ(shown["steps"]["loss"], Json({4, 3, nullptr}));
    EXPECT_EQ(shown["steps"]["tokens"], Json({8, 16, 24}));
    EXPECT_EQ(shown["steps"]["returns"], Json({3}));
    EXPECT_FALSE(shown["steps"].contains("validation_loss"));  // no step has one
    EXPECT_FALSE(shown["steps"].contains("data"));
  }
}

TEST_F(Report, has_every_record_with_all_its_members) {
  const std::string record = std::string(kRecord).insert(1, R"("profile":{"steps":3},)");
  const std::string array = file("array.json", "[\n" + record + ",\n" + kRecord + "\n]\n");
  const std::string lines = file("lines.jsonl", std::string(kRecord) + "\n\n" + kRecord + "\n");
  const ProgramResult result = make_page({array, lines, "--title", "Two files"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output + result.error, IsEmpty());
  const Json data = data_of(page());
  EXPECT_EQ(data["title"], "Two files");
  EXPECT_EQ(data["files"][0]["name"], "array.json");
  EXPECT_EQ(data["files"][0]["records"][0], Json::parse(record));
  EXPECT_EQ(data["files"][1]["records"].size(), 2);
  EXPECT_TRUE(data["files"][1]["timeline"].is_null());
}

TEST_F(Report, shows_what_the_program_writes) {
  const std::string rows = path("rows.jsonl"), sums = path("sums.json"), run = path("run.csv");
  ASSERT_EQ(run_program(toy_bench({"--mode", "forward,step", "--output", rows})).exit_code, 0);
  ASSERT_EQ(run_program({"precision", "--output", sums}).exit_code, 0);
  ASSERT_EQ(run_program({"memory", "--model", "tiny", "--device", "null", "--timeline", run}).exit_code, 0);
  const ProgramResult result = make_page({rows, sums, run});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const Json files = data_of(page())["files"];
  EXPECT_EQ(files[0]["records"][1]["mode"], "step");
  EXPECT_EQ(files[1]["rows"][0]["statement"], "fp32 += fp32");
  const Json& timeline = files[2]["timeline"];
  EXPECT_GT(timeline["bytes"].size(), 100U);
  EXPECT_EQ(timeline["origin"].size(), timeline["bytes"].size());
  EXPECT_EQ(timeline["origins"][0]["action"], "segment_alloc");
}

TEST_F(Report, has_a_section_for_each_device_of_a_trace) {
  const std::string trace = file("trace.json", R"({"traceEvents": [
    {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":4},
    {"ph":"X","cat":"kernel","name":"add","pid":1,"tid":7,"ts":9,"dur":2}]})");
  const std::string documents = path("documents.json");
  ASSERT_EQ(run_program({"trace", trace, "--output", documents}).exit_code, 0);
  EXPECT_EQ(make_page({documents, file("a.jsonl", kRecord)}).exit_code, 0);
  const Json data = data_of(page());
  std::vector<std::string> found;
  for (const Json& shown : data["files"])
    if (shown["part"].is_object())
      found.push_back(shown["part"]["id"].get<std::string>() + ": " + shown["caption"].get<std::string>());
  EXPECT_THAT(found, IsSupersetOf({"trace-1: Kernels by phase and class", "trace-1: Kernels", "trace-2: Kernels"}));
  for (const Json& shown : data["files"]) {
    if (shown["caption"] != "Kernels" || shown["part"]["id"] != "trace-2") continue;
    EXPECT_EQ(shown["rows"][0]["name"], "add");
  }
  EXPECT_EQ(data["files"].back()["records"].size(), 1);
}

TEST_F(Report, of_a_studys_folder_is_the_page_of_the_study) {
  const ProgramResult study = run_program({"study", "--quick", "--model", "tiny", "--limit", "1s", "--only",
                                           "accumulation,autocast", "--output", path("study")});
  ASSERT_EQ(study.exit_code, 0) << study.error;
  EXPECT_EQ(make_page({path("study")}).exit_code, 0);
  EXPECT_EQ(page(), read_file(path("study/report.html"), kFileLimit));
  std::vector<std::string> parts;
  const Json data = data_of(page());
  for (const Json& shown : data["files"]) parts.push_back(shown["part"]["id"]);
  EXPECT_THAT(parts, IsSupersetOf({"devices", "accumulation", "autocast"}));
  EXPECT_EQ(make_page({path("study"), "--title", "Mine"}).exit_code, 0);
  EXPECT_EQ(data_of(page())["title"], "Mine");
}

TEST_F(Report, of_a_folder_needs_a_study_and_no_other_file) {
  std::filesystem::create_directory(path("empty"));
  expect_failure({path("empty")}, "has no study (no study.json)");
  EXPECT_THAT(make_page({path("empty"), file("a.jsonl", kRecord)}), fails(2, "leave out the other files"));
}

TEST_F(Report, is_written_to_standard_output_without_a_file) {
  EXPECT_THAT(output_of(report({file("a.jsonl", kRecord)})), StartsWith("<!doctype html>"));
}

TEST_F(Report, keeps_names_from_ending_the_data) {
  Json record = Json::parse(kRecord);
  const std::string name = "</script><img src=x onerror=alert(1)><!--\xe2\x80\xa8\xe2\x80\xa9";
  record["model"]["name"] = name;
  ASSERT_EQ(make_page({file("a.json", "[" + record.dump() + "]"), "--title", name}).exit_code, 0);
  EXPECT_THAT(page(), AllOf(Not(HasSubstr("<img")), Not(HasSubstr("\xe2\x80\xa8"))));
  EXPECT_EQ(data_of(page())["files"][0]["records"][0]["model"]["name"], name);
  EXPECT_EQ(data_of(page())["title"], name);
}

TEST_F(Report, uses_the_finished_rows_of_a_truncated_file_and_says_so) {
  EXPECT_THAT(make_page({file("a.jsonl", std::string(kRecord) + "\n" + R"({"schema":1,"comm)")}),
              warns(AllOf(HasSubstr("a.jsonl' is not complete"), HasSubstr("the row before it"))));
  EXPECT_EQ(data_of(page())["files"][0]["records"].size(), 1);
}

TEST_F(Report, refuses_files_that_it_cannot_show) {
  expect_failure({path("missing.json")}, "missing.json");
  expect_failure({file("text.txt", "hello")}, "neither records");
  expect_failure({file("empty.json", "")}, "neither records");
  expect_failure({file("none.json", "[]")}, "it has no rows");
  expect_failure({file("cut.jsonl", R"({"schema":1)")}, "its only row ends in the middle");
  expect_failure({file("other.json", R"([{"name":"x"}])")}, "record 1: field 'schema' is missing");
  expect_failure({file("part.jsonl", R"({"schema":1})")}, "line 1: field 'command' is missing");
  expect_failure({file("b.jsonl", std::string(kRecord) + "\n{\"schema\"\n" + kRecord)},
                 "line 2: it is not JSON at byte");
  expect_failure({file("new.jsonl", R"({"schema":99,"command":"bench"})")}, "a newer Ridgepoint wrote it (schema 99");
  expect_failure({file("old.jsonl", R"({"schema":0,"command":"bench"})")}, "its schema 0 is older");
  expect_failure({file("wrong.jsonl", R"({"schema":1,"command":"bench","batch":"x"})")}, "field 'batch'");
  expect_failure({file("deep.json", "[" + std::string(100'000, '[') + std::string(100'000, ']') + "]")}, "nested");
}

TEST_F(Report, refuses_timelines_that_are_not_whole) {
  const std::string header = "event,time_ms,bytes,allocated_bytes,reserved_bytes,module\n";
  expect_failure({file("a.csv", "event,time_ms,bytes\n")}, "line 1: the timeline has no column allocated_bytes");
  expect_failure({file("b.csv", header + "0,1.5,8,8\n")}, "line 2: 4 fields instead of 6");
  expect_failure({file("c.csv", header + "0,1.5,8,8,8,a\n1,1.5,x,8,8,a\n")}, "line 3: 'x' is not a number");
  expect_failure({file("d.csv", header + "0,1.5,8,8,8,\"a")}, "a quoted field has no end");
}

TEST_F(Report, reads_quoted_modules_of_a_timeline) {
  const std::string csv =
      "event,time_ms,bytes,allocated_bytes,reserved_bytes,module\r\n0,,8,8,16,\"a \"\"b\"\", c\"\r\n";
  ASSERT_EQ(make_page({file("a.csv", csv)}).exit_code, 0);
  const Json timeline = data_of(page())["files"][0]["timeline"];
  EXPECT_EQ(timeline["origins"][0]["module"], "a \"b\", c");
  EXPECT_EQ(timeline["time_ms"], Json::array({0.0}));
  EXPECT_EQ(timeline["iteration"], Json::array({-1}));
  EXPECT_EQ(timeline["reserved_bytes"], Json::array({16}));
}

TEST_F(Report, refuses_an_output_that_it_cannot_write_or_would_overwrite) {
  const std::string rows = file("a.jsonl", kRecord);
  EXPECT_THAT(report({rows, "--output", path("no/folder/page.html")}), fails(1, "page.html"));
  EXPECT_THAT(report({rows, "--output", rows}), fails(2, "which RECORDS reads"));
  EXPECT_EQ(read_file(rows, kFileLimit), kRecord);
  EXPECT_THAT(report({"--output", path("page.html")}), fails(2, "no file is given"));
}

TEST_F(Report, tells_published_figures_from_its_own) {
  const std::string rows = file("a.jsonl", kRecord), paper = file("paper.jsonl", kRecord);
  const ProgramResult result = make_page({rows, "--published", paper});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const Json files = data_of(page())["files"];
  EXPECT_EQ(files[0]["is_published"], false);
  EXPECT_EQ(files[1]["is_published"], true);
  EXPECT_EQ(report({rows, "--published", paper, "--output", paper}).exit_code, 2);
}

TEST_F(Report, loads_nothing_from_a_network) {
  ASSERT_EQ(make_page({file("a.jsonl", kRecord)}).exit_code, 0);
  EXPECT_THAT(page(), AllOf(HasSubstr("default-src 'none'"), Not(HasSubstr(" src=")), Not(HasSubstr("<link"))));
}

}  // namespace
}  // namespace ridgepoint
