// The choice of the race between matmul algorithms on GPU 0, compared with the choice of the race before decision 0014:
// for each product of a model's layers the two choices, the time of each race, and the times of both choices in
// alternation, with operands from memory (cold) and operands that the previous launch left in the cache (warm). The
// disk cache is neither read nor written. Times are microseconds for each product; a ratio below 1 means that the new
// choice is faster.
// matmul_race [fp32|tf32|bf16|fp16, default fp32 and bf16] [tokens, default 32 128 512 2048]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/event.h"
#include "backends/cuda/products/choice/search.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::MatmulAlgorithm;
using cuda::MatmulSearch;

constexpr int kRanked = 12;
constexpr int kRounds = 21;
constexpr int kMostLaunches = 24;
constexpr double kBatchMs = 1;  // at most, where one launch does not take longer

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

  // Times consecutive launches on the same operands, after as many untimed ones.
  double warm_batch_ms(std::size_t way, int launches, int untimed) {
    const cuda::MatmulAddresses operands = search.timer().operands(0);
    for (int i = 0; i < untimed; ++i) search.launch(way)(operands);
    start.record();
    for (int i = 0; i < launches; ++i) {
      if (!search.launch(way)(operands)) return INFINITY;
    }
    stop.record();
    return stop.ms_since(start);
  }

  double cold_batch_ms(std::size_t way, int launches) {
    const cuda::MatmulLaunch* launch = &search.launch(way);
    return search.timer().cold_batches(std::span(&launch, 1), launches).front().card_ms;
  }

  CudaContext& context;
  MatmulProblem problem;
  cuda::LtProblem mapped;
  cuda::MatmulPlan plan;
  cuda::OwnMatmuls own;
  MatmulSearch search;
  cuda::Event start, stop;
};

// The former race: the time of one launch, including the gap, decides whether a candidate is measured further, compared
// with the best of earlier batches.
double old_style_ms(Contest& contest, std::size_t way, double best_so_far_ms) {
  if (!(contest.warm_batch_ms(way, 1, 0) < INFINITY)) return INFINITY;
  const double again_ms = contest.warm_batch_ms(way, 1, 0);
  if (again_ms > 1.5 * best_so_far_ms) return INFINITY;
  const int launches = std::clamp(static_cast<int>(0.2 / again_ms), 1, 20);
  double best = launches == 1 ? again_ms : INFINITY;
  for (int i = launches == 1 ? 1 : 0; i < 3; ++i) {
    best = std::min(best, contest.warm_batch_ms(way, launches, 0) / launches);
  }
  return best;
}

// Runs over the candidates of the new race, which are in the order of the former one.
std::size_t old_style_winner(Contest& contest, std::size_t ranked) {
  const std::vector<MatmulAlgorithm>& ways = contest.search.ways();
  const auto is_own = [](const MatmulAlgorithm& way) {
    return !std::holds_alternative<cuda::cublasLtMatmulAlgo_t>(way);
  };
  const auto own = static_cast<std::size_t>(std::count_if(ways.begin(), ways.end(), is_own));
  std::size_t winner = 0;
  double best_ms = INFINITY;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    if (way == own + ranked && (is_own(ways[winner]) || best_ms >= 0.5)) break;
    const double ms = old_style_ms(contest, way, best_ms);
    if (ms < best_ms) {
      best_ms = ms;
      winner = way;
    }
  }
  return winner;
}

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

double median_us(std::vector<double> launches_ms) {
  std::sort(launches_ms.begin(), launches_ms.end());
  return 1000 * launches_ms[launches_ms.size() / 2];
}

