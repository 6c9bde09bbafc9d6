// Networks as text, and the time of collectives over them.
#include "predict/time/network.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "predict/time/forecast_time.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(NetworkText, has_links_inside_of_a_machine_and_between_machines) {
  const Network network = network_from_text("8x NVLink 450 GB/s, 400 Gb/s InfiniBand");
  EXPECT_EQ(network.ranks_on_machine, 8);
  EXPECT_DOUBLE_EQ(network.inside.bytes_per_second, 450e9);
  ASSERT_TRUE(network.between);
  EXPECT_DOUBLE_EQ(network.between->bytes_per_second, 50e9);
}

TEST(NetworkText, takes_digits_in_names_latencies_and_missing_blanks) {
  const Network network = network_from_text("4xNVLink4 450GB/s 2us,HDR200 200Gb/s 5 us");
  EXPECT_EQ(network.ranks_on_machine, 4);
  EXPECT_DOUBLE_EQ(network.inside.bytes_per_second, 450e9);
  EXPECT_DOUBLE_EQ(network.inside.latency_seconds, 2e-6);
  ASSERT_TRUE(network.between);
  EXPECT_DOUBLE_EQ(network.between->bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(network.between->latency_seconds, 5e-6);
  EXPECT_FALSE(network_from_text("PCIe 32 GB/s").between);
  EXPECT_EQ(network_from_text("AMD xGMI 64 GB/s").ranks_on_machine, 8);
}

TEST(NetworkText, is_refused_where_it_says_no_rate) {
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{{"", "has no rate"},
                                                        {"NVLink", "has no rate"},
                                                        {"8x 450", "the number 450 without a unit"},
                                                        {"0x NVLink 450 GB/s", "has '0x' ranks on a machine"},
                                                        {"450 GB", "without a unit"},
                                                        {"450 GB/s, 50 GB/s, 1 GB/s", "more than two kinds of links"},
                                                        {"450 GB/s,", "has no rate"},
                                                        {"-3 GB/s", "has the negative number -3"},
                                                        {"-1x NVLink 450 GB/s", "has the negative number -1x"}}) {
    EXPECT_THAT(error_of([&] { network_from_text(text); }), HasSubstr(why)) << text;
  }
}

double seconds_of(const Network& network, Op op, std::int64_t ranks, std::int64_t elements) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {elements}}, Role::data);
  const NodeId node = make_node(graph, op, {x}, {{"ranks", ranks}});
  return collective_seconds(network, graph, graph.node(node));
}

// What it takes to send for `seconds` through links with a latency, beside 5.5 us for the launch.
double sending(double seconds, double latency) { return 5.5e-6 + seconds + 2 * std::sqrt(seconds * latency); }

TEST(CollectiveSeconds, are_those_of_a_ring_and_a_tree) {
  const Network network{.inside = {100e9, 1e-6}, .ranks_on_machine = 4, .between = Link{10e9, 20e-6}};
  constexpr std::int64_t kElements = 1 << 20;
  constexpr double kBytes = 4.0 * kElements;
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::all_reduce, 1, kElements), 0);
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::all_reduce, 4, kElements), sending(2 * 0.75 * kBytes / 78e9, 1e-6) + 4e-6);
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::reduce_scatter, 4, kElements), sending(0.75 * kBytes / 67e9, 1e-6) + 2e-6);
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::reduce_scatter, 16, kElements),
                   sending(15.0 / 16 * kBytes / (4 * 8.5e9), 20e-6) + 42e-6);
}

// Every byte comes to each machine, also to one that is not full.
TEST(CollectiveSeconds, are_those_of_the_links_of_the_machine_with_the_fewest_ranks) {
  const Network network{.inside = {100e9, 1e-6}, .ranks_on_machine = 4, .between = Link{10e9, 20e-6}};
  constexpr std::int64_t kElements = 1 << 20;
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::all_gather, 5, kElements),
                   sending(4.0 * 4 * kElements / 8.5e9, 20e-6) + 22e-6);
  EXPECT_DOUBLE_EQ(seconds_of(network, Op::all_gather, 6, kElements),
                   sending(5.0 * 4 * kElements / (2 * 8.5e9), 20e-6) + 22e-6);
}

// What was measured with NVLink says nothing of slower links.
TEST(CollectiveSeconds, are_twice_those_of_a_half_where_links_are_slow) {
  const Network slow{.inside = {20e9, 0}}, fast{.inside = {450e9, 0}};
  const auto ratio = [](const Network& network) {
    return seconds_of(network, Op::all_reduce, 8, 1 << 26) / seconds_of(network, Op::reduce_scatter, 8, 1 << 26);
  };
  EXPECT_NEAR(ratio(slow), 2, 0.01);
  EXPECT_LT(ratio(fast), 1.8);
}

