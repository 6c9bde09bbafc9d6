#include "backends/cuda/driver/kernel_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "backends/cuda/card.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/needs.h"
#include "core/files/disk_cache.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/warning.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr const char* kSource = "extern \"C\" __global__ void nothing() {}";

class KernelCache : public testing::WithNvrtc<> {
 protected:
  void SetUp() override {
    testing::WithNvrtc<>::SetUp();
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  std::filesystem::path only_entry() const {
    std::vector<std::filesystem::path> entries;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "ridgepoint/kernels"))
      entries.push_back(entry.path());
    EXPECT_EQ(entries.size(), 1U);
    return entries.at(0);
  }

  TemporaryFolder folder_;
};

TEST_F(KernelCache, compiles_a_source_once_for_all_processes) {
  const std::string image = cuda::compiled_image(kSource, "nothing", 90);
  const auto written = std::filesystem::last_write_time(only_entry());
  EXPECT_EQ(cuda::compiled_image(kSource, "nothing", 90), image);
  EXPECT_EQ(std::filesystem::last_write_time(only_entry()), written);
}

TEST_F(KernelCache, keeps_architectures_apart) {
  const std::string hopper = cuda::compiled_image(kSource, "nothing", 90);
  const std::string ampere = cuda::compiled_image(kSource, "nothing", 80);
  EXPECT_NE(hopper, ampere);
  EXPECT_EQ(cuda::compiled_image(kSource, "nothing", 90), hopper);
}

TEST_F(KernelCache, compiles_again_what_was_cut_short_or_altered) {
  const std::string image = cuda::compiled_image(kSource, "nothing", 90);
  const std::string entry = read_file(only_entry(), 1 << 20);
  std::string altered = entry;
  altered[altered.size() / 2 + 100] ^= 1;
  for (const std::string& damaged : {entry.substr(0, entry.size() / 2), std::string(), altered}) {
    write_file(only_entry(), damaged);
    EXPECT_EQ(cuda::compiled_image(kSource, "nothing", 90), image);
    EXPECT_EQ(read_file(only_entry(), 1 << 20), entry);
  }
}

TEST_F(KernelCache, works_with_one_warning_where_nothing_can_be_written) {
  write_file(folder_ / "ridgepoint", "a file where the folder should be");
  int warnings = 0;
  set_warning_handler([&](std::string_view) { ++warnings; });
  EXPECT_FALSE(cuda::compiled_image(kSource, "nothing", 90).empty());
  EXPECT_FALSE(cuda::compiled_image(kSource, "nothing", 80).empty());
  set_warning_handler({});
  EXPECT_EQ(warnings, 1);
}

TEST_F(KernelCache, hands_a_background_compilers_error_to_who_waits) {
  const auto image = cuda::compile_in_background("this is no source", "broken", 90);
  EXPECT_THROW(image.get(), Error);
  EXPECT_FALSE(cuda::compile_in_background(kSource, "nothing", 90).get().empty());
}

// The key of a cache entry, from its file.
std::string key_of(const std::filesystem::path& entry) {
  const std::string text = read_file(entry, 1 << 20);
  std::size_t bytes = 0;
  EXPECT_EQ(std::sscanf(text.c_str(), "ridgepoint cache 1 %zu", &bytes), 1);
  return text.substr(text.find('\n') + 1, bytes);
}

TEST_F(KernelCache, knows_the_compiler_and_its_options) {
  cuda::compiled_image(kSource, "nothing", 90);
  const std::string key = key_of(only_entry());
  for (const std::string& part : {cuda::nvrtc().version(), std::string("--gpu-architecture=sm_90a"),
                                  std::string("--std=c++17"), std::string("--minimal"), std::string(kSource)}) {
    EXPECT_THAT(key, HasSubstr(part));
  }
}