template <typename Call>
double taken_ms(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void run(CudaContext& context, const Case& what) {
  Contest contest(context, what);
  const CudaContext::Scope scope(context);
  if (!contest.search.can_measure()) throw Error("the GPU has not enough memory for the operands of " + what.label);
  const std::vector<cuda::cublasLtMatmulAlgo_t> ranked = contest.plan.candidates(kRanked);
  const double new_search_ms = taken_ms([&] { contest.search.fastest(ranked); });
  if (contest.search.race().finalists().empty()) return;
  const std::size_t after = contest.search.race().finalists().front().way;
  std::size_t before = 0;
  const double old_search_ms = taken_ms([&] { before = old_style_winner(contest, ranked.size()); });

  const double launch_ms = contest.search.race().finalists().front().card_ms;
  const int launches = std::clamp(static_cast<int>(kBatchMs / launch_ms), 1, kMostLaunches);
  std::vector<double> cold[2], warm[2];
  for (int round = 0; round < kRounds; ++round) {
    for (const int turn : {round % 2, 1 - round % 2}) {
      const std::size_t way = turn == 0 ? before : after;
      cold[turn].push_back(contest.cold_batch_ms(way, launches) / launches);
      warm[turn].push_back(contest.warm_batch_ms(way, launches, launches) / launches);
    }
  }
  const auto ratio = [](const std::vector<double>(&times)[2]) { return median_us(times[1]) / median_us(times[0]); };
  fmt::print("{:<34} {:<32} {:<32} {:>8.2f} {:>8.2f} {:>6.3f} {:>8.2f} {:>8.2f} {:>6.3f} {:>5} {:>7.0f} {:>7.0f}\n",
             what.label, describe(contest.search.ways()[before]), describe(contest.search.ways()[after]),
             median_us(cold[0]), median_us(cold[1]), ratio(cold), median_us(warm[0]), median_us(warm[1]), ratio(warm),
             contest.search.ways().size(), old_search_ms, new_search_ms);
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

// Scores and their product with the values, for heads of 64.
void add_attention(std::vector<Case>& cases, const Case& of, std::int64_t tokens, std::int64_t heads) {
  const TensorLayout q = dense_layout({of.dtype, {heads, tokens, 64}});
  const TensorLayout scores = dense_layout({of.dtype, {heads, tokens, tokens}});
  const std::string shape = fmt::format("{} {} heads {}", of.label, tokens, heads);
  cases.push_back({shape + " qk", of.dtype, of.tf32, q, transposed(q), scores});
  cases.push_back({shape + " pv", of.dtype, of.tf32, scores, q, q});
}

Case precision(std::string_view text) {
  Case made;
  made.label = text;
  made.tf32 = text == "tf32";
  if (text == "bf16") made.dtype = DType::bf16;
  if (text == "fp16") made.dtype = DType::fp16;
  return made;
}

void run_all(const std::vector<std::string>& arguments) {
  std::vector<Case> precisions;
  std::vector<std::int64_t> lengths;
  for (const std::string& argument : arguments) {
    if (const std::int64_t tokens = std::atoll(argument.c_str()); tokens > 0) {
      lengths.push_back(tokens);
    } else {
      precisions.push_back(precision(argument));
    }
  }
  if (precisions.empty()) precisions = {precision("fp32"), precision("bf16")};
  if (lengths.empty()) lengths = {32, 128, 512, 2048};
  std::vector<Case> cases;
  for (const Case& of : precisions) {
    for (const std::int64_t tokens : lengths) {
      add_linear(cases, of, tokens, 128, 384);  // tiny
      for (const std::int64_t width : {768, 1280, 2560}) {
        add_linear(cases, of, tokens, width, width);
        add_linear(cases, of, tokens, width, 4 * width);
      }
      add_attention(cases, of, tokens, 12);
    }
  }
  CudaContext& context = CudaContext::of_card(0);
  fmt::print("{:<34} {:<32} {:<32} {:^24} {:^24} {:>5} {:>15}\n", context.card().name, "old choice", "new choice",
             "cold: old new ratio", "warm: old new ratio", "ways", "search ms");
  for (const Case& what : cases) run(context, what);
}

}  // namespace
}  // namespace ridgepoint

int main(int count, char** arguments) {
  try {
    ridgepoint::run_all({arguments + 1, arguments + count});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "matmul_race: {}\n", error.what());
    return 1;
  }
}
