#include "interchange/huggingface/families/experts.h"

#include <fmt/format.h>

namespace ridgepoint {
namespace {

constexpr std::int64_t kMaxExperts = 65536;
constexpr double kAuxiliaryLoss = 0.001;

// The published files of each family have one of two names; `transformers` 5 writes the other one for some.
std::int64_t read_count(ConfigFields& fields, const ExpertDefaults& defaults) {
  const std::string_view other = defaults.count_key == "num_experts" ? "num_local_experts" : "num_experts";
  if (!fields.has(other)) return fields.size(defaults.count_key, defaults.count, kMaxExperts);
  const std::int64_t count = fields.size(other, defaults.count, kMaxExperts);
  if (fields.size(defaults.count_key, count, kMaxExperts) != count)
    fields.fail(other, fmt::format("is {}, and {} is another number", count, defaults.count_key));
  return count;
}

}  // namespace

void read_experts(ConfigFields& fields, TransformerConfig& config, const ExpertDefaults& defaults) {
  Experts& experts = config.architecture.experts;
  experts.count = read_count(fields, defaults);
  experts.per_token = fields.size("num_experts_per_tok", defaults.per_token, kMaxExperts);
  if (experts.per_token > experts.count)
    fields.fail("num_experts_per_tok",
                fmt::format("is {}, but a layer has {} experts", experts.per_token, experts.count));
  const double factor = fields.not_negative("router_aux_loss_coef", kAuxiliaryLoss);
  const bool has_loss = fields.flag("output_router_logits", false);
  experts.auxiliary_loss = has_loss ? factor : 0;
  if (!has_loss && factor > 0)
    fields.note("the loss has no load-balancing part: transformers adds it only with output_router_logits=true");
}

void write_experts(const TransformerConfig& config, std::string_view count_key, Json& fields) {
  const Experts& experts = config.architecture.experts;
  fields[std::string(count_key)] = experts.count;
  fields["num_experts_per_tok"] = experts.per_token;
  fields["output_router_logits"] = experts.auxiliary_loss > 0;
  fields["router_aux_loss_coef"] = experts.auxiliary_loss;
}

}  // namespace ridgepoint
