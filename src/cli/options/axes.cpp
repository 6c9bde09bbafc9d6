// How each swept option of settings.def changes a run. The member of a line of run_settings.def has the value of its
// option; another new option is a member of RunDraft or its RunConfig, and a line in setters().
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <type_traits>

#include "cli/options/card.h"
#include "cli/options/choices.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/messages.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "interchange/huggingface/named_model.h"
#include "record/columns.h"
#include "record/fields.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

using D = RunDraft;
using Text = const std::string&;
using Int = std::int64_t;
using Changes = std::vector<Axis::Change>;

// Reads the text of an option: a change of the run for each value.
struct Setter {
  std::string_view option;
  std::function<Changes(std::string_view text, const Setting& setting, const Option& option)> changes;
  bool takes_list = true;
  bool is_repeated = false;
};

void check_choice(std::string_view value, const std::vector<std::string_view>& names) {
  if (std::ranges::find(names, value) == names.end()) refuse_name(value, "'{}' is unknown", names);
}

// One of the names of the setting.
template <typename Apply>
auto names(Apply apply) {
  return [apply](std::string_view text, const Setting& setting, const Option&) {
    Changes changes;
    for (const std::string& item : split_list(text)) {
      const std::string value(usual_value(setting, item));
      check_choice(value, setting.accepted());
      changes.emplace_back([apply, value](D& draft) { apply(draft, value); });
    }
    return changes;
  };
}

NumberRule rule_of(const Setting& setting, const Option& option) {
  const auto parse = option.is_in_tokens ? parse_tokens : parse_integer;
  return {option.least, option.most, setting.kind == Kind::bytes ? parse_bytes : parse};
}

// Whole numbers and ranges of them.
template <typename Apply>
auto numbers(Apply apply) {
  return [apply](std::string_view text, const Setting& setting, const Option& option) {
    Changes changes;
    for (const Int value : parse_numbers(text, rule_of(setting, option)))
      changes.emplace_back([apply, value](D& draft) { apply(draft, value); });
    return changes;
  };
}

// Decimal digits with a point, or an exponent: 0.9, 1e-2.
double parse_real(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && std::isfinite(value)) return value;
  refuse("'{}' is not a number; write it as 0.9 or 1e-2", text);
}

// Real numbers below `limit`, 0 at least; `rule` says so.
template <typename Apply>
auto reals(double limit, const char* rule, Apply apply) {
  return [limit, rule, apply](std::string_view text, const Setting&, const Option&) {
    Changes changes;
    for (const std::string& item : split_list(text)) {
      const double value = parse_real(item);
      if (!(value >= 0 && value < limit)) refuse("'{}' is out of range; {}", value, rule);
      changes.emplace_back([apply, value](D& draft) { apply(draft, value); });
    }
    return changes;
  };
}

// One value, whose commas separate parts of it.
template <typename Read>
auto single(Read read) {
  return [read](std::string_view text, const Setting&, const Option&) { return Changes{read(text)}; };
}

// Accepts any GPU number: a GPU that does not exist makes the row unsupported when the device is opened.
Changes devices(std::string_view text, const Setting& setting, const Option&) {
  const NumberRule cards{0, 1023, parse_integer};
  Changes changes;
  for (const std::string& item : split_list(text)) {
    const std::size_t colon = std::min(item.find(':'), item.size());
    const std::string kind(usual_value(setting, std::string_view(item).substr(0, colon)));
    const std::string value = kind + item.substr(colon);
    check_choice(kind == "cuda" ? kind : value, setting.accepted());
    if (colon < item.size()) parse_numbers(item.substr(colon + 1), cards);
    changes.emplace_back([value](D& draft) { draft.config.device = value; });
  }
  return changes;
}

// Takes any text: model_of() finds the model, when the fields that replace others are known too.
Changes models(std::string_view text, const Setting&, const Option&) {
  Changes changes;
  for (const std::string& value : split_list(text))
    changes.emplace_back([value](D& draft) { draft.model_name = value; });
  return changes;
}

// The windows of a model's layers, each once; 0: all keys.
std::vector<Int> windows_of(const TransformerConfig& model) {
  const Architecture& architecture = model.architecture;
  const auto period = static_cast<Int>(std::max<std::size_t>(architecture.window_layers.size(), 1));
  std::vector<Int> windows;
  for (Int layer = 0; layer < std::min(model.layers, period); ++layer) {
    const Int window = architecture.has_window(layer) ? architecture.window : 0;
    if (std::ranges::find(windows, window) == windows.end()) windows.push_back(window);
  }
  return windows;
}