// Replaces a kernel's cached code by data that no driver accepts, and loads the kernel.
void expect_refused_code_is_replaced(cuda::CudaContext& card, const std::filesystem::path& cache_home) {
  const std::string image = cuda::compiled_image(kSource, "nothing", card.card().capability.number());
  const DiskCache cache(cache_home, "kernels");
  const std::string key = key_of(*std::filesystem::directory_iterator(cache.path_of("any").parent_path()));
  ASSERT_EQ(cache.load(key), image);
  cache.store(key, "of another time");
  EXPECT_NE(cuda::LoadedSource::open(card, kSource, "nothing")->function("nothing"), nullptr);
  EXPECT_EQ(cache.load(key), image);
}

class OnCardKernelCache : public KernelCache {};

TEST_F(OnCardKernelCache, code_that_the_driver_refuses_is_compiled_again_and_replaced) {
  if (const std::string why = testing::missing_card(); !why.empty()) GTEST_SKIP() << why;
  expect_refused_code_is_replaced(cuda::CudaContext::of_card(0), folder_.path());
}

class KernelCacheOnFakeCard : public testing::OnFakeCard {};

TEST_F(KernelCacheOnFakeCard, code_that_the_driver_refuses_is_compiled_again_and_replaced) {
  on_fake_card([&] {
    auto& card = cuda::CudaContext::of_card(0);  // before the compiler opens the GPU
    expect_refused_code_is_replaced(card, cache_home());
  });
}

TEST_F(KernelCacheOnFakeCard, code_is_unloaded_with_its_last_owner_unless_it_is_kept) {
  set("FAKE_CARD_MODULE_BYTES", "1048576");
  on_fake_card([] {
    auto& card = cuda::CudaContext::of_card(0);
    const auto used_mib = [&, before = card.memory_info().free_bytes] {
      return (before - card.memory_info().free_bytes) >> 20;
    };
    const auto load = [&] {
      auto source = cuda::LoadedSource::open(card, kSource, "nothing");
      source->function("nothing");
      EXPECT_EQ(used_mib(), 1U);
      return source;
    };
    load().reset();
    EXPECT_EQ(used_mib(), 0U);
    auto source = load();
    cuda::LoadedSource::keep_loaded();
    source.reset();
    EXPECT_EQ(used_mib(), 1U);
    load().reset();
    EXPECT_EQ(used_mib(), 1U);
  });
}

// Code of another compiler or GPU stays unused on disk, and is used again where it fits.
TEST_F(KernelCacheOnFakeCard, compiles_once_for_each_version_of_the_compiler_and_each_architecture) {
  use_fake_compiler();
  // The new processes share the folder that the first process makes.
  std::optional<TemporaryFolder> folder;
  if (std::getenv("SHARED_CACHE_HOME") == nullptr) set("SHARED_CACHE_HOME", folder.emplace().path().string());
  set("XDG_CACHE_HOME", std::getenv("SHARED_CACHE_HOME"));
  const auto compilations = [this](const char* minor, int architecture, int expected) {
    set("FAKE_NVRTC_MINOR", minor);
    on_fake_card([architecture, expected] {
      const std::string image = cuda::compiled_image(kSource, "nothing", architecture);
      EXPECT_THAT(image, HasSubstr(architecture == 90 ? "sm_90a" : "sm_80"));
      EXPECT_EQ(fake_count("fake_nvrtc_compilations", cuda::toolkit_library("nvrtc")), expected);
    });
  };
  compilations("0", 90, 1);
  compilations("0", 90, 0);
  compilations("1", 90, 1);
  compilations("0", 90, 0);
  compilations("0", 80, 1);
}

TEST_F(KernelCacheOnFakeCard, code_that_the_driver_refuses_twice_is_an_error_that_names_the_kernel) {
  set("FAKE_CARD_REFUSES_IMAGES", "1");
  on_fake_card([] {
    auto& card = cuda::CudaContext::of_card(0);
    EXPECT_THAT(error_of([&] { cuda::LoadedSource::open(card, kSource, "nothing")->function("nothing"); }),
                HasSubstr("load the kernels of nothing"));
  });
}

}  // namespace
}  // namespace ridgepoint
