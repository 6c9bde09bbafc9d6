#include "report/model_table.h"

#include "core/checked.h"
#include "core/text/units.h"

namespace ridgepoint::tables {
namespace {

Cell size_cell(std::int64_t size) { return size > 0 ? Cell(size) : Cell(); }

Cell bytes_cell(std::int64_t parameters, std::int64_t bytes_each, Format format) {
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
          bytes_cell(parameters, kWeightBytes, format),
          bytes_cell(parameters, kStepStateBytes, format)};
}

}  // namespace

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

}  // namespace ridgepoint::tables
