#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, 3> kKeys = {"r", "alpha", "targets"};

template <typename Number>
Number number_of(std::string_view key, std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  throw_error(ErrorKind::usage, "{}: '{}' is not a {}", key, text,
              std::is_integral_v<Number> ? "whole number" : "number");
}

class Reader {
 public:
  LoraOptions read(std::string_view text) {
    for (std::string_view rest = text;; rest.remove_prefix(rest.find(',') + 1)) {
      const std::string_view item = rest.substr(0, rest.find(','));
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos) {
        add_target(item);
      } else {
        set(item.substr(0, equals), item.substr(equals + 1));
      }
      if (item.size() == rest.size()) break;
    }
    options_.alpha = alpha_.value_or(static_cast<double>(options_.rank));
    check(options_);
    return options_;
  }

 private:
  void add_target(std::string_view item) {
    if (!in_targets_)
      throw_error(ErrorKind::usage, "'{}' is no KEY=VALUE; write r=16,alpha=32,targets=q_proj,v_proj", item);
    options_.targets.emplace_back(item);
  }

  void set(std::string_view key, std::string_view value) {
    if (std::ranges::find(seen_, key) != seen_.end())
      throw_error(ErrorKind::usage, "{} is given twice; give it once", key);
    seen_.emplace_back(key);
    in_targets_ = key == "targets";
    if (key == "r") {
      options_.rank = number_of<std::int64_t>(key, value);
    } else if (key == "alpha") {
      alpha_ = number_of<double>(key, value);
    } else if (in_targets_) {
      options_.targets = {std::string(value)};
    } else {
      refuse_name(key, "unknown key '{}'", kKeys);
    }
  }

  LoraOptions options_;
  std::optional<double> alpha_;
  std::vector<std::string> seen_;  // keys
  bool in_targets_ = false;
};

// Adds the low-rank adapters of options.lora (ridgepoint/ops/adapters.h) to the linear layers that it targets, and
// freezes every other parameter. A linear layer is a product of rows with a parameter "MODULE.weight", [out, in] and
// transposed, or [in, out]. Its adapters are the parameters "MODULE.lora_A.weight" and "MODULE.lora_B.weight".
// A target that matches no layer of the graph may match a published layer that packs several layers. The packed layers
// share one pair of adapters, as in PEFT: A [r, in] is multiplied once, and the rows of B belong to the layers in
// order. The pair has the name of the published layer: "layers.0.attn.qkv_proj.lora_A.weight".
constexpr std::string_view kWeight = ".weight";

// A layer that a model uses twice has two products, and one pair of adapters.
struct Linear {
  std::string module;
  std::int64_t in = 0, out = 0;
  std::vector<NodeId> products = {};
};

std::optional<Linear> linear_of(const Graph& graph, const Node& product) {
  if (product.op != Op::matmul || graph.type(product.outputs[0]).shape.rank() != 2) return std::nullopt;
  const Node* weight = &graph.producer_node(product.inputs[1]);
  if (weight->op == Op::transpose) weight = &graph.producer_node(weight->inputs[0]);
  if (weight->op != Op::input || input_role(*weight) != Role::parameter) return std::nullopt;
  const std::string& name = input_name(*weight);
  if (!name.ends_with(kWeight)) return std::nullopt;
  const Shape& operand = graph.type(product.inputs[1]).shape;
  return Linear{name.substr(0, name.size() - kWeight.size()), operand[0], operand[1]};
}

std::vector<Linear> linears_of(const Graph& graph) {
  std::vector<Linear> linears;
  for (const NodeId id : graph.order()) {
    std::optional<Linear> found = linear_of(graph, graph.node(id));
    if (!found) continue;
    auto known = std::ranges::find(linears, found->module, &Linear::module);
    if (known == linears.end()) known = linears.insert(known, std::move(*found));
    known->products.push_back(id);
  }
  return linears;
}

// Layers that share a pair of adapters, in the order of the rows of B.
struct Target {
  std::string module;  // the name of the pair
  std::vector<Linear> layers;
};

// Adds the layers that are not there yet. Throws Error (usage) for a layer that another target groups with other
// layers.
void add_target(std::vector<Target>& targets, Target target) {
  if (std::ranges::find(targets, target.module, &Target::module) != targets.end()) return;
  for (const Target& other : targets) {
    for (const Linear& layer : target.layers) {
      if (std::ranges::find(other.layers, layer.module, &Linear::module) == other.layers.end()) continue;
      throw_error(ErrorKind::usage, "targets: '{}' and '{}' both change {}; give one of the two", other.module,
                  target.module, layer.module);
    }
  }
  targets.push_back(std::move(target));
}

// Finds the layers that the targets of the options name.
class TargetFinder {
 public:
  TargetFinder(const Graph& graph, const LoraOptions& options) : options_(options), linears_(linears_of(graph)) {
    for (const PublishedLayer& layer : options.published) {
      if (std::optional<Target> target = target_of(layer)) published_.emplace_back(layer.name, std::move(*target));
    }
  }

  std::vector<Target> find() const {
    std::vector<std::string> names;
    for (const Linear& linear : linears_) names.push_back(linear.module);
    for (const auto& [name, target] : published_) names.push_back(name);
    require_usual_targets(names);
    matches_of(options_.targets, names, "linear layer");
    std::vector<Target> targets;
    for (const std::string& pattern : options_.targets) {
      for (Target& target : named(pattern)) add_target(targets, std::move(target));
    }
    return targets;
  }