// Of calls of attention: a change for each kind of layer. The options behind this one replace what it sets.
Changes layers_of_models(std::string_view text, const Setting&, const Option&) {
  Changes changes;
  for (const std::string& value : split_list(text)) {
    const TransformerConfig model = named_model(value).config;
    for (const Int window : windows_of(model)) {
      changes.emplace_back([value, model, window](D& d) {
        d.model_name = value;
        d.model.name = model.name;
        d.heads = model.heads;
        d.kv_heads = model.kv_heads();
        d.d_model = model.heads * model.head_size();
        d.causal = model.architecture.is_causal;
        d.window = window;
        d.soft_cap = model.architecture.score_cap;
      });
    }
  }
  return changes;
}

// Words and numbers in one list.
Changes loss_chunks(std::string_view text, const Setting& setting, const Option& option) {
  static_assert(kLossChunkRows == 2048, "the help of --loss-chunk says it");
  Changes changes;
  const auto add = [&](std::optional<Int> rows) {
    changes.emplace_back([rows](D& draft) { draft.config.compile.loss_chunk_rows = rows; });
  };
  for (const std::string& value : split_list(text)) {
    if (value == "auto") {
      add(std::nullopt);
    } else if (value == "off") {
      add(0);
    } else {
      for (const Int rows : parse_numbers(value, rule_of(setting, option))) add(rows);
    }
  }
  return changes;
}

// A number alone would be bytes, and never what was meant.
Int memory_with_unit(std::string_view text) {
  if (!text.empty() && text.back() >= '0' && text.back() <= '9') refuse("'{0}' has no unit; write {0}GiB", text);
  return parse_bytes(text);
}

Changes memories(std::string_view text, const Setting&, const Option&) {
  Changes changes;
  for (const Int bytes : parse_numbers(text, {.parse = memory_with_unit}))
    changes.emplace_back([bytes](D& draft) { draft.config.fit_into_bytes = static_cast<std::size_t>(bytes); });
  return changes;
}

Changes cards(std::string_view text, const Setting&, const Option&) {
  Changes changes;
  for (const std::string& name : split_list(text))
    changes.emplace_back([&card = card_named(name)](D& draft) { draft.card = &card; });
  return changes;
}

Axis::Change override_of(std::string_view text) {
  parse_config_overrides(text);
  return [overrides = std::string(text)](D& draft) { draft.config_overrides = overrides; };
}

Axis::Change no_decay_of(std::string_view text) {
  return [patterns = split_list(text)](D& draft) { draft.config.compile.optimizer.no_decay = patterns; };
}

Axis::Change lora_of(std::string_view text) {
  return [options = lora_from_text(text)](D& draft) { draft.config.compile.lora = options; };
}

Axis::Change folder_of(std::string_view text) {
  return [folder = std::string(text)](D& draft) { draft.config.compile.offload_folder = folder; };
}

Changes divisions(std::string_view text, const Setting&, const Option&) { return divisions_of(text); }

// Each time that the option is given, what lies on the host is one value.
Changes offloads(std::string_view text, const Setting&, const Option&) {
  Changes changes;
  for (const std::string_view one : repeated_values(text))
    changes.emplace_back([set = offload_from_name(one)](D& draft) { draft.config.compile.offload = set; });
  return changes;
}

Axis::Change network_of(std::string_view text) {
  return [network = network_from_text(text)](D& draft) { draft.config.network = network; };
}

// Of a line of run_settings.def, by the type of its member. `reach` finds the member in a configuration.
template <typename Reach>
Setter setter_of(std::string_view path, Reach reach) {
  using Member = std::remove_reference_t<std::invoke_result_t<Reach, RunConfig&>>;
  const std::string_view option = std::ranges::find(record_settings(), path, &Setting::path)->option.name();
  const auto set = [reach](D& d, auto value) { reach(d.config) = value; };
  if constexpr (std::is_same_v<Member, bool>) {
    return {option, names([set](D& d, Text v) { set(d, v == "on" || v == "true"); })};
  } else if constexpr (std::is_enum_v<Member>) {
    return {option, names([set](D& d, Text v) {
              set(d, *std::ranges::find(values_of(Member()), v, [](Member each) { return name(each); }));
            })};
  } else if constexpr (std::is_same_v<Member, Int>) {
    return {option, numbers(set)};
  } else {
    const auto read = [set](std::string_view text) {
      return [set, texts = split_list(text)](D& draft) { set(draft, texts); };
    };
    return {option, single(read), false};
  }
}

