// `ridgepoint plan --offload`: the memory of the card and of the host.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/matchers.h"
#include "support/program/plan_rows.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using testing::plan;
using testing::rows_of;

TEST(OffloadOptions, plans_the_memory_of_the_host_and_keeps_within_its_limit) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--model", "tiny", "--offload", "optimizer"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const nlohmann::json on_host = rows_of(with({}))[0], on_device = rows_of({"--model", "tiny"})[0];
  const auto moments = 2 * 4 * on_device["model"]["parameters"].get<std::int64_t>();
  EXPECT_GE(on_host["memory_bytes"]["host"].get<std::int64_t>(), moments);
  EXPECT_LT(on_host["memory_bytes"]["host"].get<std::int64_t>(), moments + moments / 100);
  EXPECT_TRUE(on_device["memory_bytes"]["host"].is_null());
  EXPECT_LT(on_host["memory_bytes"]["peak_allocated"], on_device["memory_bytes"]["peak_allocated"]);
  const std::int64_t between_mib = (on_host["memory_bytes"]["peak_reserved"].get<std::int64_t>() +
                                    on_device["memory_bytes"]["peak_reserved"].get<std::int64_t>()) >>
                                   21;
  const std::string between = std::to_string(between_mib) + "MiB";
  const auto chosen = [](const std::string& limit) {
    return rows_of({"--model", "tiny", "--offload", "auto", "--memory-limit", limit})[0]["offload"];
  };
  EXPECT_EQ(chosen(between), "optimizer");
  EXPECT_EQ(chosen("1GiB"), "none");
  EXPECT_EQ(rows_of({"--model", "tiny", "--offload", "auto", "--fit-into", between})[0]["status"], "ok");
  EXPECT_THAT(plan({"--model", "tiny", "--offload", "auto"}).error,
              HasSubstr("--offload auto needs a memory to fit in"));
  EXPECT_THAT(plan({"--model", "tiny", "--host-memory", "1MiB"}).error, HasSubstr("add --offload optimizer"));
  EXPECT_EQ(rows_of(with({"--offload", "none", "--host-memory", "1GiB"})).size(), 2U);
  EXPECT_THAT(plan(with({"--as", "torch", "--compile", "off"})).output, HasSubstr("--offload and --z-loss"));
  EXPECT_THAT(plan(with({"--host-memory", "1MiB"})).output,
              AllOf(HasSubstr("of the host's memory, and may take 1.00 MiB"), HasSubstr("raise --host-memory")));
  EXPECT_THAT(plan(with({"--mode", "forward"})).error, HasSubstr("--mode forward has none; use step"));
  EXPECT_THAT(plan({"--model", "tiny", "--offload", "optimiser"}).error, HasSubstr("did you mean 'optimizer'?"));
}

TEST(OffloadOptions, plans_a_file_of_states_and_the_memory_for_its_pieces) {
  const auto with = [](const std::vector<std::string>& more) {
    return with_options({"--model", "tiny", "--offload", "optimizer", "--offload-folder", "/nowhere"}, more);
  };
  const nlohmann::json on_disk = rows_of(with({"--card", "h100"}))[0];
  const nlohmann::json on_host = rows_of({"--model", "tiny", "--offload", "optimizer", "--card", "h100"})[0];
  EXPECT_EQ(on_disk["status"], "ok") << "nothing is made where nothing runs";
  EXPECT_EQ(on_disk["offload_folder"], "/nowhere");
  EXPECT_GE(on_disk["memory_bytes"]["disk"], on_host["memory_bytes"]["host"]);
  EXPECT_EQ(on_disk["memory_bytes"]["host"], 32 << 20);
  EXPECT_TRUE(on_host["memory_bytes"]["disk"].is_null());
  EXPECT_EQ(on_disk["memory_bytes"]["peak_allocated"], on_host["memory_bytes"]["peak_allocated"]);
  EXPECT_TRUE(on_disk["predicted_ms"].is_null());
  EXPECT_THAT(on_disk["predicted_problem"].get<std::string>(), HasSubstr("the rate of its disk is not known"));
  EXPECT_THAT(plan(with({"--host-memory", "16MiB"})).output, HasSubstr("needs 32.0 MiB of the host's memory"));
  EXPECT_THAT(plan({"--model", "tiny", "--offload-folder", "/nowhere"}).error, HasSubstr("add --offload optimizer"));
  EXPECT_THAT(plan({"--model", "tiny", "--offload", "activations", "--offload-folder", "/nowhere"}).error,
              HasSubstr("add --offload optimizer"));
  EXPECT_THAT(plan(with({"--fit-into", "1GiB"})).error, HasSubstr("none is predicted with states in a file"));
}

