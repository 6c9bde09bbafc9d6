// devices from the outside.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/csv_rows.h"

namespace ridgepoint {
namespace {

using ::testing::Ne;
using ::testing::Pair;

TEST(Devices, prints_those_that_it_has_examined_at_ctrl_c) {
  ChildProgram child({"devices", "--threads", "1", "--format", "json"});
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  child.signal(SIGINT);
  const ProgramResult result = child.wait();
  EXPECT_EQ(result.exit_code, 130);
  const std::size_t examined = nlohmann::json::parse(result.output).size();
  EXPECT_THAT(result.error, StartsWith("ridgepoint: interrupted; " + std::to_string(examined) + " of "));
}

TEST(Devices, prints_every_format) {
  const auto print = [](const std::string& format) { return output_of(run_program({"devices", "--format", format})); };
  const nlohmann::json devices = nlohmann::json::parse(print("json"));
  const std::string lines = print("jsonl");
  ASSERT_EQ(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')), devices.size());
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, lines.find('\n')))["kind"], devices[0]["kind"]);
  const std::string csv = print("csv");
  const std::vector<CsvRow> rows = csv_rows(csv);
  ASSERT_THAT(rows, SizeIs(devices.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("kind"), devices[i]["kind"].get<std::string>());
    EXPECT_EQ(rows[i].at("matmul.fp32.flops_per_second").empty(), rows[i].at("copy.bytes_per_second").empty());
  }
  EXPECT_THAT(rows, Contains(AllOf(Contains(Pair("kind", "cpu")), Contains(Pair("matmul.fp32.size", Ne(""))))));
  EXPECT_THAT(print("markdown"), HasSubstr("| cpu |"));
}

TEST(Devices, prints_what_is_here) {
  EXPECT_THAT(output_of(run_program({"devices"})),
              AllOf(HasSubstr("cpu"), HasSubstr("matmul fp32"), HasSubstr("copy"), HasSubstr("null")));
}

TEST(Devices, prints_cards_that_are_not_here) {
  const nlohmann::json cards =
      nlohmann::json::parse(output_of(run_program({"devices", "--card", "h100,rtx 4090", "--format", "json"})));
  ASSERT_THAT(cards, SizeIs(2));
  EXPECT_EQ(cards[0]["name"], "H100 SXM");
  EXPECT_EQ(cards[0]["compute_capability"], "9.0");
  EXPECT_EQ(cards[0]["multiprocessors"], 132);
  EXPECT_EQ(cards[0]["total_memory_bytes"].get<std::int64_t>() - cards[0]["capacity_bytes"].get<std::int64_t>(),
            std::int64_t{1} << 30);
  EXPECT_EQ(cards[1]["compute_capability"], "8.9");
  const ProgramResult all = run_program({"devices", "--card", "all"});
  EXPECT_THAT(all.output, AllOf(HasSubstr("V100 32GB"), HasSubstr("compute capability 7.0, 80 multiprocessors")));
  EXPECT_THAT(run_program({"devices", "--card", "h2000"}), fails(2, "'h2000' is unknown; did you mean 'H200 SXM'?"));
}

}  // namespace
}  // namespace ridgepoint