 private:
  // If the user named no targets, a model without the default targets needs other names, not another spelling.
  void require_usual_targets(const std::vector<std::string>& names) const {
    if (options_.targets != LoraOptions().targets) return;
    const auto is_found = [&](const std::string& pattern) {
      return std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); });
    };
    if (std::ranges::all_of(options_.targets, is_found)) return;
    std::set<std::string> last_parts;
    for (const std::string& name : names) last_parts.insert(name.substr(name.rfind('.') + 1));
    throw_error(ErrorKind::usage,
                "the model lacks {}, the targets where none are given; name others with targets=: it has {}",
                fmt::join(options_.targets, " or "), fmt::join(last_parts, ", "));
  }

  // Empty if the graph lacks a layer, because its weight belongs to another kind of product.
  std::optional<Target> target_of(const PublishedLayer& layer) const {
    Target target;
    for (const std::string& module : layer.modules) {
      const auto found = std::ranges::find(linears_, module, &Linear::module);
      if (found == linears_.end()) return std::nullopt;
      target.layers.push_back(*found);
    }
    target.module = layer.adapted_name();
    return target;
  }

  std::vector<Target> named(const std::string& pattern) const {
    std::vector<Target> found;
    for (const Linear& linear : linears_) {
      if (matches(pattern, linear.module)) found.push_back({linear.module, {linear}});
    }
    if (!found.empty()) return found;
    for (const auto& [name, target] : published_) {
      if (matches(pattern, name)) found.push_back(target);
    }
    return found;
  }

  const LoraOptions& options_;
  std::vector<Linear> linears_;
  std::vector<std::pair<std::string, Target>> published_;
};

class AdapterBuilder {
 public:
  AdapterBuilder(Graph& graph, const LoraOptions& options) : graph_(graph), options_(options), rewriter_(graph) {}

  void run() {
    for (const Target& target : TargetFinder(graph_, options_).find()) {
      for (std::size_t use = 0; use < target.layers.front().products.size(); ++use) adapt(target, use);
    }
    rewriter_.finish();
  }

 private:
  void adapt(const Target& target, std::size_t use) {
    std::vector<NodeId> products;
    std::vector<std::int64_t> rows;
    for (const Linear& layer : target.layers) {
      products.push_back(layer.products.at(use));
      rows.push_back(layer.out);
    }
    rewriter_.insert_before(first_of(products));
    const std::int64_t out = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    const Value down = parameter(target.module + std::string(kLoraA), {options_.rank, target.layers.front().in});
    const Value up = parameter(target.module + std::string(kLoraB), {out, options_.rank});
    const Value x = graph_.node(products.front()).inputs[0];
    Value low;
    {
      const ScopeGuard scope(graph_, "lora");
      const double factor = options_.alpha / static_cast<double>(options_.rank);
      low = scale(graph_, matmul(graph_, x, transpose(graph_, down, {1, 0})), factor);
    }
    const std::vector<Value> ups = rows.size() == 1 ? std::vector{up} : split(graph_, up, 0, rows);
    for (std::size_t i = 0; i < products.size(); ++i) change(products[i], x, low, ups[i]);
  }

  NodeId first_of(const std::vector<NodeId>& products) const {
    const auto order = graph_.order();
    return *std::ranges::find_first_of(order, products);
  }

  void change(NodeId id, Value x, Value low, Value up) {
    const Node product = graph_.node(id);
    if (product.inputs[0] != x) throw Error("layers that share adapters must have one operand");
    rewriter_.insert_before(id);
    const Value base = graph_.node(make_node(graph_, Op::matmul, product.inputs, product.attributes)).outputs[0];
    Value difference;
    {
      const ScopeGuard scope(graph_, "lora");
      difference = matmul(graph_, low, transpose(graph_, up, {1, 0}));
    }
    const Value result = add(graph_, base, difference);
    rewriter_.replace_by_new(id, {&result, 1});
  }

  Value parameter(const std::string& name, Shape shape) {
    if (const std::optional<Value> known = graph_.find_input(name)) return *known;
    return input(graph_, name, {DType::fp32, std::move(shape)}, Role::parameter);
  }

  Graph& graph_;
  const LoraOptions& options_;
  Rewriter rewriter_;
};

}  // namespace

void check(const LoraOptions& options) {
  if (options.rank < 1) throw_error(ErrorKind::usage, "r: {} is out of range; the rank is at least 1", options.rank);
  if (!std::isfinite(options.alpha) || options.alpha <= 0)
    throw_error(ErrorKind::usage, "alpha: {} is out of range; it is greater than 0", options.alpha);
  for (const std::string& target : options.targets) {
    if (target.empty()) throw Error("targets: an empty name; write targets=q_proj,v_proj", ErrorKind::usage);
  }
}

LoraOptions lora_from_text(std::string_view text) { return Reader().read(text); }

std::string to_text(const LoraOptions& options) {
  return fmt::format("r={},alpha={},targets={}", options.rank, options.alpha, fmt::join(options.targets, ","));
}

bool add_adapters(Graph& graph, const PassOptions& options) {
  if (!options.lora) return false;
  check(*options.lora);
  for (const NodeId id : graph.inputs(Role::parameter)) graph.node(id).attributes.set(kFrozen, true);
  AdapterBuilder(graph, *options.lora).run();
  return true;
}

}  // namespace ridgepoint
