#include "passes/training/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "core/text/nearest.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, 3> kKeys = {"r", "alpha", "targets"};

template <typename Number>
Number number_of(std::string_view key, std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  throw Error(fmt::format("{}: '{}' is not a {}", key, text, std::is_integral_v<Number> ? "whole number" : "number"),
              ErrorKind::usage);
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
      throw Error(fmt::format("'{}' is no KEY=VALUE; write r=16,alpha=32,targets=q_proj,v_proj", item),
                  ErrorKind::usage);
    options_.targets.emplace_back(item);
  }

  void set(std::string_view key, std::string_view value) {
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
  bool in_targets_ = false;
};

}  // namespace

void check(const LoraOptions& options) {
  if (options.rank < 1)
    throw Error(fmt::format("r: {} is out of range; the rank is at least 1", options.rank), ErrorKind::usage);
  if (!std::isfinite(options.alpha) || options.alpha <= 0)
    throw Error(fmt::format("alpha: {} is out of range; it is greater than 0", options.alpha), ErrorKind::usage);
  for (const std::string& target : options.targets) {
    if (target.empty()) throw Error("targets: an empty name; write targets=q_proj,v_proj", ErrorKind::usage);
  }
}

LoraOptions lora_from_text(std::string_view text) { return Reader().read(text); }

std::string to_text(const LoraOptions& options) {
  return fmt::format("r={},alpha={},targets={}", options.rank, options.alpha, fmt::join(options.targets, ","));
}

}  // namespace ridgepoint
