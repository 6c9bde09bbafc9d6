// The instruction set that the CPU back end uses: the widest that the processor and the libraries have, or a narrower
// one that an environment variable asks for, so that one machine can stand in for an older one.
#pragma once

#include <string_view>

namespace ridgepoint::cpu {

// The environment variable. It limits the kernels of Highway and oneDNN to avx2, or to avx512 (no bf16 products, no
// AMX); unset or empty means no limit. It is read when the program is loaded, before either library chooses a kernel.
inline constexpr const char* kInstructionSetVariable = "RIDGEPOINT_CPU_ISA";

// Throws Error (usage) if the variable has another value.
void require_known_instruction_set();

// The widest instruction set in use: avx2, avx512, avx512_bf16 or amx; empty if oneDNN reports another one.
std::string_view instruction_set();

}  // namespace ridgepoint::cpu
