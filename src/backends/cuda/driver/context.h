// One GPU with its context, its stream and its modules, which all kernels of the CUDA back end share.
//
// A process has one CudaContext for each GPU, made at first use and kept until the process ends: creating one takes a
// third of a second, and destroying one at exit races with the driver's own shutdown. All kernels but updates beside
// backward go to its one stream, in order. Any thread may call the methods; launches from two threads interleave in
// some order.
//
// The calling program may use CUDA too (PyTorch's current device is the thread's current context), so every method
// restores the context that was current before.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "backends/cuda/driver/graph_edits.h"
#include "backends/cuda/libraries/driver.h"

namespace ridgepoint::cuda {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  int number() const { return 10 * major + minor; }  // 90
};

// That of the oldest GPU that the kernels run on: 8.0 (Ampere).
inline constexpr int kLeastCapability = 80;

// The GPU's properties, as the driver reports them.
struct CardFacts {
  int ordinal = 0;
  std::string name;        // "NVIDIA H200"
  std::string pci_bus_id;  // "00000000:19:00.0"; empty for a card that is only described
  ComputeCapability capability;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // with the opt-in above 48 KiB
  int architecture = 0;                    // of code that is compiled for it: its own, whatever it is held to
};

// The shared memory that a block can have, the opt-in above 48 KiB included.
std::size_t shared_bytes_per_block(const ComputeCapability& capability);

// A test switch: the variants and the shared memory of a GPU are those of this compute capability ("8.6").
inline constexpr const char* kCapabilityVariable = "RIDGEPOINT_CUDA_CAPABILITY";
// Throws Error (usage) for one that is higher than the GPU's or not known.
void hold_to_capability(CardFacts& card, std::string_view capability);

// As kCapabilityVariable holds it. Throws Error (unsupported) without a driver; Error (usage) with the number of GPUs
// if there is no GPU `ordinal`.
CardFacts card_facts(int ordinal);
// Throws Error (unsupported) for a GPU older than sm_80.
void require_supported(const CardFacts& card);
// Throws Error (unsupported) in a build that has no kernel images.
void require_kernels();

struct LaunchShape {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;  // dynamic; more than 48 KiB need a call of allow_shared()
  // Whether the kernel itself waits for the previous one (griddepcontrol.wait) before it touches memory, so that its
  // blocks may start earlier (programmatic dependent launch).
  bool waits_by_itself = false;
};

// A loaded cubin, fatbin or PTX text (NUL-terminated). The destructor unloads it; the context must outlive it.
class Module {
 public:
  // `name` is for messages. Throws Error if the GPU cannot run any code in the image.
  Module(class CudaContext& context, const void* image, std::string name);
  // The same, but null if the driver refuses the image: it is damaged, or made for another GPU or driver.
  static std::unique_ptr<Module> load_unless_refused(CudaContext& context, const void* image, std::string name);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Throws Error if the module has no such function (extern "C" name or mangled name).
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
  // The context of GPU `ordinal`. Throws as card_facts() and require_supported() do, and Error if the GPU has too
  // little free memory for a context.
  static CudaContext& of_card(int ordinal);

  const Driver& driver() const { return driver_; }
  const CardFacts& card() const { return card_; }
  CUdevice device() const { return device_; }
  // That on which this thread launches.
  CUstream stream() const { return OnStream::current_ != nullptr ? OnStream::current_ : stream_; }
  bool is_on_side_stream() const { return OnStream::current_ != nullptr; }
  // The priority of the stream: above that of the side streams, where the GPU has priorities.
  int stream_priority() const { return stream_priority_; }
  // Streams of lower priority for work beside that on the stream: copies of checkpoints and of transfers in each
  // direction, which two engines make at the same time, and updates. Each is made at first use and kept.
  enum class SideStream : std::uint8_t { checkpoints, from_host, to_host, updates };
  CUstream side_stream(SideStream which);

  // Makes the context current for the calling thread, and restores the previous one at the end. Every method of this
  // folder has its own Scope; an outer Scope around many calls makes theirs free. Code of the calling program must not
  // run on the thread meanwhile, because a context that it makes current would not be noticed.
  class Scope {
   public:
    // Throws Error if the driver cannot switch.
    explicit Scope(const CudaContext& context) {
      if (entered_ != &context) [[unlikely]]
        enter(context);
    }
    // The same for destructors, without an exception: after an unrecoverable CUDA error nothing can be released.
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

  // Launches of this thread go to a side stream instead, until the end.
  class OnStream {
   public:
    explicit OnStream(CUstream stream) : outer_(std::exchange(current_, stream)) {}
    ~OnStream() { current_ = outer_; }
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

