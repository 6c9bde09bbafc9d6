// From generated source to functions on a card: compiled once for each source and architecture by NVRTC, on several
// threads in the background, kept on disk for later processes, loaded once for each context.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

// The machine code of a source, from the user's disk cache or from the compiler (nvrtc.h says what it throws).
// `name` is for messages.
std::string compiled_image(const std::string& source, const std::string& name, int architecture);
// The same from the compiler, whatever the cache holds, which keeps the new code instead.
std::string recompiled_image(const std::string& source, const std::string& name, int architecture);

// Whose turn it is to say what becomes of a source in the queue: the compiler's, which begins, or the owner's, who
// gives up. The first to say so decides.
enum class Compilation : std::uint8_t { queued, begun, given_up };

// The same on one of the compiler's threads: as many as there are processors to use, 32 at most. Throws Error
// (unsupported) at once when there is no compiler. A source that is given up before its turn is not compiled: the
// result is empty.
std::shared_future<std::string> compile_in_background(std::string source, std::string name, int architecture,
                                                      std::shared_ptr<std::atomic<Compilation>> state = nullptr);

// A source's code on a card.
class LoadedSource {
 public:
  // Begins to compile, unless this process already has the source on that card: then all share it.
  static std::shared_ptr<LoadedSource> open(CudaContext& context, const std::string& source, const std::string& name);

  LoadedSource(CudaContext& context, const std::string& source, const std::string& name);
  // Gives the code up; waits only where its compilation has begun, for the compiler does not survive the end of the
  // process at work.
  ~LoadedSource();
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;

  // Waits for the compiler, then loads the module if nobody has. Code that the driver refuses, as it may refuse what
  // the cache kept, is compiled again, once. Throws Error.
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
