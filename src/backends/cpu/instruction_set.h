// Which of the processor's instructions the CPU back end uses: all that its kernels and oneDNN's are made for, or fewer
// where the environment asks for it, so that one machine can stand for an older one.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::cpu {

// Holds Highway's kernels and oneDNN's down to it: avx2, or avx512 (no bf16 products, no AMX). Unset or empty: all. It
// is read when the program is loaded, before either has chosen a kernel.
inline constexpr const char* kInstructionSetVariable = "RIDGEPOINT_CPU_ISA";

// Throws Error (usage) where the variable has another value.
void require_known_instruction_set();

// The widest in use: avx2, avx512, avx512_bf16, amx; empty where oneDNN names another.
std::string_view instruction_set();

}  // namespace ridgepoint::cpu