// NCCL 2.28 by itself between two H200s; `mib` of the larger side.
TEST(CollectiveSeconds, are_near_what_two_h200s_measured) {
  struct Measured {
    Op op;
    std::int64_t mib;
    double us;
  };
  const Network network = *network_of_card(find_datasheet("H200 SXM")->link_bytes_per_second);
  for (const auto& [op, mib, us] :
       {Measured{Op::all_reduce, 4, 33.8}, Measured{Op::all_reduce, 16, 79.5}, Measured{Op::all_reduce, 64, 251.6},
        Measured{Op::all_reduce, 256, 895.5}, Measured{Op::all_reduce, 1024, 3240},
        Measured{Op::reduce_scatter, 4, 24.4}, Measured{Op::reduce_scatter, 16, 51.7},
        Measured{Op::reduce_scatter, 64, 161.2}, Measured{Op::reduce_scatter, 256, 565.7},
        Measured{Op::reduce_scatter, 1024, 1943}, Measured{Op::all_gather, 4, 26.6}, Measured{Op::all_gather, 16, 54.6},
        Measured{Op::all_gather, 64, 157.5}, Measured{Op::all_gather, 256, 548.3},
        Measured{Op::all_gather, 1024, 1974}}) {
    const std::int64_t elements = (mib << 20) / 4 / (op == Op::all_gather ? 2 : 1);
    EXPECT_NEAR(1e6 * seconds_of(network, op, 2, elements), us, 0.08 * us) << name(op) << ' ' << mib;
  }
}

TEST(CollectiveSeconds, need_links_between_machines_where_there_are_several) {
  const Network network{.inside = {100e9, 1e-6}, .ranks_on_machine = 4};
  EXPECT_THAT(error_of([&] { seconds_of(network, Op::all_reduce, 5, 20); }), HasSubstr("5 ranks need 2 machines of 4"));
}

// A step of two ranks on H200s.
TimeForecast forecast(double bytes_per_second, const ParallelOptions& parallel, std::vector<std::string> skip = {}) {
  const Transformer workload(transformer_preset("small"), 16);
  const Datasheet& card = *find_datasheet("H200 SXM");
  CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
  options.parallel = parallel;
  options.skip = std::move(skip);
  const std::shared_ptr<Device> device =
      open_device("null", {.threads = 0, .memory_limit_bytes = {}, .card = describe_card(card)});
  const ProgramPlan plan(workload.build(), device, {.compile = options});
  return *forecast_time(plan, Compile::full, card, Network{.inside = {bytes_per_second, 1e-6}}).forecast;
}

TimeForecast forecast(double bytes_per_second, Sharding shard = Sharding::none) {
  return forecast(bytes_per_second, {.data = 2, .shard = shard});
}

TEST(ForecastOfRanks, exposes_all_that_is_sent_behind_backward) {
  for (const std::int64_t bucket : {kEachGradient, std::int64_t{10'000'000}, kBucketBytes, kAllGradients}) {
    const TimeForecast beside = forecast(450e9, {.data = 2, .bucket_bytes = bucket});
    const TimeForecast behind = forecast(450e9, {.data = 2, .bucket_bytes = bucket, .overlap = false});
    EXPECT_NEAR(behind.exposed_ms, behind.communication_ms, 1e-9) << bucket;
    EXPECT_GE(behind.exposed_ms, beside.exposed_ms) << bucket;
    EXPECT_LE(behind.communication_ms, beside.communication_ms) << "no kernel slows it down: " << bucket;
    EXPECT_EQ(behind.error, std::nullopt);
  }
}

TEST(ForecastOfRanks, hides_what_a_fast_network_sends_behind_backward) {
  const TimeForecast fast = forecast(450e9);
  EXPECT_GT(fast.communication_ms, 0);
  EXPECT_LT(fast.exposed_ms, 0.3 * fast.communication_ms);
  const TimeForecast slow = forecast(1e9);
  EXPECT_GT(slow.exposed_ms, 0.9 * slow.communication_ms - fast.ms);
  EXPECT_GT(slow.ms - slow.exposed_ms, fast.ms - fast.exposed_ms) << "collectives slow kernels longer";
  double sum = 0;
  for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward, Phase::optimizer})
    sum += slow.by_phase[phase].value_or(0);
  EXPECT_NEAR(sum, slow.ms, 1e-9 * slow.ms);
}

TEST(ForecastOfRanks, waits_in_backward_where_only_two_buckets_may_be_in_flight) {
  const auto backward = [](const TimeForecast& forecast) { return forecast.by_phase[Phase::backward].value_or(0); };
  // Updates beside backward would wait there for their sums.
  const TimeForecast optimizer = forecast(1e9, {.data = 2, .shard = Sharding::optimizer}, {"spread_updates"});
  const TimeForecast gradients = forecast(1e9, {.data = 2, .shard = Sharding::gradients}, {"spread_updates"});
  EXPECT_GT(backward(gradients), backward(optimizer) + 0.2 * gradients.communication_ms);
  EXPECT_GE(gradients.ms, optimizer.ms * (1 - 1e-9));
  EXPECT_LE(gradients.communication_ms, optimizer.communication_ms * (1 + 1e-9)) << "fewer kernels run beside them";
}

}  // namespace
}  // namespace ridgepoint
