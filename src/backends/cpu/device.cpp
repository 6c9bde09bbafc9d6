#include "backends/cpu/device.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/tile/interpreter.h"
#include "core/random/random_values.h"
#include "core/rounding.h"
#include "core/text/text.h"
#include "core/threads/parallel.h"
#include "core/threads/processors.h"
#include "hwy/targets.h"
#include "ops/rules/optimizer/optimizer.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/host_device.h"

namespace ridgepoint::cpu {
namespace {

struct Limit {
  std::string_view name;
  dnnl::cpu_isa onednn;
  std::int64_t highway;  // a wider instruction set has a lower bit
};

constexpr std::array<Limit, 2> kLimits = {
    {{"avx2", dnnl::cpu_isa::avx2, HWY_AVX2}, {"avx512", dnnl::cpu_isa::avx512_core, HWY_AVX3}}};

std::string_view requested() {
  const char* value = std::getenv(kInstructionSetVariable);
  return value == nullptr ? "" : value;
}

const Limit* find_limit(std::string_view name) {
  for (const Limit& limit : kLimits) {
    if (limit.name == name) return &limit;
  }
  return nullptr;
}

dnnl::status limit_instruction_set() {
  const Limit* limit = find_limit(requested());
  if (limit == nullptr) return dnnl::status::success;
  hwy::DisableTargets(limit->highway - 1);
  return dnnl::set_max_cpu_isa(limit->onednn);
}

// Set at load time: both libraries choose at their first call, which may come from a test or from the calling program.
const dnnl::status kLimitStatus = limit_instruction_set();

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
// More than any packing buffer takes.
constexpr int kKeptBytes = 256 << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

void require_known_instruction_set() {
  const std::string_view name = requested();
  if (name.empty()) return;
  const std::string variable = kInstructionSetVariable;
  if (find_limit(name) == nullptr) {
    throw Error(variable + " is '" + std::string(name) + "'; set it to avx2 or avx512, or unset it to use all " +
                    "instructions of this processor",
                ErrorKind::usage);
  }
  if (kLimitStatus == dnnl::status::unimplemented) {
    throw Error("this oneDNN was built without support for limiting its instruction set; unset " + variable,
                ErrorKind::unsupported);
  }
  if (kLimitStatus != dnnl::status::success) {
    throw Error(variable + " was set after oneDNN had chosen its kernels; set it before the program starts",
                ErrorKind::usage);
  }
}

// The number of an instruction set has the bits of all sets that it includes.
std::string_view instruction_set() {
  using Isa = dnnl::cpu_isa;
  constexpr std::array<std::pair<Isa, std::string_view>, 4> kNames = {{{Isa::avx512_core_amx, "amx"},
                                                                       {Isa::avx512_core_bf16, "avx512_bf16"},
                                                                       {Isa::avx512_core, "avx512"},
                                                                       {Isa::avx2, "avx2"}}};
  const auto present = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  for (const auto& [isa, name] : kNames) {
    const auto needed = static_cast<unsigned>(isa);
    if ((present & needed) == needed) return name;
  }
  return "";
}

void* map_pages(std::size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::size_t whole_bytes = round_up(bytes == 0 ? 1 : bytes, page_bytes());
  if (whole_bytes < kHugePageBytes) return map(whole_bytes);
  // mmap() aligns to small pages only: a longer mapping has an aligned address, and the rest is unmapped.
  std::byte* first = map(whole_bytes + kHugePageBytes);
  if (first == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t before = round_up(address, kHugePageBytes) - address;
  const std::size_t after = kHugePageBytes - before;
  if (before > 0) munmap(first, before);
  if (after > 0) munmap(first + before + whole_bytes, after);
  madvise(first + before, whole_bytes, MADV_HUGEPAGE);  // advice only: small pages work as well
  return first + before;
}

void unmap_pages(void* address, std::size_t bytes) { munmap(address, round_up(bytes == 0 ? 1 : bytes, page_bytes())); }

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

}  // namespace ridgepoint::cpu

namespace ridgepoint {
namespace {

// A limit file has a number of bytes, or "max" for no limit.
std::optional<std::size_t> read_limit(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  if (!(file >> bytes)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

// The bytes that a control group may still take: its limit less its usage, without file pages that Linux can drop.
// Empty if a file is missing or there is no limit.
std::optional<std::size_t> free_in_group(const std::filesystem::path& group, std::string_view limit_file,
                                         std::string_view usage_file) {
  const std::optional<std::size_t> limit = read_limit(group / limit_file);
  const std::optional<std::size_t> usage = read_limit(group / usage_file);
  if (!limit || !usage) return limit;
  std::size_t droppable = 0;
  std::ifstream statistics(group / "memory.stat");
  for (std::string field; statistics >> field;) {
    std::size_t bytes = 0;
    if (field == "inactive_file" && statistics >> bytes) droppable = bytes;
    statistics.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const std::size_t held = *usage - std::min(*usage, droppable);
  return *limit - std::min(*limit, held);
}

struct GroupMemory {
  std::size_t limit_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t free_bytes = std::numeric_limits<std::size_t>::max();
};

// The minimum over this process's group and its ancestors. Version 2 has the limit in memory.max, version 1 in
// memory.limit_in_bytes.
GroupMemory control_group_memory() {
  GroupMemory least;
  for_each_control_group("memory", [&](const std::filesystem::path& folder, int version) {
    const char* limit_file = version == 1 ? "memory.limit_in_bytes" : "memory.max";
    const char* usage_file = version == 1 ? "memory.usage_in_bytes" : "memory.current";
    least.limit_bytes = std::min(least.limit_bytes, read_limit(folder / limit_file).value_or(least.limit_bytes));
    least.free_bytes =
        std::min(least.free_bytes, free_in_group(folder, limit_file, usage_file).value_or(least.free_bytes));
  });
  return least;
}

// The model name in /proc/cpuinfo; "CPU" if it has none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return "CPU";
}

// Physical memory, or the smallest limit of this process's control groups if that is less.
std::size_t usable_memory_bytes() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
  return std::min(pages * page_bytes, control_group_memory().limit_bytes);
}

// The bytes that could be allocated now without swapping, by Linux's estimate, or the bytes that the control groups
// still allow if that is less; SIZE_MAX if neither is known.
std::size_t available_memory_bytes() {
  constexpr std::string_view kField = "MemAvailable:";
  std::size_t machine_bytes = std::numeric_limits<std::size_t>::max();
  std::ifstream file("/proc/meminfo");
  for (std::string field; file >> field;) {
    std::size_t kibibytes = 0;
    if (field == kField && file >> kibibytes) machine_bytes = kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::min(machine_bytes, control_group_memory().free_bytes);
}

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : total_memory_bytes_(
            std::min(usable_memory_bytes(), options.memory_limit_bytes.value_or(static_cast<std::size_t>(-1)))) {
    cpu::require_known_instruction_set();
    set_thread_count(options.threads);
    cpu::keep_freed_memory();
  }

  std::string_view kind() const override { return "cpu"; }
  std::string name() const override { return processor_name(); }
  std::size_t total_memory_bytes() const override { return total_memory_bytes_; }
  DeviceFacts facts() const override {
    DeviceFacts facts;
    if (const std::string_view set = cpu::instruction_set(); !set.empty()) facts.instruction_set = set;
    return facts;
  }
  std::optional<std::size_t> free_memory_bytes() const override { return available_memory_bytes(); }

  // Linux overcommits memory and kills processes that touch too much, so large requests are checked here.
  void* allocate_memory(std::size_t bytes) override {
    const std::size_t held = held_bytes_.fetch_add(bytes);
    const bool fits = bytes <= total_memory_bytes_ && held <= total_memory_bytes_ - bytes &&
                      (bytes < kCheckedBytes || bytes <= available_memory_bytes());
    void* address = fits ? cpu::map_pages(bytes) : nullptr;
    if (address == nullptr) held_bytes_ -= bytes;
    return address;
  }
  void release_memory(void* address, std::size_t bytes) override {
    cpu::unmap_pages(address, bytes);
    held_bytes_ -= bytes;
  }

  void fill_zero(void* device_address, std::size_t bytes) override {
    parallel_for(static_cast<std::int64_t>(bytes), kZeroGrainBytes, [&](std::int64_t begin, std::int64_t end) {
      std::memset(static_cast<std::byte*>(device_address) + begin, 0, static_cast<std::size_t>(end - begin));
    });
  }
  void fill_random(void* device_address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                   std::uint64_t stream, const StopPoint& stop_point) override {
    if (dtype != DType::fp32)
      return Device::fill_random(device_address, dtype, count, distribution, stream, stop_point);
    ridgepoint::fill_random({static_cast<float*>(device_address), static_cast<std::size_t>(count)}, distribution,
                            stream, 0, stop_point);
  }

  bool has_kernel(const Graph& graph, const Node& node) const override;
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override;
  bool writes_strided(const Graph& graph, const Node& node) const override;
  bool pads_rows(const Graph& graph, const Node& node) const override;
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;

 private:
  static constexpr std::int64_t kZeroGrainBytes = 1 << 20;
  static constexpr std::size_t kCheckedBytes = std::size_t{64} << 20;

  std::size_t total_memory_bytes_;
  std::atomic<std::size_t> held_bytes_{0};
};

// Other dtypes of rope, and composites too large for a tile, run as their decomposition. So does an optimizer's node of
// several tensors: one kernel for all of them would be no faster here.
bool CpuDevice::has_kernel(const Graph& graph, const Node& node) const {
  switch (op_class(node.op)) {
    case OpClass::elementwise:
    case OpClass::reduction:
    case OpClass::contraction:
    case OpClass::gather:
    case OpClass::experts:
    case OpClass::recurrence: return true;
    default:
      if (node.op == Op::rope) {
        const DType dtype = graph.type(node.inputs[0]).dtype;
        return dtype == DType::fp32 || dtype == DType::bf16;
      }
      if (node.op == Op::attention || node.op == Op::attention_backward) return cpu::has_attention(graph, node);
      if (updates_several_tensors(node)) return false;
      if (node.op == Op::sum_of_squares) return cpu::has_sum_of_squares(graph, node);
      return cpu::fits_tile(graph, node);
  }
}

OperandLayout CpuDevice::operand_layout(const Graph&, const Node& node, int index) const {
  switch (op_class(node.op)) {
    case OpClass::contraction: return index < 2 ? OperandLayout::matrix : OperandLayout::dense;
    case OpClass::gather:
    case OpClass::experts:
    case OpClass::recurrence: return OperandLayout::dense;
    default: break;
  }
  if (node.op == Op::attention || node.op == Op::attention_backward) return OperandLayout::dense;
  if (node.op == Op::rope && index > 0) return OperandLayout::dense;
  return OperandLayout::any;
}

// The tile interpreter follows the strides of results.
bool CpuDevice::writes_strided(const Graph&, const Node& node) const {
  const OpClass kind = op_class(node.op);
  return kind == OpClass::elementwise || kind == OpClass::reduction || kind == OpClass::fused;
}

// The interpreter runs all composites but these. Products have a distance of rows.
bool CpuDevice::pads_rows(const Graph& graph, const Node& node) const {
  constexpr std::array kOthers = {Op::rope, Op::sum_of_squares, Op::attention, Op::attention_backward};
  const bool is_in_tiles =
      op_class(node.op) == OpClass::composite && std::ranges::find(kOthers, node.op) == kOthers.end();
  return node.op == Op::matmul || is_in_tiles || writes_strided(graph, node);
}

std::unique_ptr<Kernel> CpuDevice::make_kernel(const KernelSpec& spec) {
  switch (spec.node.op) {
    case Op::matmul:
    case Op::matmul_add: return cpu::make_matmul_kernel(spec);
    case Op::embedding: return cpu::make_embedding_kernel(spec);
    case Op::dequantise: return cpu::make_dequantise_kernel(spec);
    case Op::copy_from_host:
    case Op::copy_to_host: return make_host_transfer(spec);
    case Op::embedding_backward:
    case Op::embedding_backward_add: return cpu::make_embedding_backward_kernel(spec);
    case Op::top_k:
    case Op::top_k_backward:
    case Op::expert_order: return cpu::make_routing_kernel(spec);
    case Op::grouped_matmul:
    case Op::grouped_matmul_weights: return cpu::make_grouped_matmul_kernel(spec);
    case Op::linear_attention:
    case Op::linear_attention_backward: return cpu::make_linear_attention_kernel(spec);
    case Op::rope: return cpu::make_rope_kernel(spec);
    case Op::sum_of_squares: return cpu::make_sum_of_squares_kernel(spec);
    case Op::attention: return cpu::make_attention_kernel(spec);
    case Op::attention_backward: return cpu::make_attention_backward_kernel(spec);
    default: return cpu::make_tile_kernel(spec);
  }
}

}  // namespace

std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options) { return std::make_shared<CpuDevice>(options); }

}  // namespace ridgepoint
