// The lists of options. A new option is a member of RunDraft or its RunConfig and a line here.
#include "cli/options/axis_kinds.h"
#include "cli/options/rank_options.h"
#include "cli/options/training_options.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "interchange/huggingface/named_model.h"
#include "ridgepoint/compile.h"

namespace ridgepoint::cli {
namespace {

const NumberRule kPositive{1, INT64_MAX, parse_integer};
const NumberRule kCount{0, INT64_MAX, parse_integer};
const NumberRule kIterations{1, 1'000'000, parse_integer};
const NumberRule kWarmups{0, 1'000'000, parse_integer};
const NumberRule kThreads{0, 4096, parse_integer};
const NumberRule kCards{0, 1023, parse_integer};
const NumberRule kBytes{1, INT64_MAX, parse_bytes};

// Takes any text: model_of() finds the model, when the fields that replace others are known too.
Axis model_axis(std::string group) {
  const auto parse = [](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (const std::string& value : split_list(text))
      settings.emplace_back([value](RunDraft& draft) { draft.model_name = value; });
    return settings;
  };
  std::string help = "a preset (";
  for (const TransformerConfig& preset : transformer_presets())
    help += fmt::format("{}{}", help.ends_with('(') ? "" : ", ", preset.name);
  help +=
      "), a model of 'ridgepoint models', or the path of a Hugging Face config.json, of its folder or of a safetensors "
      "file beside it [tiny]";
  return {"--model", std::move(group), "NAME", std::move(help), parse, "", model_names()};
}

// One setting, because the commas separate fields.
std::vector<Axis::Setting> parse_override(std::string_view text) {
  parse_config_overrides(text);
  return {[overrides = std::string(text)](RunDraft& draft) { draft.config_overrides = overrides; }};
}

// Accepts any GPU number: a GPU that does not exist makes the row unsupported when the device is opened.
Axis device_axis(std::string group) {
  const AcceptedNames choices{{"cpu", "cuda", "reference", "null"}, {}};
  const auto parse = [choices](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (const std::string& value : split_list(text)) {
      const std::size_t colon = value.starts_with("cuda:") ? value.find(':') : value.size();
      if (value == "gpu") throw Error("'gpu' is unknown; did you mean 'cuda'?", ErrorKind::usage);
      check_choice(value.substr(0, colon), choices);
      if (colon < value.size()) parse_numbers(value.substr(colon + 1), kCards);
      settings.emplace_back([value](RunDraft& draft) { draft.config.device = value; });
    }
    return settings;
  };
  return {"--device",
          std::move(group),
          "NAME",
          "the device: cpu, cuda (or cuda:1: the second GPU), reference (slow loops in fp64), null (predicts "
          "memory, runs nothing) [cuda if there is a GPU, else cpu]",
          parse,
          "",
          choices.available};
}

constexpr const char* kModel = "Model";
constexpr const char* kWork = "Work";
constexpr const char* kMachine = "Machine";
using D = RunDraft;
using Text = const std::string&;
using Int = std::int64_t;

std::vector<Axis> machine_axes() {
  std::vector<Axis> axes;
  axes.push_back(device_axis(kMachine));
  axes.push_back(number_axis("--threads", kMachine, "0", kThreads, "CPU threads; 0 uses all cores",
                             [](D& d, Int v) { d.config.device_options.threads = static_cast<int>(v); }));
  axes.push_back(
      number_axis("--memory-limit", kMachine, "", kBytes, "limit the memory of the device: 20GiB, 512MiB, 1GB",
                  [](D& d, Int v) { d.config.device_options.memory_limit_bytes = static_cast<std::size_t>(v); }));
  return axes;
}

Axis dtype_axis() {
  return choice_axis("--dtype", kWork, "fp32", {names_of(kAllPrecisions), {}},
                     "number type (fp8: as bf16, and linear layers multiply numbers of 8 bits)",
                     [](D& d, Text v) { d.config.compile.precision = precision_from_name(v); });
}

Axis compile_axis(std::string help) {
  return choice_axis("--compile", kWork, "off", {names_of(kAllCompiles), {}}, std::move(help),
                     [](D& d, Text v) { d.config.compile.level = compile_from_name(v); });
}

// Words and numbers in one list.
Axis loss_chunk_axis() {
  const auto parse = [](std::string_view text) {
    std::vector<Axis::Setting> settings;
    const auto add = [&](std::optional<Int> rows) {
      settings.emplace_back([rows](RunDraft& draft) { draft.config.compile.loss_chunk_rows = rows; });
    };
    for (const std::string& value : split_list(text)) {
      if (value == "auto") {
        add(std::nullopt);
      } else if (value == "off") {
        add(0);
      } else {
        for (const Int rows : parse_numbers(value, kPositive)) add(rows);
      }
    }
    return settings;
  };
  return {"--loss-chunk",
          kWork,
          "N",
          fmt::format("tokens whose logits exist at a time in modes backward and step: off (all), auto ({} where the "
                      "logits of all would be 512 MiB and a twentieth of the other memory) or a number [auto]",
                      kLossChunkRows),
          parse,
          "auto",
          {}};
}

Axis attention_axis(std::string fallback) {
  return choice_axis("--attention", kWork, std::move(fallback), {names_of(kAllAttentionVariants), {}},
                     "implementation of attention",
                     [](D& d, Text v) { d.model.attention = attention_variant_from_name(v); });
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

// A setting for each kind of layer. The options behind this one replace what it sets.
Axis attention_model_axis() {
  const auto parse = [](std::string_view text) {
    std::vector<Axis::Setting> settings;
    for (const std::string& value : split_list(text)) {
      const TransformerConfig model = named_model(value).config;
      for (const Int window : windows_of(model)) {
        settings.emplace_back([value, model, window](D& d) {
          d.model_name = value;
          d.model.name = model.name;
          d.heads = model.heads;
          d.kv_heads = model.kv_heads();
          d.d_model = model.heads * model.head_size();
          d.causal = true;
          d.window = window;
          d.soft_cap = model.architecture.score_cap;
        });
      }
    }
    return settings;
  };
  return {"--model",
          kWork,
          "NAME",
          "one call of this model's attention, as bench takes the model: its heads, head size, causal mask, window and "
          "cap; a row for each kind of layer. Sizes that are given replace the model's",
          parse,
          "",
          model_names()};
}

void check_soft_cap(double value) {
  if (value >= 0) return;
  throw Error(fmt::format("'{}' is out of range; the cap is greater than 0, or 0 for none", value), ErrorKind::usage);
}

Axis seed_axis(std::string help) {
  return number_axis("--seed", kWork, "0", kCount, std::move(help), [](D& d, Int v) { d.config.seed = v; });
}

Axis warmup_axis() {
  return number_axis("--warmup", kWork, "5", kWarmups, "untimed iterations before the timed ones",
                     [](D& d, Int v) { d.config.warmup = v; });
}

}  // namespace

std::vector<Axis> run_axes() {
  std::vector<Axis> axes = machine_axes();
  axes.push_back(model_axis(kModel));
  axes.push_back({"--config-override", kModel, "K=V",
                  "replace fields of the model's config.json: hidden_size=64,vocab_size=99", parse_override, ""});
  axes.push_back(number_axis("--layers", kModel, "", kPositive,
                             "Transformer blocks; each size given replaces that of the model",
                             [](D& d, Int v) { d.layers = v; }));
  axes.push_back(number_axis("--d-model", kModel, "", kPositive, "width of the residual stream",
                             [](D& d, Int v) { d.d_model = v; }));
  axes.push_back(number_axis("--d-ff", kModel, "", kPositive, "inner width of the feed-forward network",
                             [](D& d, Int v) { d.d_ff = v; }));
  axes.push_back(number_axis("--heads", kModel, "", kPositive, "attention heads; they divide --d-model",
                             [](D& d, Int v) { d.heads = v; }));
  axes.push_back(number_axis("--vocab", kModel, "", kPositive, "tokens in the vocabulary [10000]",
                             [](D& d, Int v) { d.vocab = v; }));
  axes.push_back(number_axis("--context", kWork, "256", kPositive, "tokens in a sequence",
                             [](D& d, Int v) { d.model.context = v; }));
  axes.push_back(
      number_axis("--batch", kWork, "4", kPositive, "sequences in a batch", [](D& d, Int v) { d.batch = v; }));
  axes.push_back(dtype_axis());
  axes.push_back(compile_axis(
      "graph compilation (fuse: groups of ops and attention in one kernel each; full: also an arena, and all launches "
      "captured)"));
  axes.push_back(choice_axis("--allocator", kWork, "", {names_of(kAllAllocatorKinds), {}},
                             "allocator of device memory (arena: each buffer has a fixed address; default: arena with "
                             "--compile full, else caching)",
                             [](D& d, Text v) { d.config.allocator = allocator_kind_from_name(v); }));
  axes.push_back(attention_axis("composite"));
  axes.push_back(choice_axis("--checkpoint", kWork, "none", {names_of(kAllCheckpoints), {}},
                             "activations computed again in backward instead of saved (attention: scores and softmax; "
                             "selective: all but products, attention and residual sums; block: all but block inputs; "
                             "auto: a policy for each block, so that the run fits the memory limit, or the device's "
                             "memory, and recomputes least)",
                             [](D& d, Text v) { d.config.compile.checkpoint = checkpoint_from_name(v); }));
  axes.push_back(loss_chunk_axis());
  axes.push_back(seed_axis("random seed of the initial weights and the tokens"));
  axes.push_back(warmup_axis());
  axes.push_back(
      number_axis("--steps", kWork, "10", kIterations, "timed iterations", [](D& d, Int v) { d.config.steps = v; }));
  axes.push_back(choice_axis("--mode", kWork, "step", {names_of(kAllModes), {}},
                             "what an iteration runs (training_forward: forward that keeps what backward would read; "
                             "backward: forward + loss + backward; step: the optimizer too)",
                             [](D& d, Text v) { d.config.compile.mode = mode_from_name(v); }));
  for (Axis& axis : training_axes()) axes.push_back(std::move(axis));
  for (Axis& axis : parallel_axes()) axes.push_back(std::move(axis));
  return axes;
}

std::vector<Axis> plan_axes() {
  std::vector<Axis> axes = run_axes();
  std::erase_if(axes, [](const Axis& axis) {
    return axis.flag == "--warmup" || axis.flag == "--steps" || axis.flag == "--seed" || axis.flag == "--threads";
  });
  axes.push_back(
      choice_axis("--as", kWork, "ridgepoint", {names_of(kAllPlanAs), {}},
                  "whose allocations (torch: the same model in PyTorch's eager mode, those of a config.json as "
                  "transformers has them, with AdamW as it comes; "
                  "torch-fused: with AdamW(fused=True))",
                  [](D& d, Text v) { d.config.plan_as = plan_as_from_name(v); }));
  return axes;
}

std::vector<Axis> attention_axes() {
  std::vector<Axis> axes = machine_axes();
  axes.push_back(attention_model_axis());
  axes.push_back(dtype_axis());
  axes.push_back(choice_axis("--causal", kWork, "false", {{"false", "true"}, {}},
                             "causal mask: query i attends to keys 0 to i",
                             [](D& d, Text v) { d.causal = v == "true"; }));
  axes.push_back(number_axis("--window", kWork, "", kCount,
                             "with --causal true: query i attends to keys i - N + 1 to i; 0: to all before it [0]",
                             [](D& d, Int v) { d.window = v; }));
  axes.push_back(real_axis("--soft-cap", kWork, "cap of the scores, X tanh(s / X), before the mask; 0: none [0]",
                           check_soft_cap, [](D& d, double v) { d.soft_cap = v; }));
  axes.push_back(number_axis("--batch", kWork, "8", kPositive, "batch size", [](D& d, Int v) { d.batch = v; }));
  axes.push_back(number_axis("--heads", kWork, "1", kPositive, "attention heads; they divide --d-model",
                             [](D& d, Int v) { d.heads = v; }));
  axes.push_back(number_axis("--kv-heads", kWork, "", kPositive,
                             "heads of keys and values, which divide --heads; each serves several heads of queries "
                             "[as many as --heads]",
                             [](D& d, Int v) { d.kv_heads = v; }));
  axes.push_back(number_axis("--d-model", kWork, "16,32,64,128", kPositive,
                             "width of all heads together (heads x head size)", [](D& d, Int v) { d.d_model = v; }));
  axes.push_back(number_axis("--sequence,--context", kWork, "256,1024,4096,8192,16384", kPositive,
                             "number of queries; --context is the same option",
                             [](D& d, Int v) { d.model.context = v; }));
  axes.push_back(number_axis("--keys", kWork, "", kPositive, "number of keys and values [as many as queries]",
                             [](D& d, Int v) { d.keys = v; }));
  axes.push_back(attention_axis("naive,composite,softmax,weights,recompute,flash"));
  axes.push_back(
      compile_axis("graph compilation (fuse: groups of ops in one kernel each, and softmax as flash; full: also all "
                   "launches captured)"));
  axes.push_back(seed_axis("random seed of q, k and v"));
  axes.push_back(warmup_axis());
  axes.push_back(number_axis("--steps,--iterations", kWork, "100", kIterations,
                             "timed runs of forward, then of forward + backward; without this option each stops after "
                             "1 s, but runs at least 3",
                             [](D& d, Int v) { d.config.steps = v; }));
  return axes;
}

}  // namespace ridgepoint::cli