TEST(OffloadOptions, plans_activations_and_weights_on_the_host) {
  const auto with = [](const std::vector<std::string>& more) {
    return with_options({"--layers", "12", "--d-model", "512", "--d-ff", "2048", "--heads", "8"}, more);
  };
  const nlohmann::json rows = rows_of(with({"--offload", "none", "--offload", "activations", "--offload", "parameters",
                                            "--offload", "activations,parameters,optimizer"}));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[3]["offload"], "optimizer,parameters,activations");
  for (const std::size_t row : {1, 2, 3}) {
    EXPECT_GT(rows[row]["memory_bytes"]["host"], 0) << row;
    EXPECT_LT(rows[row]["memory_bytes"]["peak_allocated"], rows[0]["memory_bytes"]["peak_allocated"]) << row;
  }
  const auto automatic = [&](std::int64_t mib, const std::string& host) {
    return with({"--offload", "auto", "--memory-limit", std::to_string(mib) + "MiB", "--host-memory", host});
  };
  const std::int64_t too_few_mib = (rows[0]["memory_bytes"]["peak_reserved"].get<std::int64_t>() >> 20) - 64;
  const nlohmann::json chosen = rows_of(automatic(too_few_mib, "4GiB"))[0];
  EXPECT_EQ(chosen["offload"], "optimizer");
  EXPECT_EQ(chosen["status"], "ok");
  EXPECT_EQ(rows_of(automatic(too_few_mib + 64, "4GiB"))[0]["offload"], "none");
  EXPECT_EQ(rows_of(automatic(64, "4GiB"))[0]["fits"], false);
  EXPECT_THAT(plan(automatic(too_few_mib, "1MiB")).output, HasSubstr("raise --host-memory"));
  // A search that finds nothing with states alone goes on.
  const auto into = [&](const std::string& memory, const std::string& offload) {
    return with({"--layers", "4", "--vocab", "512", "--batch", "1", "--fit-into", memory, "--offload", offload});
  };
  const auto fitted = [&](const std::string& offload) { return rows_of(into("220MiB", offload))[0]; };
  EXPECT_EQ(fitted("optimizer")["fits"], false);
  EXPECT_EQ(fitted("auto")["fits"], true);
  EXPECT_EQ(fitted("auto")["offload"], "optimizer,parameters");
  const auto within_host = [&](const std::string& memory, const std::string& host) {
    return with_options(into(memory, "auto"), {"--host-memory", host});
  };
  EXPECT_EQ(rows_of(within_host("900MiB", "1MiB"))[0]["offload"], "none");
  // Nothing fits; of two sets that the host has memory for, the one with the least peak.
  const nlohmann::json nearest = rows_of(within_host("240MiB", "100MiB"))[0];
  EXPECT_EQ(nearest["fits"], false);
  EXPECT_EQ(nearest["offload"], "parameters");
  EXPECT_THAT(plan(within_host("240MiB", "1MiB")).output, HasSubstr("raise --host-memory"));
  const auto forward = [&](const std::string& offload) {
    return plan(with({"--mode", "forward", "--offload", offload}));
  };
  EXPECT_THAT(
      forward("parameters,activations").error,
      HasSubstr("moves what forward saves for backward, and --mode forward has none; use forward_backward or step"));
  EXPECT_EQ(forward("parameters").exit_code, 0);
  EXPECT_THAT(
      plan(with({"--offload", "none,activations"})).error,
      HasSubstr("'none' stands alone, not in a list as in 'none,activations'; for runs of each give --offload none "
                "--offload activations"));
  EXPECT_THAT(plan(with({"--offload", "optimizer,optimizer"})).error,
              HasSubstr("'optimizer' stands twice in 'optimizer,optimizer'"));
  EXPECT_THAT(plan(with({"--offload", "optimizer,auto"})).error, HasSubstr("'auto' stands alone"));
  EXPECT_THAT(plan(with({"--offload", "optimizer,"})).error, HasSubstr("'' is unknown"));
  EXPECT_THAT(plan(with({"--offload", "weights"})).error, HasSubstr("available: none, optimizer, parameters"));
}

TEST(OffloadOptions, plans_what_each_rank_keeps_on_the_host) {
  const auto on_ranks = [](const std::vector<std::string>& more) {
    return with_options({"--model", "tiny", "--parallel", "data=2"}, more);
  };
  const auto host_of = [&](const std::string& shard) {
    return rows_of(on_ranks({"--offload", "optimizer", "--shard", shard}))[0]["memory_bytes"]["host"]
        .get<std::int64_t>();
  };
  const std::int64_t whole = rows_of({"--model", "tiny", "--offload", "optimizer"})[0]["memory_bytes"]["host"];
  EXPECT_EQ(host_of("none"), whole);
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    EXPECT_GE(host_of(shard), whole / 2) << shard;
    EXPECT_LT(host_of(shard), whole / 2 + whole / 100) << shard;
  }
  // The limit is that of one rank.
  const std::string half = std::to_string(whole / 2 + whole / 100) + "B";
  const auto limited = [&](const std::string& shard) {
    return plan(on_ranks({"--offload", "optimizer", "--host-memory", half, "--shard", shard})).output;
  };
  EXPECT_THAT(limited("none"), HasSubstr("raise --host-memory"));
  EXPECT_THAT(limited("optimizer"), Not(HasSubstr("raise --host-memory")));
  // What is offloaded is chosen for each sharding.
  const auto peak_of = [&](const std::string& shard, const std::string& offload) {
    return rows_of(on_ranks({"--shard", shard, "--offload", offload}))[0]["memory_bytes"]["peak_reserved"]
        .get<std::int64_t>();
  };
  const auto chosen = [&](std::int64_t limit) {
    return rows_of(
        on_ranks({"--shard", "auto", "--offload", "auto", "--memory-limit", std::to_string(limit) + "B"}))[0];
  };
  EXPECT_EQ(chosen(peak_of("none", "none"))["offload"], "none");
  const nlohmann::json least = chosen(peak_of("parameters", "optimizer,parameters,activations"));
  EXPECT_NE(least["offload"], "none");
  EXPECT_EQ(least["fits"], true);
  EXPECT_THAT(
      plan({"--model", "tiny", "--parallel", "data=2,bucket=auto", "--offload", "auto", "--card", "h200"}).error,
      HasSubstr("--offload auto and bucket=auto would plan for minutes"));
}

}  // namespace
}  // namespace ridgepoint
