// The choice of the race between matmul algorithms on GPU 0, and what it and the other fast ways sustain at the GPU's
// power limit. They run by turns for --seconds each, of which the second half is timed, on random operands that the
// cache does not hold. A product TOKENSxINxOUT is y = x W^T; both gradients follow. The disk cache is neither read nor
// written. Columns: 1 for the choice, us sustained, us of the screening, SM clock, watts, time relative to the choice.
// matmul_race [fp32|tf32|bf16|fp16, default bf16] TOKENSxINxOUT ... [--seconds 0.3] [--rounds 2] [--ways 16]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/event.h"
#include "backends/cuda/products/choice/search.h"
#include "core/median.h"
#include "ridgepoint/core/error.h"
#include "run/machine/nvml.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::MatmulAlgorithm;
using cuda::MatmulSearch;

constexpr int kRanked = 12;

struct Case {
  std::string label;
  DType dtype = DType::fp32;
  bool tf32 = false;
  TensorLayout a, b, c;
};

// One product with all objects that its measurement needs; they refer to one another, so it does not move.
struct Contest {
  Contest(CudaContext& on, const Case& what)
      : context(on),
        problem(problem_of(what)),
        mapped(cuda::map_matmul(problem)),
        plan(on, mapped),
        own(cuda::OwnMatmuls::of(on.card(), problem)),
        search(on, plan, mapped, own),
        start(on),
        stop(on) {}

  static MatmulProblem problem_of(const Case& what) {
    const Graph graph;
    const std::vector<TensorLayout> inputs = {what.a, what.b};
    const std::vector<TensorLayout> outputs = {what.c};
    MatmulProblem problem = read_matmul_problem({graph, Node{}, inputs, outputs});
    problem.tf32 = what.tf32;
    return problem;
  }

  void launch(std::size_t way, int launches) {
    for (int i = 0; i < launches; ++i) {
      search.launch(way)(search.timer().operands(next));
      next = (next + 1) % search.timer().copies();
    }
  }

  CudaContext& context;
  MatmulProblem problem;
  cuda::LtProblem mapped;
  cuda::MatmulPlan plan;
  cuda::OwnMatmuls own;
  MatmulSearch search;
  cuda::Event start, stop;
  std::size_t next = 0;
};

