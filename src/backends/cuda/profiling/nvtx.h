// NVTX: named ranges for a profiler such as nsys. Program and tool meet as with NVIDIA's header nvtx3/nvToolsExt.h,
// whose names, values and layouts these are: NVTX_INJECTION64_PATH names the tool's library, its
// InitializeInjectionNvtx2 asks for the tables of functions, and puts its own into them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridgepoint::cuda {
// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names

using nvtxDomainHandle_t = struct nvtxDomainRegistration_st*;
using nvtxStringHandle_t = struct nvtxStringRegistration_st*;

enum nvtxMessageType_t : std::int32_t { NVTX_MESSAGE_TYPE_REGISTERED = 3 };

struct nvtxEventAttributes_t {
  std::uint16_t version;
  std::uint16_t size;  // of this struct
  std::uint32_t category;
  std::int32_t colorType;
  std::uint32_t color;
  std::int32_t payloadType;
  std::int32_t reserved0;
  std::uint64_t payload;
  std::int32_t messageType;
  union {
    nvtxStringHandle_t registered;
  } message;
};

// What a tool sees of the program.
enum NvtxCallbackModule : int {
  NVTX_CB_MODULE_CORE = 1,
  NVTX_CB_MODULE_CUDA = 2,
  NVTX_CB_MODULE_OPENCL = 3,
  NVTX_CB_MODULE_CUDART = 4,
  NVTX_CB_MODULE_CORE2 = 5,
  NVTX_CB_MODULE_SYNC = 6,
};
enum NvtxCallbackIdCore2 : int {
  NVTX_CBID_CORE2_DomainRangePushEx = 4,
  NVTX_CBID_CORE2_DomainRangePop = 5,
  NVTX_CBID_CORE2_DomainRegisterStringA = 10,
  NVTX_CBID_CORE2_DomainCreateA = 12,
};
enum NvtxExportTableID : int { NVTX_ETID_CALLBACKS = 1, NVTX_ETID_VERSIONINFO = 3 };
using NvtxFunctionPointer = void (*)();
using NvtxFunctionTable = NvtxFunctionPointer**;  // by callback id, from 1 on: where the tool puts its function
struct NvtxExportTableCallbacks {
  std::size_t struct_size;
  int (*GetModuleFunctionTable)(NvtxCallbackModule module, NvtxFunctionTable* table, unsigned* size);
};
struct NvtxExportTableVersionInfo {
  std::size_t struct_size;
  std::uint32_t version;
  std::uint32_t reserved0;
  void (*SetInjectionNvtxVersion)(std::uint32_t version);
};
using NvtxGetExportTableFunc_t = const void* (*)(std::uint32_t which);
using NvtxInitializeInjectionNvtxFunc_t = int (*)(NvtxGetExportTableFunc_t export_table);
// NOLINTEND(readability-identifier-naming)

inline constexpr std::uint16_t kNvtxVersion = 3;  // NVTX_VERSION

// A tool's functions.
struct Nvtx {
  nvtxDomainHandle_t (*domain_create)(const char* name) = nullptr;
  nvtxStringHandle_t (*register_string)(nvtxDomainHandle_t domain, const char* text) = nullptr;
  int (*push)(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) = nullptr;
  int (*pop)(nvtxDomainHandle_t domain) = nullptr;
};

// Null if no tool is attached, or one that lacks a function. The first call attaches it.
const Nvtx* nvtx();

}  // namespace ridgepoint::cuda