   private:
    friend class CudaContext;
    static constinit inline thread_local CUstream current_ = nullptr;

    CUstream outer_;
  };

  // Launches on the stream; an empty grid is an error. `arguments` has one pointer for each kernel parameter.
  // Asynchronous: a later call throws an error of the kernel itself. `name` is for messages.
  void launch(CUfunction function, const LaunchShape& shape, void** arguments, const char* name) const {
    const Scope scope(*this);
    if (shape.waits_by_itself && overlaps_launches_) return launch_early(function, shape, arguments, name);
    check(driver_.cuLaunchKernel(function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y,
                                 shape.block_z, shape.shared_bytes, stream(), arguments, nullptr),
          "launch the kernel", name);
  }
  // The same as a launch that begins before the previous kernel has ended.
  void launch_early(CUfunction function, const LaunchShape& shape, void** arguments, const char* name) const;
  // The same as a cooperative launch: all blocks run at the same time, so that each may wait for any other. Throws
  // Error if the blocks do not fit on the GPU together.
  void launch_together(CUfunction function, const LaunchShape& shape, void** arguments, const char* name) const {
    const Scope scope(*this);
    check(driver_.cuLaunchCooperativeKernel(function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                            shape.block_y, shape.block_z, shape.shared_bytes, stream(), arguments),
          "launch the kernel", name);
  }
  // Whether launches of kernels that wait by themselves begin before the previous kernel has ended, where the GPU
  // supports that. Off by default: the times of such kernels overlap.
  void set_overlaps_launches(bool overlaps) {
    overlaps_launches_ = overlaps && !keeps_launches_apart_ && card_.capability.major >= 9;
  }
  // While kernels are timed one by one, no launch overlaps another.
  void keep_launches_apart(bool keeps) { keeps_launches_apart_ = keeps; }
  // Whether a run is being captured from the stream.
  bool is_capturing() const;
  // What changes a run that is captured from the stream.
  GraphEdits& graph_edits() { return graph_edits_; }
  // On the stream.
  void fill_zero(void* device_address, std::size_t bytes) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void synchronize() const;
  // For an event of a stream. A thread that waits beside the one that launches pauses between its questions, which
  // leaves the processor to that one.
  void synchronize(CUevent event, std::chrono::microseconds pause = {}) const;

  // The work on the stream can never be right any more, and may never end: from now on what waits for it and
  // require_working() throw an Error with this message; the first one counts. Memory and modules are no longer
  // released, because the driver would wait for their users. Any thread may call it.
  void fail(std::string message) const;
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // Whether somebody has been told.
  bool has_thrown_failure() const { return has_thrown_failure_.load(std::memory_order_acquire); }
  void require_working() const {
    if (has_failed()) [[unlikely]]
      throw_failure();
  }

  // Allows a function `bytes` of dynamic shared memory.
  void allow_shared(CUfunction function, std::size_t bytes) const;

  // A function of kernels/<image>.cu (kernel_images.h); its module is loaded at first use and kept. Throws Error if
  // either does not exist.
  CUfunction kernel(std::string_view image, const char* function_name);

  // Memory outside the allocator, for measurements. Null if the GPU's memory is full.
  void* allocate(std::size_t bytes) const;
  void release(void* device_address) const noexcept;

  struct MemoryInfo {
    std::size_t free_bytes = 0;  // on the whole GPU, all processes considered
    std::size_t total_bytes = 0;
  };
  MemoryInfo memory_info() const;
  // Bytes in use on the whole GPU just after this context was created: by the context and by other processes.
  std::size_t used_at_start_bytes() const { return used_at_start_bytes_; }

  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext() = delete;

 private:
  explicit CudaContext(int ordinal);
  [[noreturn]] void throw_failure() const;
  template <typename Query>
  CUresult wait(const Query& query, std::chrono::microseconds pause = {}) const;

  const Driver& driver_;
  CardFacts card_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::array<CUstream, 4> side_streams_{};
  int stream_priority_ = 0;
  std::mutex side_stream_mutex_;
  std::size_t used_at_start_bytes_ = 0;
  GraphEdits graph_edits_;
  bool overlaps_launches_ = false;
  bool keeps_launches_apart_ = false;
  mutable std::atomic<bool> has_failed_{false};
  mutable std::atomic<bool> has_thrown_failure_{false};
  mutable std::mutex failure_mutex_;
  mutable std::string failure_;
  std::mutex modules_mutex_;
  std::map<std::string, std::unique_ptr<Module>, std::less<>> modules_;
};

}  // namespace ridgepoint::cuda