std::string describe(const MatmulAlgorithm& algorithm) {
  if (!std::holds_alternative<cuda::cublasLtMatmulAlgo_t>(algorithm)) return cuda::algorithm_to_text(algorithm);
  const auto read = [&](cuda::cublasLtMatmulAlgoConfigAttributes_t which) {
    std::int32_t value = 0;
    std::size_t written = 0;
    cuda::cublaslt().cublasLtMatmulAlgoConfigGetAttribute(&std::get<cuda::cublasLtMatmulAlgo_t>(algorithm), which,
                                                          &value, sizeof value, &written);
    return value;
  };
  return fmt::format("lt {} tile {} stages {} k/{}", read(cuda::CUBLASLT_ALGO_CONFIG_ID),
                     read(cuda::CUBLASLT_ALGO_CONFIG_TILE_ID), read(cuda::CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     read(cuda::CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

struct Settings {
  double seconds = 0.3;
  int rounds = 2;
  std::size_t ways = 16;
};

struct Sustained {
  std::size_t way = 0;
  double screened_ms = 0;
  std::vector<double> ms;
  double clock_mhz = 0;
  double watts = 0;
};

void run(CudaContext& context, const Case& what, const Settings& settings) {
  Contest contest(context, what);
  const CudaContext::Scope scope(context);
  if (!contest.search.can_measure()) throw Error("the GPU has not enough memory for the operands of " + what.label);
  const Nvml& nvml = Nvml::of_driver();
  const Nvml::Gpu gpu = nvml.find(context.card().pci_bus_id);
  const auto begin = std::chrono::steady_clock::now();
  contest.search.fastest(contest.plan.candidates(kRanked));
  const std::chrono::duration<double, std::milli> searched = std::chrono::steady_clock::now() - begin;
  std::vector<Sustained> ways;
  for (const auto& finalist : contest.search.race().screened()) {
    if (std::isfinite(finalist.card_ms)) ways.push_back({finalist.way, finalist.card_ms, {}});
  }
  std::ranges::sort(ways, {}, &Sustained::screened_ms);
  ways.resize(std::min(ways.size(), settings.ways));
  const std::size_t chosen = contest.search.race().finalists().front().way;
  for (int round = 0; round <= settings.rounds; ++round) {
    for (Sustained& way : ways) {
      const int launches = std::max(1, static_cast<int>(settings.seconds * 500 / way.screened_ms));
      contest.launch(way.way, launches);
      contest.start.record();
      contest.launch(way.way, launches);
      contest.stop.record();
      const double ms = contest.stop.ms_since(contest.start) / launches;
      if (round == 0) break;  // the first heats
      way.ms.push_back(ms);
      const GpuReading reading = nvml.read(gpu);
      way.clock_mhz = reading.sm_clock_mhz.value_or(0);
      way.watts = reading.power_watts.value_or(0);
    }
  }
  std::ranges::sort(ways, {}, [](const Sustained& way) { return upper_median(way.ms); });
  const auto winner = std::ranges::find(ways, chosen, &Sustained::way);
  const double winner_ms = winner == ways.end() ? NAN : upper_median(winner->ms);
  fmt::print("{}: {} ways in {:.0f} ms; the choice takes {:.3f} of the least time\n", what.label,
             contest.search.ways().size(), searched.count(), winner_ms / upper_median(ways.front().ms));
  for (const Sustained& way : ways)
    fmt::print("  {} {:>9.1f} {:>9.1f} {:>6.0f} MHz {:>4.0f} W  {:.3f}  {}\n", way.way == chosen ? "1" : " ",
               1000 * upper_median(way.ms), 1000 * way.screened_ms, way.clock_mhz, way.watts,
               upper_median(way.ms) / winner_ms, describe(contest.search.ways()[way.way]));
  std::fflush(stdout);
}

TensorLayout transposed(TensorLayout layout) {
  const int rank = layout.shape.rank();
  std::vector<Dim> dims(layout.shape.dims().begin(), layout.shape.dims().end());
  std::swap(dims[dims.size() - 2], dims.back());
  layout.shape = Shape(dims);
  std::swap(layout.strides[static_cast<std::size_t>(rank - 2)], layout.strides[static_cast<std::size_t>(rank - 1)]);
  return layout;
}

// y[T,out] = x[T,in] w[out,in]^T and both gradients.
void add_linear(std::vector<Case>& cases, const Case& of, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  const TensorLayout x = dense_layout({of.dtype, {tokens, in}});
  const TensorLayout y = dense_layout({of.dtype, {tokens, out}});
  const TensorLayout w = dense_layout({of.dtype, {out, in}});
  const std::string shape = fmt::format("{} {} {}->{}", of.label, tokens, in, out);
  cases.push_back({shape + " y", of.dtype, of.tf32, x, transposed(w), y});
  cases.push_back({shape + " dx", of.dtype, of.tf32, y, w, x});
  cases.push_back({shape + " dw", of.dtype, of.tf32, transposed(y), x, w});
}

Case precision(std::string_view text) {
  Case made;
  made.label = text;
  made.tf32 = text == "tf32";
  if (made.tf32 || text == "fp32") return made;
  if (text != "bf16" && text != "fp16") throw Error(fmt::format("{} is neither a type nor TOKENSxINxOUT", text));
  made.dtype = text == "bf16" ? DType::bf16 : DType::fp16;
  return made;
}

void run_all(std::span<char*> arguments) {
  Case of = precision("bf16");
  Settings settings;
  std::vector<Case> cases;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    long long tokens = 0, in = 0, out = 0;
    if (word.starts_with("--") && i + 1 < arguments.size()) {
      const double value = std::atof(arguments[++i]);
      if (word == "--seconds") settings.seconds = value;
      if (word == "--rounds") settings.rounds = static_cast<int>(value);
      if (word == "--ways") settings.ways = static_cast<std::size_t>(value);
    } else if (std::sscanf(arguments[i], "%lldx%lldx%lld", &tokens, &in, &out) == 3) {
      add_linear(cases, of, tokens, in, out);
    } else {
      of = precision(word);
    }
  }
  CudaContext& context = CudaContext::of_card(0);
  for (const Case& what : cases) run(context, what, settings);
}

}  // namespace
}  // namespace ridgepoint

int main(int count, char** arguments) {
  try {
    ridgepoint::run_all({arguments + 1, static_cast<std::size_t>(count - 1)});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "matmul_race: {}\n", error.what());
    return 1;
  }
}
