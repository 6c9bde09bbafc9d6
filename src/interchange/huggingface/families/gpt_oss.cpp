// gpt-oss: experts with biases whose SwiGLU has limits, attention sinks, and windows in every second layer.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void gpt_oss(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::gpt_oss, .theta = 150000});
  Architecture& a = c.architecture;
  attention_bias(fields, a, true);
  a.sinks = true;
  experts(fields, c, {.count_key = "num_local_experts", .count = 128, .per_token = 4});
  ExpertRules& rules = a.experts.rules;
  rules.scores = RouterScores::softmax_of_chosen;
  rules.has_router_bias = rules.has_biases = true;
  fields.positive("swiglu_limit", rules.limit, 7);
  fields.positive("swiglu_alpha", rules.slope, 1.702);
  windows(fields, c, 128, windows_but_every(2, c.layers));
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  in->skip("experts_per_token");       // num_experts_per_tok
  in->skip("initial_context_length");  // the original context
  if (rotary_object(*in)) return;
  a.rotary = {.theta = in->positive("rope_theta", 150000),
              .scaling = RotaryScaling::yarn,
              .factor = 32,
              .original_context = 4096,
              .whole_steps = false,
              .amplitude = 1.3465735902799727};  // 1 + 0.1 log(32)
}

}  // namespace

extern const Family family_gpt_oss{"gpt_oss",
                                   "GptOssForCausalLM",
                                   gpt_oss,
                                   {.router = "router", .stored_experts = StoredExperts::alternating},
                                   {.rotates_halves = true, .scales_norms_wide = true, .lacks_sdpa = true}};

}  // namespace ridgepoint
