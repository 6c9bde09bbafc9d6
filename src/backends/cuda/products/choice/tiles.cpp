#include "backends/cuda/products/choice/tiles.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/rounding.h"

namespace ridgepoint::cuda {
namespace {

// The first ones, from 1 on. Those after them are all multiples of 8 x 64 and then of 64 x 8 of some sizes that are not
// listed before, in order of the first side.
constexpr std::array kFirstTiles = std::to_array<LtTile>(
    {{8, 8},    {8, 16},    {16, 8},    {8, 32},    {16, 16},   {32, 8},    {8, 64},   {16, 32},  {32, 16},
     {64, 8},   {32, 32},   {32, 64},   {64, 32},   {32, 128},  {64, 64},   {128, 32}, {64, 128}, {128, 64},
     {64, 256}, {128, 128}, {256, 64},  {64, 512},  {128, 256}, {256, 128}, {512, 64}, {64, 96},  {96, 64},
     {96, 128}, {128, 160}, {160, 128}, {192, 128}, {128, 192}, {128, 96},  {32, 256}, {256, 32}});

std::vector<LtTile> make_tiles() {
  constexpr int kLongest = 768;
  std::vector<LtTile> tiles(kFirstTiles.begin(), kFirstTiles.end());
  const auto add = [&](LtTile tile) {
    if (std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
  };
  for (int m = 8; m <= kLongest; m += 8) {
    for (int n = 64; n <= kLongest && m * n <= 64 * kLongest; n += 64) add({m, n});
  }
  for (int m = 64; m <= kLongest; m += 64) {
    for (int n = 8; n < kLongest && m * n <= 256 * 256; n += 8) add({m, n});
  }
  for (const LtTile& tile : {LtTile{256, 512}, LtTile{256, 1024}, LtTile{512, 512}, LtTile{512, 1024}}) add(tile);
  return tiles;
}

}  // namespace

std::optional<LtTile> lt_tile(std::uint32_t number) {
  static const std::vector<LtTile> tiles = make_tiles();
  if (number == 0 || number > tiles.size()) return std::nullopt;
  return tiles[number - 1];
}

double expected_cycles(const LtProblem& problem, const LtTile& tile, int parts, int multiprocessors) {
  constexpr double kProductsInCycle = 2048;  // of a multiprocessor of Hopper, in 16 bits
  constexpr double kLoadsInCycle = 32;       // elements, from the second-level cache
  constexpr double kShareOfShorter = 0.3;    // of products and loads, that does not run beside the longer ones
  constexpr double kStepsOfEnds = 300;       // along k, that take as long as what begins and ends a tile
  constexpr double kSumInCycle = 210;        // of parts, in memory
  constexpr double kCyclesOfSum = 5000;      // of the kernel that adds them
  const std::int64_t tiles = problem.batch * ceil_divide(problem.m, tile.m) * ceil_divide(problem.n, tile.n) * parts;
  const auto each = static_cast<double>(ceil_divide(tiles, std::max(1, multiprocessors)));
  const double products = tile.m * tile.n / kProductsInCycle;
  const double loads = (tile.m + tile.n) / kLoadsInCycle;
  const double step = std::max(products, loads) + kShareOfShorter * std::min(products, loads);
  const double steps = static_cast<double>(ceil_divide(problem.k, parts)) + kStepsOfEnds;
  const double elements = static_cast<double>(problem.batch) * static_cast<double>(problem.m * problem.n);
  const double sum = parts > 1 ? kCyclesOfSum + elements * parts / kSumInCycle : 0;
  return each * steps * step + sum;
}

}  // namespace ridgepoint::cuda
