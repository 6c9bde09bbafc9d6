// Converts CUPTI's records to activities, without CUPTI.
#include "backends/cuda/profiling/cupti_records.h"

#include "support/matchers.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::int64_t kOffsetNs = -1'000'000;

// Timestamps of the records are this much ahead of the steady clock's.
std::uint64_t stamp(std::int64_t steady_ns) { return static_cast<std::uint64_t>(steady_ns - kOffsetNs); }

template <typename Record>
void add(CuptiRecords& records, const Record& record) {
  records.add(reinterpret_cast<const CUpti_Activity&>(record));
}

CUpti_ActivityKernel9 kernel(std::uint32_t correlation, std::int64_t start_ns, std::int64_t end_ns) {
  CUpti_ActivityKernel9 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = "k";
  record.start = stamp(start_ns);
  record.end = stamp(end_ns);
  record.correlationId = correlation;
  return record;
}

void add_call(CuptiRecords& records, CUpti_ActivityKind kind, std::uint32_t correlation, std::int64_t start_ns,
              std::int64_t end_ns) {
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.start = stamp(start_ns);
  record.end = stamp(end_ns);
  record.correlationId = correlation;
  add(records, record);
}

void add_link(CuptiRecords& records, std::uint32_t correlation, std::uint64_t external) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  record.externalId = external;
  record.correlationId = correlation;
  add(records, record);
}

const std::vector<HostLaunch> kLaunches = {{0, 0, 1000, 2000}, {0, 1, 2100, 3000}, {1, 0, 5000, 6000}};

TEST(CuptiRecords, follow_a_kernel_to_its_launch_by_external_correlation) {
  CuptiRecords records(kOffsetNs);
  add_link(records, 11, 2);
  add_call(records, CUPTI_ACTIVITY_KIND_DRIVER, 11, 5100, 5200);
  add(records, kernel(11, 7000, 7500));
  const std::vector<Activity> found = records.activities(kLaunches);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].run, 1U);
  EXPECT_EQ(found[0].launch, 0U);
  EXPECT_EQ(found[0].start_ns, 7000) << "in steady nanoseconds";
  EXPECT_EQ(found[0].duration_ns, 500);
  EXPECT_EQ(found[0].call_start_ns, 5100);
  EXPECT_EQ(found[0].call_duration_ns, 100);
}

TEST(CuptiRecords, follow_a_kernel_of_a_captured_run_to_its_launch_by_its_graph_node) {
  const std::vector<HostLaunch> runs = {{0, kNoLaunch, 1000, 2000}, {1, kNoLaunch, 5000, 6000}};
  const GraphNodes nodes = {{70, 0}, {71, 1}};
  CuptiRecords records(kOffsetNs);
  add_link(records, 11, 1);
  for (const std::uint64_t node : {70, 71, 72}) {
    CUpti_ActivityKernel9 record = kernel(11, 7000 + static_cast<std::int64_t>(node), 7100);
    record.graphNodeId = node;
    add(records, record);
  }
  const std::vector<Activity> found = records.activities(runs, nodes);
  ASSERT_THAT(found, SizeIs(3));
  for (const Activity& activity : found) EXPECT_EQ(activity.run, 1U);
  EXPECT_EQ(found[0].launch, 0U);
  EXPECT_EQ(found[1].launch, 1U);
  EXPECT_EQ(found[2].launch, kNoLaunch) << "its node is unknown";
  EXPECT_EQ(records.launches_heard_of(runs, nodes), 3U);
}

TEST(CuptiRecords, come_in_any_order) {
  CuptiRecords records(kOffsetNs);
  add(records, kernel(12, 9000, 9100));
  add(records, kernel(11, 7000, 7500));
  add_link(records, 12, 1);
  add_link(records, 11, 0);
  const std::vector<Activity> found = records.activities(kLaunches);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].launch, 0U);
  EXPECT_EQ(found[1].launch, 1U);
}

TEST(CuptiRecords, fall_back_on_when_the_call_was_made) {
  CuptiRecords records(kOffsetNs);
  add_call(records, CUPTI_ACTIVITY_KIND_RUNTIME, 11, 2099, 2400);  // the clocks may differ by less than a call takes
  add(records, kernel(11, 7000, 7500));
  add_call(records, CUPTI_ACTIVITY_KIND_RUNTIME, 12, 3500, 3600);  // between launches
  add(records, kernel(12, 8000, 8500));
  const std::vector<Activity> found = records.activities(kLaunches);
  EXPECT_EQ(found[0].launch, 1U);
  EXPECT_EQ(found[1].launch, kNoLaunch);
  EXPECT_EQ(found[1].call_start_ns, 3500);
}

