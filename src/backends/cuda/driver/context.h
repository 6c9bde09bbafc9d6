// What the kernels of the CUDA back end share: one card, its context, its stream, its modules.
//
// There is one CudaContext a card and process, made on first use and kept until the process ends: making one takes
// a third of a second, and tearing one down at exit races with the driver's own end. All work goes to its one
// stream, in order. Methods may be called from any thread; launches from two threads interleave in some order.
//
// The program around this library may use cards too, and PyTorch's current device is the thread's current context: no
// method here leaves another context behind than it found.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backends/cuda/driver/driver.h"

namespace ridgepoint::cuda {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  int number() const { return 10 * major + minor; }  // 90
};

// What the card says of itself.
struct CardFacts {
  int ordinal = 0;
  std::string name;  // "NVIDIA H200"
  ComputeCapability capability;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // after opting in, above 48 KiB
  std::size_t shared_bytes_per_multiprocessor = 0;
  int threads_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
};

// Throws Error (unsupported) without a driver; Error (usage) when there is no such card, saying how many there are.
CardFacts card_facts(int ordinal);
// Throws Error (unsupported) for a card older than sm_80.
void require_supported(const CardFacts& card);

struct LaunchShape {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;  // dynamic; above 48 KiB the function must have been told by allow_shared()
};

// A loaded cubin, fatbin or PTX text (NUL-terminated). Unloads at the end; the context outlives it.
class Module {
 public:
  // `name` is for messages. Throws Error when the card cannot run any code in the image.
  Module(class CudaContext& context, const void* image, std::string name);
  // The same, but null when the driver refuses the image itself: it is damaged, or made for another card or driver.
  static std::unique_ptr<Module> load_unless_refused(CudaContext& context, const void* image, std::string name);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Throws Error when the module has no such function (extern "C" name or mangled).
  CUfunction function(const char* function_name) const;

 private:
  Module(CudaContext& context, CUmodule module, std::string name)
      : context_(context), module_(module), name_(std::move(name)) {}

  CudaContext& context_;
  CUmodule module_ = nullptr;
  std::string name_;
};

class CudaContext {
 public:
  // The context of card `ordinal`. Throws what card_facts() and require_supported() do, and Error when the card's
  // memory is too full for a context.
  static CudaContext& of_card(int ordinal);

  const Driver& driver() const { return driver_; }
  const CardFacts& card() const { return card_; }
  CUdevice device() const { return device_; }
  CUstream stream() const { return stream_; }

  // For as long as one lives, the context is the calling thread's; then what was before it is again. Every method of
  // this folder has its own; one around many calls makes theirs free. The embedding program's code must not run
  // meanwhile on the thread, for what it would make current is not seen.
  class Scope {
   public:
    // Throws Error when the driver does not switch.
    explicit Scope(const CudaContext& context) {
      if (entered_ != &context) [[unlikely]]
        enter(context);
    }
    // The same for destructors, without an exception: after an error that the card does not recover from nothing can be
    // given back, and nothing needs to be.
    Scope(const CudaContext& context, std::nothrow_t) noexcept {
      if (entered_ != &context) try_enter(context);
    }
    ~Scope() {
      if (has_entered_) [[unlikely]]
        leave();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void enter(const CudaContext& context);
    CUresult try_enter(const CudaContext& context) noexcept;
    void leave() noexcept;

    // The context of this thread's innermost scope.
    static constinit inline thread_local const CudaContext* entered_ = nullptr;

    const CudaContext* outer_ = nullptr;
    const Driver* driver_ = nullptr;
    bool has_entered_ = false;
    bool has_pushed_ = false;
  };

  // Launches on the stream; an empty grid is an error. `arguments` points to one pointer a kernel parameter.
  // Asynchronous: an error of the kernel itself is thrown by a later call. `name` is for messages.
  void launch(CUfunction function, const LaunchShape& shape, void** arguments, const char* name) const {
    const Scope scope(*this);
    check(driver_.cuLaunchKernel(function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y,
                                 shape.block_z, shape.shared_bytes, stream_, arguments, nullptr),
          "launch the kernel", name);
  }
  // The same, a cooperative launch: all blocks run at once, so that each may wait for any other. Throws Error when they
  // do not fit on the card together.
  void launch_together(CUfunction function, const LaunchShape& shape, void** arguments, const char* name) const {
    const Scope scope(*this);
    check(driver_.cuLaunchCooperativeKernel(function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                            shape.block_y, shape.block_z, shape.shared_bytes, stream_, arguments),
          "launch the kernel", name);
  }
  void fill_zero(void* device_address, std::size_t bytes) const;  // on the stream
  void synchronize() const;

  // Lets a function take `bytes` of dynamic shared memory.
  void allow_shared(CUfunction function, std::size_t bytes) const;

  // A function of one of the images that were compiled into this program from kernels/<image>.cu (kernel_images.h),
  // loaded on first use and kept. Throws Error when either does not exist.
  CUfunction kernel(std::string_view image, const char* function_name);

  // Memory apart from the allocator, for measurements. Null when the card has no room.
  void* allocate(std::size_t bytes) const;
  void release(void* device_address) const noexcept;

  struct MemoryInfo {
    std::size_t free_bytes = 0;  // on the whole card, whoever holds the rest
    std::size_t total_bytes = 0;
  };
  MemoryInfo memory_info() const;
  // In use on the whole card when this context had just been made: the context itself and other processes.
  std::size_t used_at_start_bytes() const { return used_at_start_bytes_; }

  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext() = delete;

 private:
  explicit CudaContext(int ordinal);
  void start();

  const Driver& driver_;
  CardFacts card_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::size_t used_at_start_bytes_ = 0;
  std::mutex modules_mutex_;
  std::map<std::string, std::unique_ptr<Module>, std::less<>> modules_;
};

}  // namespace ridgepoint::cuda
