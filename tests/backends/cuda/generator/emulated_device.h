// A device without a GPU: elementwise ops, reductions and composites run the generator's CUDA C++, compiled as C++ with
// emulation_runtime.h; other ops run on the reference back end. Sources are first collected and compiled together: run
// the test's body once while collecting, call build(), then run it again for its results.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/generator/generated_batch.h"
#include "backends/cuda/generator/kernel.h"
#include "backends/cuda/generator/source.h"
#include "backends/reference/reference_device.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/forwarding_device.h"
#include "support/program/build_paths.h"

namespace ridgepoint::testing {

// Sanitizers do not support fibers, and a sanitized program cannot load code from an unsanitized compilation.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanEmulate = false;
#else
inline constexpr bool kCanEmulate = true;
#endif

// Tests on emulated kernels.
struct Emulated : ::testing::Test {
  void SetUp() override {
    if (!kCanEmulate) GTEST_SKIP() << "emulated kernels run in fibers, which sanitizers do not follow";
  }
};

using EmulatedKernel = void (*)(unsigned grid, unsigned block, void** arguments);

class Emulator {
 public:
  // `scalar`: kernels that read single elements. `at_any_address`: vectors may also be at addresses that a GPU could
  // not read.
  explicit Emulator(int multiprocessors, bool scalar = false, bool at_any_address = false)
      : multiprocessors_(multiprocessors), scalar_(scalar), at_any_address_(at_any_address) {}
  ~Emulator() {
    if (library_ != nullptr) dlclose(library_);
  }
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  int multiprocessors() const { return multiprocessors_; }
  bool scalar() const { return scalar_; }
  bool at_any_address() const { return at_any_address_; }
  bool is_gathering() const { return library_ == nullptr; }
  std::size_t source_count() const { return sources_.size(); }

  // The functions of a source's launches; null while collecting.
  std::vector<EmulatedKernel> find(const cuda::GeneratedSource& source) {
    const std::size_t number = sources_.emplace(source.text, Numbered{sources_.size(), source}).first->second.number;
    std::vector<EmulatedKernel> functions;
    for (std::size_t i = 0; i < source.launches.size(); ++i) {
      const std::string symbol = "run_" + batch_name(number, i);
      functions.push_back(is_gathering() ? nullptr : reinterpret_cast<EmulatedKernel>(dlsym(library_, symbol.c_str())));
      if (!is_gathering() && functions.back() == nullptr) throw Error("a source turned up that was not gathered");
    }
    return functions;
  }

  void build() {
    std::string text = at_any_address_ ? "#define EMULATION_AT_ANY_ADDRESS\n" : "";
    text += fmt::format("#include \"{}/tests/backends/cuda/generator/emulation_runtime.h\"\n{}",
                        source_folder().string(), cuda::generated_prelude()) +
            cuda::generated_codes() + cuda::generated_float8();
    for (const auto& [key, item] : sources_) text += renamed_kernels(item.source, item.number) + runners(item);
    const std::filesystem::path file = folder_.path() / "kernels.cpp";
    const std::filesystem::path library = folder_.path() / "kernels.so";
    write_file(file, text);
    const std::string command =
        fmt::format("{} -std=c++20 -O0 -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o {} {} 2>&1",
                    host_compiler().string(), library.string(), file.string());
    if (std::system(command.c_str()) != 0) throw Error("the emulated kernels did not compile: " + command);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw Error(dlerror());
  }

 private:
  struct Numbered {
    std::size_t number;
    cuda::GeneratedSource source;
  };

