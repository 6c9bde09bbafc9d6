#include "backends/cuda/driver/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "backends/cuda/libraries/kernel_images.h"
#include "core/first_call_clock.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

struct KnownCapability {
  ComputeCapability capability;
  std::size_t shared_kibibytes;
};
// CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
constexpr std::array<KnownCapability, 10> kKnownCapabilities = {{{{8, 0}, 163},
                                                                 {{8, 6}, 99},
                                                                 {{8, 7}, 163},
                                                                 {{8, 9}, 99},
                                                                 {{9, 0}, 227},
                                                                 {{10, 0}, 227},
                                                                 {{10, 3}, 227},
                                                                 {{11, 0}, 227},
                                                                 {{12, 0}, 99},
                                                                 {{12, 1}, 99}}};

std::string text_of(const ComputeCapability& capability) {
  return fmt::format("{}.{}", capability.major, capability.minor);
}

CardFacts read_facts(const Driver& driver, CUdevice device, int ordinal) {
  CardFacts card;
  card.ordinal = ordinal;
  std::array<char, 256> text{};
  check(driver.cuDeviceGetName(text.data(), static_cast<int>(text.size()), device), "read the GPU's name");
  card.name = text.data();
  check(driver.cuDeviceTotalMem_v2(&card.memory_bytes, device), "read the size of the GPU's memory");
  const auto value = [&](CUdevice_attribute which) {
    int found = 0;
    check(driver.cuDeviceGetAttribute(&found, which, device), "read the GPU's properties");
    return found;
  };
  const auto bytes = [&](CUdevice_attribute which) { return static_cast<std::size_t>(value(which)); };
  card.capability = {value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                     value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)};
  card.pci_bus_id = fmt::format("{:08X}:{:02X}:{:02X}.0", value(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                                value(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), value(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  card.multiprocessors = value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  card.l2_bytes = bytes(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  card.shared_bytes_per_block = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  card.architecture = card.capability.number();
  const char* held = std::getenv(kCapabilityVariable);
  if (held != nullptr && *held != '\0') hold_to_capability(card, held);
  return card;
}

// Errors that are due to the image.
constexpr std::array kRefusals = {CUDA_ERROR_INVALID_IMAGE,     CUDA_ERROR_INVALID_SOURCE,
                                  CUDA_ERROR_INVALID_PTX,       CUDA_ERROR_INVALID_VALUE,
                                  CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_UNSUPPORTED_PTX_VERSION};

}  // namespace

Module::Module(CudaContext& context, const void* image, std::string name) : context_(context), name_(std::move(name)) {
  const CudaContext::Scope scope(context);
  check(context.driver().cuModuleLoadData(&module_, image), "load the kernels of", name_.c_str());
}

std::unique_ptr<Module> Module::load_unless_refused(CudaContext& context, const void* image, std::string name) {
  const CudaContext::Scope scope(context);
  CUmodule module = nullptr;
  const CUresult result = context.driver().cuModuleLoadData(&module, image);
  if (std::ranges::find(kRefusals, result) != kRefusals.end()) return nullptr;
  check(result, "load the kernels of", name.c_str());
  return std::unique_ptr<Module>(new Module(context, module, std::move(name)));
}

Module::~Module() {
  if (context_.has_failed()) return;
  const CudaContext::Scope scope(context_, std::nothrow);
  context_.driver().cuModuleUnload(module_);
}

CUfunction Module::function(const char* function_name) const {
  const CudaContext::Scope scope(context_);
  CUfunction found = nullptr;
  check(context_.driver().cuModuleGetFunction(&found, module_, function_name), "find the kernel", function_name);
  return found;
}

std::size_t shared_bytes_per_block(const ComputeCapability& capability) {
  constexpr std::size_t kKibibyte = 1024;
  for (const KnownCapability& known : kKnownCapabilities) {
    if (known.capability.number() == capability.number()) return known.shared_kibibytes * kKibibyte;
  }
  return 227 * kKibibyte;
}

void hold_to_capability(CardFacts& card, std::string_view capability) {
  std::string taken;
  for (const KnownCapability& known : kKnownCapabilities) {
    if (known.capability.number() > card.capability.number()) break;
    // Code for Hopper alone runs on no later GPU.
    constexpr int kHopper = 90;
    if (known.capability.number() == kHopper && card.capability.number() != kHopper) continue;
    if (text_of(known.capability) == capability) {
      card.capability = known.capability;
      card.shared_bytes_per_block = std::min(card.shared_bytes_per_block, shared_bytes_per_block(known.capability));
      return;
    }
    taken += (taken.empty() ? "" : ", ") + text_of(known.capability);
  }
  throw_error(ErrorKind::usage,
              "{} is '{}'; set it to a compute capability that GPU {} ({}) can stand for, {}, or unset it",
              kCapabilityVariable, capability, card.ordinal, card.name, taken);
}

CardFacts card_facts(int ordinal) {
  const Driver& table = cuda::driver();
  int count = 0;
  check(table.cuDeviceGetCount(&count), "count the GPUs");
  if (ordinal < 0 || ordinal >= count)
    throw_error(ErrorKind::usage, "there is no GPU {}: this machine has {}, numbered from 0", ordinal, count);
  CUdevice device = 0;
  check(table.cuDeviceGet(&device, ordinal), "open the GPU");
  return read_facts(table, device, ordinal);
}

void require_supported(const CardFacts& card) {
  if (card.capability.number() >= kLeastCapability) return;
  throw_error(ErrorKind::unsupported,
              "GPU {} ({}) has compute capability {}.{}; the kernels need {}.{} (Ampere) or newer", card.ordinal,
              card.name, card.capability.major, card.capability.minor, kLeastCapability / 10, kLeastCapability % 10);
}

void require_kernels() {
  if (!kernel_images().empty()) return;
  throw Error(
      "this build has no CUDA kernels, because it was configured without a CUDA toolkit; configure it with "
      "-DRIDGEPOINT_CUDA=ON on a machine with the CUDA toolkit 12.4 or newer",
      ErrorKind::unsupported);
}

// Never deleted; the class comment says why.
CudaContext& CudaContext::of_card(int ordinal) {
  static std::mutex mutex;
  static auto& contexts =
      *new std::map<int, CudaContext*>;  // not deleted either, so that leak checkers still reach the contexts
  const std::lock_guard lock(mutex);
  CudaContext*& context = contexts[ordinal];
  if (context == nullptr) context = new CudaContext(ordinal);
  return *context;
}

CudaContext::CudaContext(int ordinal) : driver_(cuda::driver()), card_(card_facts(ordinal)) {
  require_supported(card_);
  check(driver_.cuDeviceGet(&device_, ordinal), "open the GPU");
  check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "create a context on", card_.name.c_str());
  try {
    const Scope scope(*this);
    const MemoryInfo info = memory_info();
    used_at_start_bytes_ = info.total_bytes - info.free_bytes;
    int least = 0, greatest = 0;
    check(driver_.cuCtxGetStreamPriorityRange(&least, &greatest), "read the priorities of streams");
    stream_priority_ = std::max(least - 1, greatest);  // lower numbers come first; collectives have the greatest
    check(driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, stream_priority_), "create a stream");
  } catch (...) {
    driver_.cuDevicePrimaryCtxRelease_v2(device_);
    throw;
  }
}