TEST(CuptiRecords, leave_a_kernel_without_any_link_unplaced) {
  CuptiRecords records(kOffsetNs);
  add(records, kernel(11, 7000, 7500));
  add_link(records, 12, 99);
  add(records, kernel(12, 8000, 8500));
  const std::vector<Activity> found = records.activities(kLaunches);
  ASSERT_THAT(found, SizeIs(2));
  for (const Activity& activity : found) {
    EXPECT_EQ(activity.launch, kNoLaunch);
    EXPECT_EQ(activity.run, kNoRun);
  }
}

TEST(CuptiRecords, count_the_launches_that_have_been_heard_of) {
  CuptiRecords records(kOffsetNs);
  EXPECT_EQ(records.launches_heard_of(kLaunches), 0U);
  add_link(records, 11, 2);
  add_link(records, 12, 2);
  add(records, kernel(11, 7000, 7500));
  add(records, kernel(12, 8000, 8500));
  EXPECT_EQ(records.launches_heard_of(kLaunches), 1U);
}

TEST(CuptiRecords, take_the_outer_of_two_calls_that_share_an_id) {
  CuptiRecords records(kOffsetNs);
  add_call(records, CUPTI_ACTIVITY_KIND_DRIVER, 11, 1200, 1300);
  add_call(records, CUPTI_ACTIVITY_KIND_RUNTIME, 11, 1100, 1400);
  add(records, kernel(11, 7000, 7500));
  const std::vector<Activity> found = records.activities(kLaunches);
  EXPECT_EQ(found[0].call_start_ns, 1100);
  EXPECT_EQ(found[0].call_duration_ns, 300);
}

TEST(CuptiRecords, keep_a_kernels_shape) {
  CuptiRecords records(kOffsetNs);
  CUpti_ActivityKernel9 record = kernel(1, 10, 20);
  record.gridX = 3, record.gridY = 2, record.gridZ = 1;
  record.blockX = 256, record.blockY = record.blockZ = 1;
  record.registersPerThread = 77;
  record.staticSharedMemory = 100;
  record.dynamicSharedMemory = 28;
  record.streamId = 13;
  add(records, record);
  const Activity found = records.activities(kLaunches).at(0);
  EXPECT_EQ(found.grid, (std::array{3, 2, 1}));
  EXPECT_EQ(found.block, (std::array{256, 1, 1}));
  EXPECT_EQ(found.registers, 77);
  EXPECT_EQ(found.shared_bytes, 128);
  EXPECT_EQ(found.stream, 13U);
}

TEST(CuptiRecords, tell_fills_and_copies_from_kernels) {
  CuptiRecords records(kOffsetNs);
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.start = stamp(100);
  fill.end = stamp(110);
  add(records, fill);
  CUpti_ActivityMemcpy5 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.start = stamp(200);
  copy.end = stamp(230);
  add(records, copy);
  const std::vector<Activity> found = records.activities(kLaunches);
  EXPECT_EQ(found[0].kind, ActivityKind::fill);
  EXPECT_EQ(found[1].kind, ActivityKind::copy);
  EXPECT_EQ(found[1].name, "copy device to host");
  EXPECT_EQ(found[1].duration_ns, 30);
}

TEST(CuptiRecords, count_kernels_that_the_device_had_no_room_to_time) {
  CuptiRecords records(kOffsetNs);
  CUpti_ActivityKernel9 record = kernel(1, 10, 20);
  record.end = 0;
  add(records, record);
  EXPECT_THAT(records.activities(kLaunches), SizeIs(0));
  EXPECT_EQ(records.untimed(), 1U);
}

TEST(KernelName, reads_as_a_person_would_write_it) {
  EXPECT_EQ(readable_kernel_name("_ZN7cutlass6KernelINS_4GemmILi128EEEEEvNS_6ParamsE"),
            "cutlass::Kernel<cutlass::Gemm<128> >");
  EXPECT_EQ(readable_kernel_name("add_vector"), "add_vector");
  EXPECT_EQ(readable_kernel_name(nullptr), "");
}

}  // namespace
}  // namespace ridgepoint::cuda
