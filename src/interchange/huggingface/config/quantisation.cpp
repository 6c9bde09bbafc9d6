#include "interchange/huggingface/config/quantisation.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ridgepoint {
namespace {

constexpr const char* kField = "quantization_config";
constexpr const char* kNotRead =
    "only quantised weights of bitsandbytes are supported; --config-override quantization_config=null plans "
    "the model in bf16 or fp32";

constexpr std::string_view kTorchTypes[] = {"bfloat16", "float16", "float32"};

std::vector<std::string> skipped_modules(ConfigFields& fields) {
  constexpr const char* kSkipped = "llm_int8_skip_modules";
  const Json* list = fields.find(kSkipped);
  if (list == nullptr) return {};
  std::vector<std::string> names;
  for (const Json& name : list->is_array() ? *list : Json::array({*list})) {
    if (!name.is_string()) fields.fail(kSkipped, "must be a list of the names of modules");
    if (!name.get<std::string>().empty()) names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

PublishedPacking read_packing(ConfigFields& fields) {
  std::optional<ConfigFields> given = fields.object(kField);
  if (!given) return {};
  const bool is_4bit = given->flag("load_in_4bit", false);
  const bool is_8bit = given->flag("load_in_8bit", false);
  // Files of before the field quant_method say it by the others.
  if (given->text("quant_method", "bitsandbytes") != "bitsandbytes" || is_4bit == is_8bit)
    fields.refuse(kField, kNotRead);
  if (given->text("bnb_4bit_quant_storage", "uint8") != "uint8" || given->flag("llm_int8_has_fp16_weight", false))
    fields.refuse(kField,
                  "packed weights are read from bytes, not from elements of 16 bits; save the model without "
                  "bnb_4bit_quant_storage and llm_int8_has_fp16_weight");
  PublishedPacking packing;
  packing.skipped = skipped_modules(*given);
  packing.dtype = fields.text("torch_dtype", "");
  if (packing.dtype.empty()) packing.dtype = fields.text("dtype", "");
  if (std::ranges::find(kTorchTypes, packing.dtype) == std::end(kTorchTypes)) packing.dtype.clear();  // as without it
  const std::string type = given->text("bnb_4bit_quant_type", "fp4");
  if (is_8bit) {
    packing.format = BaseWeights::int8;
  } else if (type == "nf4") {
    const bool is_double = given->flag("bnb_4bit_use_double_quant", false);
    packing.format = is_double ? BaseWeights::nf4 : BaseWeights::nf4_single;
  } else {
    packing.widened = type;
  }
  return packing;
}

Json quantization_config(BaseWeights format, const std::vector<std::string>& skipped) {
  const bool is_4bit = is_of_4_bits(format);
  return {{"_load_in_4bit", is_4bit},
          {"_load_in_8bit", !is_4bit},
          {"bnb_4bit_compute_dtype", "bfloat16"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", format == BaseWeights::nf4},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", skipped},
          {"llm_int8_threshold", 6.0},
          {"load_in_4bit", is_4bit},
          {"load_in_8bit", !is_4bit},
          {"quant_method", "bitsandbytes"}};
}

}  // namespace ridgepoint
