#include "memory/caching_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kMostMiB = std::size_t{1} << 40;  // of memory; past this, sizes would not fit in 64 bits

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw_error(ErrorKind::usage, "{} takes {}, not '{}'", name, expected, printable(value));
}

template <typename Number>
Number number_of(std::string_view name, std::string_view text, std::string_view expected) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) refuse(name, text, expected);
  return number;
}

// A size of at least `least` MiB, in bytes.
std::size_t mebibytes(std::string_view name, std::string_view text, std::size_t least) {
  const std::string expected = fmt::format("a number of MiB of at least {}", least);
  const auto number = number_of<std::size_t>(name, text, expected);
  if (number < least) refuse(name, text, expected);
  return std::min(number, kMostMiB) * kMiB;
}

bool truth(std::string_view name, std::string_view text) {
  if (text != "True" && text != "False") refuse(name, text, "True or False");
  return text == "True";
}

std::size_t division(std::string_view name, std::string_view text, bool may_be_zero) {
  const auto number = number_of<std::size_t>(name, text, "powers of two");
  if (!std::has_single_bit(number) && !(may_be_zero && number == 0)) refuse(name, text, "powers of two");
  return number;
}

// "[256:1,512:2,>:8]": the number of steps for sizes from so many MiB on, until twice that. The first also counts for
// smaller sizes, and `>` for all that are larger than the size before it.
void set_divisions_by_size(std::string_view name, std::string_view list, CachingRules& rules) {
  constexpr std::string_view kExpected = "a power of two, or a list like [256:1,512:2,>:8]";
  const std::string_view whole = list;
  if (!list.ends_with(']')) refuse(name, whole, kExpected);
  list = list.substr(1, list.size() - 2);
  std::size_t next = 0;
  for (bool is_first = true; !list.empty(); is_first = false) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) refuse(name, whole, kExpected);
    const std::string_view size = item.substr(0, colon);
    const std::size_t steps = division(name, item.substr(colon + 1), true);
    if (size == ">") {
      std::fill(rules.divisions.begin() + static_cast<std::ptrdiff_t>(next), rules.divisions.end(), steps);
      continue;
    }
    const std::size_t exponent = static_cast<std::size_t>(std::countr_zero(division(name, size, false)));
    const std::size_t index = std::min(exponent, rules.divisions.size() - 1);
    if (is_first) std::fill_n(rules.divisions.begin(), index, steps);
    rules.divisions[index] = steps;
    next = index + 1;
  }
}

void set_divisions(std::string_view name, std::string_view value, CachingRules& rules) {
  if (value.starts_with('[')) {
    set_divisions_by_size(name, value, rules);
  } else {
    rules.divisions.fill(division(name, value, false));
  }
  rules.has_divisions = std::ranges::any_of(rules.divisions, [](std::size_t steps) { return steps > 1; });
}

struct Setting {
  std::string_view name;
  void (*set)(std::string_view name, std::string_view value, CachingRules& rules);
};

void ignore(std::string_view /*name*/, std::string_view /*value*/, CachingRules& /*rules*/) {}

constexpr std::size_t kLeastSplitMiB = 20;
constexpr std::size_t kLeastSegmentMiB = 11;

constexpr Setting kSettings[] = {
    {"expandable_segments", [](std::string_view name, std::string_view value,
                               CachingRules& rules) { rules.has_expandable_segments = truth(name, value); }},
    {"max_split_size_mb", [](std::string_view name, std::string_view value,
                             CachingRules& rules) { rules.max_split_bytes = mebibytes(name, value, kLeastSplitMiB); }},
    {"max_non_split_rounding_mb",
     [](std::string_view name, std::string_view value, CachingRules& rules) {
       rules.max_excess_bytes = mebibytes(name, value, kLeastSplitMiB);
     }},
    {"large_segment_size_mb",
     [](std::string_view name, std::string_view value, CachingRules& rules) {
       rules.large_segment_bytes = mebibytes(name, value, kLeastSegmentMiB);
     }},
    {"garbage_collection_threshold",
     [](std::string_view name, std::string_view value, CachingRules& rules) {
       const auto share = number_of<double>(name, value, "a number between 0 and 1");
       if (!(share > 0 && share < 1)) refuse(name, value, "a number between 0 and 1");
       rules.collection_threshold = share;
     }},
    {"roundup_power2_divisions", set_divisions},
};

// What changes no block.
constexpr Setting kOthers[] = {
    {"backend",
     [](std::string_view name, std::string_view value, CachingRules& /*rules*/) {
       if (value != "native") refuse(name, value, "native here: this is the allocator that is replayed");
     }},
    {"release_lock_on_cudamalloc", ignore},
    {"graph_capture_record_stream_reuse", ignore},
    {"throw_on_cudamalloc_oom", ignore},
    {"pinned_use_cuda_host_register", ignore},
    {"pinned_num_register_threads", ignore},
    {"pinned_reserve_segment_size_mb", ignore},
    {"pinned_use_background_threads", ignore},
};

const Setting& setting_named(std::string_view name) {
  for (const std::span<const Setting> settings :
       {std::span<const Setting>(kSettings), std::span<const Setting>(kOthers)})
    for (const Setting& setting : settings)
      if (setting.name == name) return setting;
  std::vector<std::string_view> names;
  for (const Setting& setting : kSettings) names.push_back(setting.name);
  refuse_name(name, "'{}' is not a setting of PyTorch's allocator", names);
}

// Up to the next comma outside of brackets, which is removed too.
std::string_view take_setting(std::string_view& configuration) {
  std::size_t end = configuration.find(',');
  const std::size_t open = configuration.find('[');
  if (open < end) {
    const std::size_t close = configuration.find(']', open);
    end = close == std::string_view::npos ? close : configuration.find(',', close);
  }
  const std::string_view setting = configuration.substr(0, end);
  configuration.remove_prefix(std::min(configuration.size(), setting.size() + 1));
  return setting;
}

}  // namespace

std::size_t CachingRules::divided_bytes(std::size_t bytes) const {
  constexpr int kFirst = 21;  // the bits of 1 MiB
  const auto bits = static_cast<int>(std::bit_width(bytes));
  const auto index = std::min(static_cast<std::size_t>(std::max(bits - kFirst, 0)), divisions.size() - 1);
  const std::size_t steps = divisions[index], blocks = block_bytes(bytes);
  if (steps <= 1 || blocks / kBlockBytes <= steps) return blocks;
  return round_up(bytes, std::bit_floor(bytes) / steps);
}

CachingRules parse_caching_rules(std::string_view configuration) {
  CachingRules rules;
  std::string spaceless(configuration);
  std::erase_if(spaceless, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  if (spaceless == "default") return rules;
  for (std::string_view rest = spaceless; !rest.empty();) {
    const std::string_view item = take_setting(rest);
    const std::size_t colon = item.find(':');
    const std::string_view name = item.substr(0, colon);
    const Setting& setting = setting_named(name);
    if (colon == std::string_view::npos) throw_error(ErrorKind::usage, "'{}' has no value; write {}:VALUE", name, name);
    setting.set(setting.name, item.substr(colon + 1), rules);
  }
  return rules;
}

}  // namespace ridgepoint
