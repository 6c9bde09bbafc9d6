// How PyTorch runs a model: the names after "torch:" in --peers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ridgepoint {

// eager; compile: torch.compile as it is; the others: torch.compile with the mode of that name.
enum class TorchMode : std::uint8_t { eager, compile, reduce_overhead, max_autotune, max_autotune_no_cudagraphs };
std::string_view name(TorchMode mode);

// The modes of a comma list of "torch:MODE" and "torch", which stands for the first four, each once. Throws Error
// (usage) with the nearest name.
std::vector<TorchMode> torch_modes_from(std::string_view text);

}  // namespace ridgepoint
