#include "backends/cpu/instruction_set.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <dnnl.hpp>
#include <string>
#include <utility>

#include "hwy/targets.h"
#include "ridgepoint/error.h"

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

}  // namespace ridgepoint::cpu
