// ridgepoint models: the models that --model takes by name.
#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "core/checked.h"
#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "interchange/huggingface/named_model.h"
#include "interchange/safetensors_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

bool has_text(const TransformerConfig& model, const std::string& text) {
  return lower(model.name).find(text) != std::string::npos || model.architecture.family.find(text) != std::string::npos;
}

using tables::Align;
using tables::Cell;
using tables::Cells;
using tables::Page;
using tables::Table;

// Bytes of fp32 parameters, and of parameters, gradients and both moments of AdamW in fp32.
constexpr std::int64_t kWeightBytes = 4;
constexpr std::int64_t kStepStateBytes = 16;

Cell size_cell(std::int64_t size) { return size > 0 ? Cell(size) : Cell(); }

Cell size_in_bytes(std::int64_t parameters, std::int64_t bytes_each, Format format) {
  const std::int64_t bytes = saturated_product({parameters, bytes_each});
  return is_for_people(format) ? Cell(format_bytes(static_cast<std::uint64_t>(bytes))) : Cell(bytes);
}

Cells cells(const TransformerConfig& model, Format format) {
  const Architecture& a = model.architecture;
  const std::int64_t parameters = parameter_count(model);
  return {model.name,
          a.family.empty() ? Cell("preset") : Cell(a.family),
          model.layers,
          model.d_model,
          model.heads,
          model.kv_heads(),
          model.head_size(),
          model.d_ff,
          size_cell(a.experts.count),
          size_cell(a.experts.per_token),
          model.vocab,
          size_cell(a.max_context),
          parameters,
          size_in_bytes(parameters, kWeightBytes, format),
          size_in_bytes(parameters, kStepStateBytes, format)};
}

// One row a model, in the order given. The context of a model is what it was trained for or has positions for.
Page model_page(std::span<const TransformerConfig> models, Format format) {
  Page page;
  Table& table = page.tables.emplace_back();
  table.columns = {{"model", "model"},
                   {"family", "family", "{}", Align::by_content, 4},
                   {"layers", "layers"},
                   {"d_model", "d_model"},
                   {"heads", "heads"},
                   {"kv_heads", "kv heads"},
                   {"head_size", "head size", "{}", Align::by_content, 3},
                   {"d_ff", "d_ff", "{}", Align::by_content, 1},
                   {"experts", "experts", "{}", Align::by_content, 2},
                   {"experts_per_token", "per token", "{}", Align::by_content, 5},
                   {"vocab", "vocabulary", "{}", Align::by_content, 3},
                   {"max_context", "context", "{}", Align::by_content, 1},
                   {"parameters", "parameters"},
                   {"weight_bytes", "weights", "{}", Align::right, 1},
                   {"step_state_bytes", "step state", "{}", Align::right}};
  for (const TransformerConfig& model : models) table.add(cells(model, format));
  table.note =
      "weights: the parameters in fp32. step state: parameters, gradients and both moments of AdamW in fp32, without "
      "activations; 'ridgepoint plan --model NAME --card CARD' has the whole peak. d_ff of a model with experts is the "
      "width of one.";
  return page;
}

class Models : public Command {
 public:
  std::string_view name() const override { return "models"; }
  std::string_view summary() const override { return "list the models that --model takes by name, with their sizes"; }
  std::string_view examples() const override {
    return "ridgepoint models\n"
           "ridgepoint models llama\n"
           "ridgepoint models qwen --format csv --output models.csv";
  }
  std::string_view notes() const override {
    return "The presets are the model of docs/model.md. The others are published models with the dimensions of their "
           "config.json; --model also takes the path of a config.json. docs/models.md has the families.";
  }
  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Models");
    group.add("NAME", filter_, "", "list only models with this text in their name or family")->default_str("all");
    output_.add_to(app);
  }

  int run() override {
    std::vector<TransformerConfig> models = transformer_presets();
    for (const KnownModel& known : known_models()) models.push_back(named_model(known.name).config);
    std::erase_if(models, [&](const TransformerConfig& model) { return !has_text(model, lower(filter_)); });
    require(!models.empty(), "no model has {} in its name or family{}", quote_name(filter_),
            hint(std::string_view(filter_).substr(0, 64), model_names()));
    write(output_, [&](Format format, std::size_t) { return model_page(models, format); });
    return kExitOk;
  }

 private:
  std::string filter_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_models() { return std::make_unique<Models>(); }

}  // namespace ridgepoint::cli