const std::vector<Setter>& setters() {
  static const std::vector<Setter> all = {
      {"device", devices},
      {"threads", numbers([](D& d, Int v) { d.config.device_options.threads = static_cast<int>(v); })},
      {"memory-limit",
       numbers([](D& d, Int v) { d.config.device_options.memory_limit_bytes = static_cast<std::size_t>(v); })},
      {"card", cards},
      {"workload", names([](D& d, Text v) { d.workload = v; })},
      {"model", models},
      {"config-override", single(override_of), false},
      {"layers", numbers([](D& d, Int v) { d.layers = v; })},
      {"d-model", numbers([](D& d, Int v) { d.d_model = v; })},
      {"d-ff", numbers([](D& d, Int v) { d.d_ff = v; })},
      {"heads", numbers([](D& d, Int v) { d.heads = v; })},
      {"head-dim", numbers([](D& d, Int v) { d.head_dim = v; })},
      {"kv-heads", numbers([](D& d, Int v) { d.kv_heads = v; })},
      {"vocab", numbers([](D& d, Int v) { d.vocab = v; })},
      {"context", numbers([](D& d, Int v) { d.model.context = v; })},
      {"sequence", numbers([](D& d, Int v) { d.model.context = v; })},
      {"keys", numbers([](D& d, Int v) { d.keys = v; })},
      {"batch", numbers([](D& d, Int v) { d.batch = v; })},
      {"dtype", names([](D& d, Text v) { d.config.compile.precision = precision_from_name(v); })},
      {"compile", names([](D& d, Text v) { d.config.compile.level = compile_from_name(v); })},
      {"allocator", names([](D& d, Text v) { d.config.allocator = allocator_kind_from_name(v); })},
      {"attention", names([](D& d, Text v) { d.model.attention = attention_variant_from_name(v); })},
      {"causal", names([](D& d, Text v) { d.causal = v == "true"; })},
      {"window", numbers([](D& d, Int v) { d.window = v; })},
      {"soft-cap", reals(HUGE_VAL, "the cap is greater than 0, or 0 for none", [](D& d, double v) { d.soft_cap = v; })},
      {"checkpoint", names([](D& d, Text v) { d.config.compile.checkpoint = checkpoint_from_name(v); })},
      {"segment", numbers([](D& d, Int v) { d.config.compile.checkpoint_segment = v; })},
      {"loss-chunk", loss_chunks},
      {"fit-into", memories},
      {"mode", names([](D& d, Text v) { d.config.compile.mode = mode_from_name(v); })},
      {"as", names([](D& d, Text v) { d.config.plan_as = plan_as_from_name(v); })},
      {"keep-output", names([](D& d, Text v) { d.config.keeps_output = v == "true"; })},
      {"optimizer", names([](D& d, Text v) { d.config.compile.optimizer.kind = optimizer_from_name(v); })},
      {"momentum", reals(1, "the momentum is at least 0 and less than 1", [](D& d, double v) { d.momentum = v; })},
      {"weight-decay", reals(HUGE_VAL, "the weight decay is at least 0", [](D& d, double v) { d.weight_decay = v; })},
      {"no-decay", single(no_decay_of), false},
      {"clip-norm",
       reals(HUGE_VAL, "the norm is greater than 0, or 0 for none",
             [](D& d, double v) { d.config.compile.clip_norm = v > 0 ? std::optional(v) : std::nullopt; })},
      {"z-loss", reals(HUGE_VAL, "the factor is at least 0", [](D& d, double v) { d.config.compile.z_loss = v; })},
      {"lora", single(lora_of), false},
      {"offload", offloads, true, true},
      {"host-memory",
       numbers([](D& d, Int v) { d.config.compile.host_memory_limit_bytes = static_cast<std::size_t>(v); })},
      {"offload-folder", single(folder_of), false},
      {"parallel", divisions, false, true},
      {"shard", names([](D& d, Text v) {
         d.config.choose_sharding = v == "auto";
         if (!d.config.choose_sharding) d.config.compile.parallel.shard = sharding_from_name(v);
       })},
      {"network", single(network_of), false},
#define RIDGEPOINT_COMPILE_SETTING(type, member, ...) \
  setter_of(#member, [](RunConfig& config) -> type& { return config.compile.member; }),
#define RIDGEPOINT_RUN_SETTING(type, member, ...) \
  setter_of(#member, [](RunConfig& config) -> type& { return config.member; }),
#include "ridgepoint/ops/run_settings.def"
#undef RIDGEPOINT_COMPILE_SETTING
#undef RIDGEPOINT_RUN_SETTING
  };
  return all;
}

}  // namespace

Axis axis_of(std::string_view name, Rows rows) {
  const Setting& setting = setting_of_option(name);
  const bool is_of_calls = rows == Rows::attention_calls && !setting.call_option.names.empty();
  const Option& option = is_of_calls ? setting.call_option : setting.option;
  const OptionText text = text_of(setting, option);
  const Setter& setter = *std::ranges::find(setters(), name, &Setter::option);
  std::function changes = setter.changes;
  if (rows == Rows::attention_calls && name == "model") changes = layers_of_models;
  return {.setting = &setting,
          .text = text,
          .given = text.initial,
          .changes = [changes, &setting, &option](std::string_view words) { return changes(words, setting, option); },
          .takes_list = setter.takes_list,
          .is_repeated = setter.is_repeated};
}

}  // namespace ridgepoint::cli