void CudaContext::Scope::enter(const CudaContext& context) {
  check(try_enter(context), "switch to the context of", context.card_.name.c_str());
}

CUresult CudaContext::Scope::try_enter(const CudaContext& context) noexcept {
  CUcontext current = nullptr;
  CUresult result = context.driver_.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return result;
  if (current != context.context_) {
    result = context.driver_.cuCtxPushCurrent_v2(context.context_);
    if (result != CUDA_SUCCESS) return result;
    has_pushed_ = true;
  }
  has_entered_ = true;
  driver_ = &context.driver_;
  outer_ = std::exchange(entered_, &context);
  return CUDA_SUCCESS;
}

void CudaContext::Scope::leave() noexcept {
  CUcontext popped = nullptr;
  if (has_pushed_) driver_->cuCtxPopCurrent_v2(&popped);
  entered_ = outer_;
}

CUstream CudaContext::side_stream(SideStream which) {
  const std::lock_guard lock(side_stream_mutex_);
  const Scope scope(*this);
  CUstream& stream = side_streams_[static_cast<std::size_t>(which)];
  if (stream == nullptr) check(driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "create a stream");
  return stream;
}

bool CudaContext::is_capturing() const {
  const Scope scope(*this);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(driver_.cuStreamIsCapturing(stream_, &status), "ask whether a run is being captured");
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void CudaContext::fill_zero(void* device_address, std::size_t bytes) const {
  if (bytes == 0) return;
  const Scope scope(*this);
  check(driver_.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(device_address), 0, bytes, stream()), "clear memory");
}

