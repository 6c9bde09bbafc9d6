// AdamW over any number of tensors (the formula is in src/ops/rules/optimizer/updates.cpp); the kernel of adamw.cu.
//
// fp32, but bf16 and fp16 gradients and copies, or parameters in two halves; operands dense. One launch for every 448
// tensors. An operand with other storage than its output is copied first.
#include "backends/cuda/hand_written.h"

#include <cmath>
#include <vector>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/adamw/parameters.h"
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint::cuda {
namespace {

AdamWConstants constants_of(const Attributes& attributes) {
  const double beta1 = attributes.get<double>("beta1");
  const double beta2 = attributes.get<double>("beta2");
  const double rate = attributes.get_or(kLearningRate, 0.0);
  AdamWConstants constants;
  constants.learning_rate = static_cast<float>(rate);
  constants.beta1 = static_cast<float>(beta1);
  constants.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  constants.beta2 = static_cast<float>(beta2);
  constants.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  constants.epsilon = static_cast<float>(attributes.get<double>("epsilon"));
  constants.weight_decay = static_cast<float>(attributes.get<double>("weight_decay"));
  constants.decay = static_cast<float>(1.0 - rate * attributes.get<double>("weight_decay"));
  constants.log_beta1 = static_cast<float>(std::log(beta1));
  constants.log_beta2 = static_cast<float>(std::log(beta2));
  return constants;
}

AdamWElement element_of(DType dtype) {
  if (dtype == DType::bf16) return AdamWElement::bf16;
  return dtype == DType::fp16 ? AdamWElement::fp16 : AdamWElement::fp32;
}

constexpr std::size_t kHalfBytes = 2;

class AdamW : public Kernel {
 public:
  AdamW(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        variant_(variant),
        function_(context.kernel(variant.image, variant.entry)),
        layout_(*optimizer_layout(spec.node)),
        results_(layout_.results_per_tensor()) {
    const std::size_t tensors = spec.outputs.size() / results_;
    for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
      elements_.push_back(spec.outputs[results_ * tensor].shape.elements());
      if (elements_.back() == 0) continue;
      if (groups_.empty() || groups_.back().table.tensors == AdamWTable::kCapacity) {
        groups_.emplace_back();
        groups_.back().table.constants = constants_of(spec.node.attributes);
        if (layout_.has_copy) groups_.back().table.copy_type = element_of(spec.outputs[3].dtype);
      }
      add_tensor(groups_.back(), tensor, spec);
    }
  }

  std::string_view name() const override { return variant_.entry; }

  void launch(const LaunchArguments& arguments) override {
    for (Group& group : groups_) {
      fill_pointers(group, arguments);
      void* parameters[] = {&group.table};
      context_.launch(function_, {.grid_x = group.chunks, .block_x = static_cast<unsigned>(variant_.tiling.threads)},
                      parameters, variant_.entry);
    }
  }

 private:
  // The tensors of one launch.
  struct Group {
    AdamWTable table;
    std::vector<std::size_t> tensors;
    unsigned chunks = 0;
  };

  void add_tensor(Group& group, std::size_t tensor, const KernelSpec& spec) {
    const auto slot = static_cast<std::size_t>(group.table.tensors++);
    group.table.first_chunk[slot] = group.chunks;
    group.table.elements[slot] = elements_[tensor];
    group.table.gradient_types[slot] =
        element_of(spec.inputs[layout_.scalars + layout_.operands_per_tensor() * tensor + 1].dtype);
    group.tensors.push_back(tensor);
    group.chunks += block_count(elements_[tensor], variant_.tiling.columns);
  }

  void fill_pointers(Group& group, const LaunchArguments& arguments) {
    AdamWTable& table = group.table;
    table.step = static_cast<const float*>(arguments.inputs[0]);
    if (layout_.learning_rate)
      table.learning_rate = static_cast<const float*>(arguments.inputs[*layout_.learning_rate]);
    if (layout_.guard) {
      table.gradient_factor = static_cast<const float*>(arguments.inputs[*layout_.guard]);
      table.skip = static_cast<const float*>(arguments.inputs[*layout_.guard + 1]);
    }
    for (std::size_t slot = 0; slot < group.tensors.size(); ++slot) {
      const std::size_t tensor = group.tensors[slot];
      void* const* inputs = arguments.inputs + layout_.scalars + layout_.operands_per_tensor() * tensor;
      void* const* outputs = arguments.outputs + results_ * tensor;
      table.parameters[slot] = in_place(outputs[0], inputs[0], tensor, layout_.is_split ? kHalfBytes : sizeof(float));
      table.gradients[slot] = inputs[1];
      if (layout_.has_copy) table.copies[slot] = outputs[3];
      if (layout_.is_split) table.copies[slot] = in_place(outputs[3], inputs[4], tensor, kHalfBytes);
      table.first_moments[slot] = static_cast<float*>(in_place(outputs[1], inputs[2], tensor, sizeof(float)));
      table.second_moments[slot] = static_cast<float*>(in_place(outputs[2], inputs[3], tensor, sizeof(float)));
    }
  }

  // The kernel works in place, so an operand with other storage than its output is copied to the output first.
  void* in_place(void* output, const void* input, std::size_t tensor, std::size_t element_bytes) const {
    if (output != input) {
      const CudaContext::Scope scope(context_);
      check(context_.driver().cuMemcpyDtoDAsync_v2(
                reinterpret_cast<CUdeviceptr>(output), reinterpret_cast<CUdeviceptr>(input),
                static_cast<std::size_t>(elements_[tensor]) * element_bytes, context_.stream()),
            "copy an operand of", variant_.entry);
    }
    return output;
  }

  CudaContext& context_;
  KernelVariant variant_;
  CUfunction function_;
  OptimizerLayout layout_;
  std::size_t results_;  // of each tensor
  std::vector<std::int64_t> elements_;
  std::vector<Group> groups_;
};

bool supports_adamw(const KernelVariant&, const Graph& graph, const Node& node) {
  return graph.type(node.inputs[optimizer_layout(node)->scalars]).dtype == DType::fp32;
}

bool supports_halves(const KernelVariant&, const Graph&, const Node& node) { return optimizer_layout(node)->is_split; }

constexpr KernelTiling kChunks = {.columns = AdamWTable::kChunkElements, .threads = 256};
constexpr MemoryRate kAdamWRate = {.share = 0.81, .fixed_seconds = 8e-6};

// A block updates a chunk of `columns` elements of one tensor.
constexpr KernelVariant kVariants[] = {
    {.op = Op::adamw,
     .dtype = DType::fp32,
     .supports_node = supports_adamw,
     .tiling = kChunks,
     .image = "adamw",
     .entry = "adamw_forward_chunks",
     .rate = kAdamWRate,
     .make = make_variant<AdamW>},
    {.op = Op::adamw,
     .dtype = DType::fp32,
     .supports_node = supports_halves,
     .tiling = kChunks,
     .image = "adamw",
     .entry = "adamw_forward_halves",
     .rate = kAdamWRate,
     .make = make_variant<AdamW>},
};

}  // namespace

std::span<const KernelVariant> adamw_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
