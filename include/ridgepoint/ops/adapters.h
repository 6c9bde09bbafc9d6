// Low-rank adapters (LoRA, Hu et al. 2021): a linear layer y = x W^T becomes y = x W^T + (alpha / rank) (x A^T) B^T.
// W and every other parameter of the model are frozen; A [rank, in] and B [out, rank] are trained. B begins as zeros,
// so the first forward is that of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint {

// A linear layer under the name that files of the model's family have for it: one layer of this program, or several
// whose weights it packs one after the other along its output, such as Phi-3's qkv_proj of q_proj, k_proj and v_proj.
struct PublishedLayer {
  std::string name;
  std::vector<std::string> modules;

  // What its adapters are called in this program: one that packs several has its own name beside theirs.
  std::string adapted_name() const {
    const std::string& first = modules.front();
    return modules.size() == 1 ? first : first.substr(0, first.rfind('.') + 1) + name.substr(name.rfind('.') + 1);
  }
};

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;
  // Patterns of modules (src/passes/training/training.h); a name without a dot is also that of a module within others.
  std::vector<std::string> targets = {"q_proj", "v_proj"};
  // What a target that matches no module may name. A layer that packs several has one pair A and B for all of them.
  std::vector<PublishedLayer> published = {};
};

// r=16,alpha=32,targets=q_proj,v_proj in any order; alpha is r where it is not given. Throws Error (usage).
LoraOptions lora_from_text(std::string_view text);
// The inverse, without the published layers.
std::string to_text(const LoraOptions& options);

}  // namespace ridgepoint