void CudaContext::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  const Scope scope(*this);
  check(driver_.cuMemcpyDtoDAsync_v2(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                                     stream()),
        "copy memory");
}

void CudaContext::launch_early(CUfunction function, const LaunchShape& shape, void** arguments,
                               const char* name) const {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = shape.grid_x;
  config.gridDimY = shape.grid_y;
  config.gridDimZ = shape.grid_z;
  config.blockDimX = shape.block_x;
  config.blockDimY = shape.block_y;
  config.blockDimZ = shape.block_z;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream();
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(driver_.cuLaunchKernelEx(&config, function, arguments, nullptr), "launch the kernel", name);
}

void CudaContext::synchronize() const {
  const Scope scope(*this);
  check(wait([this] { return driver_.cuStreamQuery(stream_); }), "finish the work on its stream");
}

void CudaContext::synchronize(CUevent event, std::chrono::microseconds pause) const {
  const Scope scope(*this);
  check(wait([this, event] { return driver_.cuEventQuery(event); }, pause), "finish the work before an event");
}

// Asks, as the driver's own wait would on a free core, because nothing else ends where work never does.
template <typename Query>
CUresult CudaContext::wait(const Query& query, std::chrono::microseconds pause) const {
  for (;;) {
    require_working();
    const CUresult result = query();
    if (result != CUDA_ERROR_NOT_READY) return require_working(), result;
    pause.count() > 0 ? std::this_thread::sleep_for(pause) : std::this_thread::yield();
  }
}

void CudaContext::fail(std::string message) const {
  const std::lock_guard lock(failure_mutex_);
  if (has_failed_) return;
  failure_ = std::move(message);
  has_failed_.store(true, std::memory_order_release);
}

void CudaContext::throw_failure() const {
  const std::lock_guard lock(failure_mutex_);
  has_thrown_failure_.store(true, std::memory_order_release);
  throw Error(failure_);
}

void CudaContext::allow_shared(CUfunction function, std::size_t bytes) const {
  const Scope scope(*this);
  check(driver_.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
        "allow a kernel's dynamic shared memory");
}

CUfunction CudaContext::kernel(std::string_view image, const char* function_name) {
  const std::lock_guard lock(modules_mutex_);
  auto found = modules_.find(image);
  if (found == modules_.end()) {
    const void* data = nullptr;
    for (const KernelImage& candidate : kernel_images()) {
      if (candidate.name == image) data = candidate.data;
    }
    if (data == nullptr) throw_error("this program was built without the kernels '{}'", image);
    const InStage in_stage(FirstCallStage::kernels);
    found = modules_.emplace(image, std::make_unique<Module>(*this, data, std::string(image))).first;
  }
  return found->second->function(function_name);
}

void* CudaContext::allocate(std::size_t bytes) const {
  const Scope scope(*this);
  CUdeviceptr address = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&address, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check(result, "allocate memory");
  return reinterpret_cast<void*>(address);
}

void CudaContext::release(void* device_address) const noexcept {
  if (has_failed()) return;
  const Scope scope(*this, std::nothrow);
  driver_.cuMemFree_v2(reinterpret_cast<CUdeviceptr>(device_address));
}

CudaContext::MemoryInfo CudaContext::memory_info() const {
  const Scope scope(*this);
  MemoryInfo info;
  check(driver_.cuMemGetInfo_v2(&info.free_bytes, &info.total_bytes), "read the size of free memory");
  return info;
}

}  // namespace ridgepoint::cuda