  // The code that runs each kernel of a source. Threads without barriers and shuffles need no fibers.
  static std::string runners(const Numbered& item) {
    const std::string_view kernels = kernels_of(item.source);
    std::string text;
    std::size_t from = 0;
    for (std::size_t i = 0; i < item.source.launches.size(); ++i) {
      const std::size_t end = kernels.find("extern \"C\"", kernels.find("extern \"C\"", from) + 1);
      const std::string_view body = kernels.substr(from, end - from);
      const bool alone =
          body.find("__syncthreads") == std::string::npos && body.find("across_lanes") == std::string::npos;
      from = end;
      text += fmt::format(
          "extern \"C\" void run_{0}(unsigned grid, unsigned block, void** arguments) {{\n"
          "  emulation::run([](void** a) {{ emulation::call({0}, a); }}, grid, block, arguments, {1});\n}}\n",
          batch_name(item.number, i), alone);
    }
    return text;
  }

  int multiprocessors_;
  bool scalar_;
  bool at_any_address_;
  TemporaryFolder folder_;
  std::map<std::string, Numbered> sources_;  // by text
  void* library_ = nullptr;
};

class EmulatedSequence : public Kernel {
 public:
  EmulatedSequence(Emulator& emulator, const KernelSpec& spec)
      : node_(cuda::generate_node(spec, 90, emulator.multiprocessors())),
        scalar_(emulator.scalar()),
        at_any_address_(emulator.at_any_address()) {
    for (const cuda::GeneratedSource& source : sources()) functions_.push_back(emulator.find(source));
  }

  std::string_view name() const override {
    if (sources().empty() || sources()[0].launches.empty()) return "nothing";
    return sources()[0].launches[0].entry;
  }
  // The workspace of all launches.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const cuda::GeneratedSource& source : sources()) {
      for (const cuda::GeneratedLaunch& launch : source.launches) names.push_back(launch.entry);
    }
    return names;
  }
  std::size_t workspace_bytes() const override { return node_->workspace_bytes; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t s = 0; s < sources().size(); ++s) {
      for (std::size_t i = 0; i < functions_[s].size(); ++i) run(sources()[s].launches[i], functions_[s][i], arguments);
    }
  }

 private:
  const std::vector<cuda::GeneratedSource>& sources() const { return scalar_ ? node_->scalar : node_->sources; }

  void run(const cuda::GeneratedLaunch& launch, EmulatedKernel function, const LaunchArguments& arguments) const {
    if (function == nullptr) return;
    std::vector<void*> pointers;
    for (const cuda::GeneratedParameter& parameter : launch.parameters) {
      using Kind = cuda::GeneratedParameter::Kind;
      pointers.push_back(parameter.kind == Kind::input ? arguments.inputs[parameter.index]
                         : parameter.kind == Kind::output
                             ? arguments.outputs[parameter.index]
                             : static_cast<std::byte*>(arguments.workspace) + parameter.offset_bytes);
      if (!at_any_address_ && reinterpret_cast<std::uintptr_t>(pointers.back()) % parameter.alignment_bytes != 0) {
        throw Error("an operand is not aligned as its kernel needs");
      }
    }
    function(launch.grid, launch.block, pointers.data());
  }

  std::shared_ptr<const cuda::GeneratedNode> node_;
  bool scalar_;
  bool at_any_address_;
  std::vector<std::vector<EmulatedKernel>> functions_;
};

class EmulatedDevice : public ForwardingDevice {
 public:
  explicit EmulatedDevice(Emulator& emulator) : ForwardingDevice(make_reference_device()), emulator_(emulator) {}

  std::string_view kind() const override { return "emulated"; }
  std::string name() const override { return "generated kernels on the host"; }
  void* allocate_memory(std::size_t bytes) override {
    void* memory = inner_->allocate_memory(bytes);
    if (memory != nullptr) std::memset(memory, 0x7f, bytes);  // as a float 3e38: a stale element is far from any result
    return memory;
  }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    return inner_->has_kernel(graph, node) || cuda::fits_generated(graph, node);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override { return cuda::fits_generated(graph, node); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    if (cuda::fits_generated(spec.graph, spec.node)) return std::make_unique<EmulatedSequence>(emulator_, spec);
    return inner_->make_kernel(spec);
  }

 private:
  Emulator& emulator_;
};

}  // namespace ridgepoint::testing
