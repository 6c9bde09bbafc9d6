// Exports of nsys, in the tables that `nsys export --type sqlite` writes.
#include <dlfcn.h>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/trace/read_trace.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class NsysExportFile : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) GTEST_SKIP() << "libsqlite3.so.0 is not here";
  }
  void make(const char* statements) const {
    void* database = nullptr;
    ASSERT_EQ(function<int(const char*, void**)>("sqlite3_open")(path().c_str(), &database), 0);
    const auto run = function<int(void*, const char*, void*, void*, char**)>("sqlite3_exec");
    EXPECT_EQ(run(database, statements, nullptr, nullptr, nullptr), 0);
    function<int(void*)>("sqlite3_close")(database);
  }
  std::string path() const { return folder_ / "report.sqlite"; }

 private:
  template <typename Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
  const TemporaryFolder folder_;
};

TEST_F(NsysExportFile, has_kernels_copies_calls_and_ranges) {
  make(R"(
    CREATE TABLE StringIds (id INTEGER, value TEXT);
    INSERT INTO StringIds VALUES (1, 'gemm<float>'), (2, 'cudaLaunchKernel_v7000'), (3, 'cudaGetDevice_v3020'), (4, 'forward');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      correlationId INTEGER, demangledName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1500, 0, 7, 11, 1), (2000, 1900, 0, 7, 12, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      correlationId INTEGER, copyKind INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 0, 7, 13, 1);
    CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, label TEXT);
    INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'Host-to-Device');
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
      nameId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 910, 281479271743489, 11, 2), (800, 810, 281479271743489, 10, 3);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (50, 5000, 59, 281479271743489, NULL, 4), (60, NULL, 59, 1, 'open', NULL);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');
  )");
  const Trace trace = read_trace(path());
  ASSERT_THAT(trace.activities, SizeIs(2));
  EXPECT_EQ(trace.names[trace.activities[0].name], "Memcpy Host-to-Device");
  EXPECT_EQ(trace.names[trace.activities[1].name], "gemm<float>");
  EXPECT_EQ(trace.activities[1].duration_ns, 500);
  EXPECT_THAT(trace.calls, SizeIs(1));
  ASSERT_THAT(trace.marks, SizeIs(1));
  EXPECT_EQ(trace.names[trace.marks[0].name], "forward");
  EXPECT_EQ(trace.marks[0].track, trace.calls[0].track);
  EXPECT_EQ(trace.fault(TraceFault::negative_duration), 1u);
  EXPECT_EQ(trace.devices.at(0).name, "NVIDIA H100");
}

TEST_F(NsysExportFile, of_a_run_without_copies_has_its_kernels) {
  make(R"(CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, demangledName INTEGER);
          INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1500, 0, 7, 11, 1);)");
  EXPECT_THAT(read_trace(path()).activities, SizeIs(1));
}

TEST_F(NsysExportFile, that_is_another_database_is_refused) {
  make("CREATE TABLE people (name TEXT);");
  EXPECT_THAT(error_of([&] { read_trace(path()); }), HasSubstr("without the tables of `nsys export --type sqlite`"));
}

}  // namespace
}  // namespace ridgepoint
