// From generated source to functions on a GPU: NVRTC compiles each source once for each architecture, on background
// threads; the code is cached on disk for later processes and loaded once for each context.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

// The machine code of a source, from the user's disk cache or from the compiler (nvrtc.h documents its errors). `name`
// is for messages.
std::string compiled_image(const std::string& source, const std::string& name, int architecture);
// The same, but always compiled; the new code replaces the cached one.
std::string recompiled_image(const std::string& source, const std::string& name, int architecture);

// The state of a queued source. A compiler thread begins it, or its owner gives it up; the first of the two decides.
enum class Compilation : std::uint8_t { queued, begun, given_up };

// The same as compiled_image() on a background thread; there is one for each usable processor, at most 32. Throws Error
// (unsupported) at once if there is no compiler. A source that is given up while queued is not compiled, and the result
// is empty.
std::shared_future<std::string> compile_in_background(std::string source, std::string name, int architecture,
                                                      std::shared_ptr<std::atomic<Compilation>> state = nullptr);

// The code of a source on a GPU.
class LoadedSource {
 public:
  // Starts to compile, or shares the code if this process already has the source for that GPU.
  static std::shared_ptr<LoadedSource> open(CudaContext& context, const std::string& source, const std::string& name);

  // From now on until the process ends, the code of all sources that is loaded now stays loaded.
  static void keep_loaded();

  LoadedSource(CudaContext& context, const std::string& source, const std::string& name);
  // Gives the code up. Waits if its compilation has begun, because NVRTC must not be running when the process ends.
  ~LoadedSource();
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;

  // Waits for the compiler, then loads the module if necessary. Code that the driver refuses (it may come from the disk
  // cache) is compiled again, once. Throws Error.
  CUfunction function(const std::string& entry);

 private:
  std::unique_ptr<Module> load() const;

  CudaContext& context_;
  std::string source_;
  std::string name_;
  std::shared_ptr<std::atomic<Compilation>> compilation_ =
      std::make_shared<std::atomic<Compilation>>(Compilation::queued);
  std::shared_future<std::string> image_;
  std::mutex mutex_;
  std::unique_ptr<Module> module_;
};

}  // namespace ridgepoint::cuda
