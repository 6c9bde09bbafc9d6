// NVIDIA's run-time compiler, loaded at first use so that the program also runs without it.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/libraries/nvrtc_api.h"
#include "backends/cuda/libraries/shared_library.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {

// The compiler refused a source. The message has its log.
class RefusedSource : public Error {
 public:
  using Error::Error;
};

struct CompiledImage {
  std::string bytes;  // a cubin; PTX for a GPU newer than the compiler
  std::string log;
};

class Nvrtc {
 public:
  // Throws Error (unsupported) if the library is missing or too old.
  Nvrtc();

  const std::string& version() const { return version_; }  // "13.0"

  // The options that compile() passes. `architecture` is the compute capability, 10 * major + minor. Throws Error
  // (unsupported) if the compiler no longer supports such an old GPU.
  std::vector<std::string> options(int architecture, const std::vector<std::string>& more = {}) const;

  // Thread-safe. Throws RefusedSource if the source does not compile, and Error as options() does.
  CompiledImage compile(const std::string& source, const std::string& source_name, int architecture,
                        const std::vector<std::string>& more = {}) const;

 private:
  struct Functions {
#define RIDGEPOINT_NVRTC_MEMBER(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
    RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_MEMBER)
#undef RIDGEPOINT_NVRTC_MEMBER
  };
  std::string architecture_option(int architecture) const;

  SharedLibrary library_;
  Functions call_;
  std::string version_;
  std::vector<int> architectures_;  // for which it makes machine code
};

// The compiler of this process. Throws Error (unsupported) as the constructor does.
const Nvrtc& nvrtc();

}  // namespace ridgepoint::cuda
