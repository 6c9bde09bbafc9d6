// Tests that call the library on the GPU of fake_card.cpp. A process opens the driver once by name, so each body runs
// in a process of its own, which finds the fake driver first.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/needs.h"
#include "core/files/temporary_folder.h"
#include "support/program/build_paths.h"

namespace ridgepoint::testing {

class OnFakeCard : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the new process starts again at the same test
    const char* folders = std::getenv("LD_LIBRARY_PATH");
    set("LD_LIBRARY_PATH",
        built_for_tests("fake_card") + (folders == nullptr ? std::string() : ":" + std::string(folders)));
    set("XDG_CACHE_HOME", cache_home().string());
    if (const std::string why = missing_for_fake_card(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  // Until the test ends.
  void set(const char* name, const std::string& value) {
    const char* before = std::getenv(name);
    before_.try_emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name, value.c_str(), 1);
  }
  // From now on, kernels are compiled by the compiler of fake_nvrtc.cpp.
  void use_fake_compiler() {
    set("LD_LIBRARY_PATH", built_for_tests("fake_nvrtc") + ":" + std::getenv("LD_LIBRARY_PATH"));
  }
  const std::filesystem::path& cache_home() const { return cache_->path(); }

  // Runs `body` in a new process, whose failures are this test's.
  template <typename Body>
  void on_fake_card(const Body& body) {
    EXPECT_EXIT(run_and_end(body), ::testing::ExitedWithCode(0), "");
  }

  // A counter of the fake GPU, or of another fake library.
  static int fake_count(const char* function, const std::string& library = "libcuda.so.1") {
    const auto count = fake_function<int()>(function, library.c_str());
    return count == nullptr ? -1 : count();
  }

  // Calls the observer for every later piece of work of the fake GPU; null ends this.
  static void watch_card(FakeWatcher watcher) {
    const auto watch = fake_function<decltype(fake_card_watch)>("fake_card_watch");
    ASSERT_NE(watch, nullptr);
    watch(watcher);
  }

 private:
  template <typename Body>
  [[noreturn]] void run_and_end(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    const ::testing::TestResult& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int i = 0; i < result.total_part_count(); ++i) {
      const ::testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.failed()) fmt::print(stderr, "line {}: {}\n", part.line_number(), part.message());
    }
    std::fflush(nullptr);
    cache_.reset();
    std::_Exit(HasFailure() ? 1 : 0);
  }

  std::optional<TemporaryFolder> cache_{std::in_place};
  std::map<std::string, std::optional<std::string>> before_;  // of the environment
};

}  // namespace ridgepoint::testing
