// ridgepoint models: the models that --model takes by name.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "core/text/lower.h"
#include "core/text/nearest.h"
#include "interchange/huggingface/catalogue.h"
#include "interchange/huggingface/named_model.h"
#include "interchange/safetensors_names.h"
#include "report/model_table.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

bool has_text(const TransformerConfig& model, const std::string& text) {
  return lower(model.name).find(text) != std::string::npos || model.architecture.family.find(text) != std::string::npos;
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
    write(output_, [&](Format format, std::size_t) { return tables::model_page(models, format); });
    return kExitOk;
  }

 private:
  std::string filter_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_models() { return std::make_unique<Models>(); }

}  // namespace ridgepoint::cli
