// Random generated kernels between protected pages, without a GPU: every operand, result and workspace begins directly
// behind one, then ends directly before one.

#include <set>

#include "backends/cuda/generator/emulated_device.h"
#include "backends/cuda/generator/guarded_memory.h"
#include "backends/cuda/generator/random_kernels.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::Edge;
using testing::GuardedMemory;
using testing::RandomKernel;

constexpr int kBoundsMultiprocessors = 4;
constexpr std::byte kGarbage{0x7f};  // 3e38 as a float, so that an unwritten element is far from any result

// The `count` elements of an input's storage, from `first` on, that an operand reads; element `origin` of these is the
// operand's element (0,...,0).
struct Window {
  std::int64_t first = 0, count = 1, origin = 0;

  static Window of(const ValueLayout& value) {
    Window window{value.offset, 1, 0};
    for (int axis = 0; axis < value.layout.shape.rank(); ++axis) {
      const std::int64_t reach = (value.layout.shape[axis] - 1) * value.layout.strides[static_cast<std::size_t>(axis)];
      window.count += std::abs(reach);
      if (reach < 0) window.origin -= reach;
    }
    window.first -= window.origin;
    return window;
  }
};

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::fp64:
    case DType::fp32: return 2e-5;
    case DType::fp16: return 6e-3;
    case DType::bf16: return 5e-2;
    case DType::dynamic8:
    case DType::udynamic8: return 2e-2;  // a few elements may lie so close to a border that they get the next code
    default: return 0;
  }
}

// One kernel with its operands' values, and the results of the reference back end.
class BoundsCase {
 public:
  BoundsCase(RandomKernel kernel, unsigned seed) : kernel_(std::move(kernel)), seed_(seed) {
    layouts_ = value_layouts(kernel_.graph);
    draw_inputs();
    expected_ = testing::run_graph(kernel_.graph, make_reference_device(), inputs_);
  }

  const Node& node() const { return kernel_.graph.node(kernel_.node); }
  std::string text() const { return fmt::format("seed {}\n{}", seed_, print_graph(kernel_.graph)); }

  std::unique_ptr<testing::EmulatedSequence> make_kernel(testing::Emulator& emulator) const {
    std::vector<TensorLayout> operands;
    std::vector<TensorLayout> results;
    for (const Value value : node().inputs) operands.push_back(layouts_[value.id].layout);
    for (const Value value : node().outputs) results.push_back(dense_layout(kernel_.graph.type(value)));
    const KernelSpec spec{kernel_.graph, node(), operands, results};
    return std::make_unique<testing::EmulatedSequence>(emulator, spec);
  }

  void expect_stays_inside(testing::EmulatedSequence& kernel, Edge edge) const {
    std::vector<std::unique_ptr<GuardedMemory>> memory;
    std::vector<std::string> names;
    std::vector<void*> operands;
    std::vector<void*> results;
    for (std::size_t i = 0; i < node().inputs.size(); ++i) {
      operands.push_back(place_operand(node().inputs[i], edge, memory));
      names.resize(memory.size(), fmt::format("operand {}", i));
    }
    for (std::size_t i = 0; i < node().outputs.size(); ++i) {
      memory.push_back(std::make_unique<GuardedMemory>(kernel_.graph.type(node().outputs[i]).bytes(), edge));
      names.push_back(fmt::format("result {}", i));
      std::fill_n(memory.back()->address(), memory.back()->bytes(), kGarbage);
      results.push_back(memory.back()->address());
    }
    memory.push_back(std::make_unique<GuardedMemory>(kernel.workspace_bytes(), edge));
    names.emplace_back("the workspace");
    std::fill_n(memory.back()->address(), memory.back()->bytes(), kGarbage);

    const LaunchArguments arguments{operands.data(), results.data(), memory.back()->address()};
    const testing::Ending ending = testing::run_apart([&] { kernel.launch(arguments); });
    if (!ending.is_good) {
      ADD_FAILURE() << kernel.name() << ' ' << describe(ending, memory, names) << "\n" << text();
      return;
    }
    for (std::size_t i = 0; i < results.size(); ++i) expect_as_expected(kernel, i, results[i]);
  }

 private:
  void draw_inputs() {
    std::mt19937 random(seed_);
    for (const NodeId id : kernel_.graph.inputs()) {
      const Node& node = kernel_.graph.node(id);
      const auto name = node.attributes.get<std::string>("name");
      HostTensor tensor(kernel_.graph.type(node.outputs[0]));
      const DType dtype = tensor.type.dtype;
      std::uniform_real_distribution<double> real(kernel_.positive ? 0.5 : -2.0, 2.5);
      std::uniform_int_distribution<std::int64_t> whole(dtype == DType::int64 || dtype == DType::int32 ? -9 : 0,
                                                        dtype == DType::boolean ? 1 : 9);
      std::uniform_int_distribution<std::int64_t> index(0, kernel_.index_bound - 1);
      for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.type.elements()); ++i) {
        const double value = name.starts_with("targets") ? static_cast<double>(index(random))
                             : is_floating(dtype)        ? real(random)
                             : is_code(dtype)            ? real(random) / 3
                                                         : static_cast<double>(whole(random));
        store_element(dtype, tensor.data.data() + i * size_bytes(dtype), value);
      }
      inputs_.emplace(name, std::move(tensor));
    }
  }

  void* place_operand(Value value, Edge edge, std::vector<std::unique_ptr<GuardedMemory>>& memory) const {
    const ValueLayout& layout = layouts_[value.id];
    if (layout.layout.immediate) return nullptr;
    const Node& root = kernel_.graph.producer_node(layout.root);
    const HostTensor& tensor = inputs_.at(root.attributes.get<std::string>("name"));
    const auto size = static_cast<std::int64_t>(size_bytes(layout.layout.dtype));
    const Window window = Window::of(layout);
    memory.push_back(std::make_unique<GuardedMemory>(static_cast<std::size_t>(window.count * size), edge));
    std::copy_n(tensor.data.begin() + window.first * size, window.count * size, memory.back()->address());
    memory.back()->forbid_writes();
    return memory.back()->address() + window.origin * size;
  }

  static std::string describe(const testing::Ending& ending, const std::vector<std::unique_ptr<GuardedMemory>>& memory,
                              const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const std::optional<std::ptrdiff_t> place = memory[i]->place_of(ending.touched);
      if (place) return fmt::format("touched byte {} of {}, which has {}", *place, names[i], memory[i]->bytes());
    }
    return fmt::format("ended with signal {}, after touching {:#x}", ending.signal, ending.touched);
  }

  void expect_as_expected(const testing::EmulatedSequence& kernel, std::size_t i, const void* found) const {
    HostTensor result(kernel_.graph.type(node().outputs[i]));
    std::memcpy(result.data.data(), found, result.data.size());
    const double error = testing::relative_error(result, expected_.at("y" + std::to_string(i)));
    // A product or a sum may be rounded here and exact in the reference.
    EXPECT_LE(error, tolerance(result.type.dtype)) << kernel.name() << " result " << i << "\n" << text();
  }

  RandomKernel kernel_;
  unsigned seed_;
  std::vector<ValueLayout> layouts_;
  Tensors inputs_;
  Tensors expected_;
};

void expect_all_stay_inside(const std::vector<BoundsCase>& cases, testing::Emulator& emulator) {
  for (const BoundsCase& what : cases) what.make_kernel(emulator);
  emulator.build();
  for (const BoundsCase& what : cases) {
    const std::unique_ptr<testing::EmulatedSequence> kernel = what.make_kernel(emulator);
    for (const Edge edge : {Edge::begins_behind_guard, Edge::ends_before_guard}) {
      what.expect_stays_inside(*kernel, edge);
    }
  }
}

// The ops for which kernels are generated with any operands.
std::vector<Op> generated_ops() {
  std::vector<Op> ops;
  for (const Op op : kAllOps) {
    const OpClass kind = op_class(op);
    const bool by_hand = op == Op::rope || op == Op::attention || op == Op::attention_backward || op == Op::quantise ||
                         op == Op::quantise_rows || op == Op::transpose_codes || op == Op::widen_codes ||
                         op == Op::scaled_matmul || op == Op::causal_convolution;
    if (kind == OpClass::elementwise || kind == OpClass::reduction || (kind == OpClass::composite && !by_hand)) {
      ops.push_back(op);
    }
  }
  return ops;
}

class GeneratedBounds : public testing::Emulated {
 protected:
  // The next kernel of this op that can be made.
  void add(Op op) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const unsigned seed = ++seed_;
      std::optional<RandomKernel> kernel = testing::RandomKernels(seed).draw(op);
      if (!kernel || !cuda::fits_generated(kernel->graph, kernel->graph.node(kernel->node))) continue;
      cases_.emplace_back(std::move(*kernel), seed);
      return;
    }
    throw Error("no random kernel of " + std::string(name(op)) + " is generated");
  }

  std::set<std::string> variants(testing::Emulator& emulator) const {
    std::set<std::string> found;
    for (const BoundsCase& what : cases_) {
      for (const std::string& entry : what.make_kernel(emulator)->entries()) {
        found.insert(entry.substr(name(what.node().op).size() + 1));
      }
    }
    return found;
  }

  unsigned seed_ = 0;
  std::vector<BoundsCase> cases_;
};

TEST_F(GeneratedBounds, random_kernels_touch_nothing_beside_their_operands) {
  constexpr std::size_t kCases = 340;
  while (cases_.size() < kCases) {
    for (const Op op : generated_ops()) add(op);
    add(Op::reduce_sum);
    add(Op::reduce_max);
  }
  testing::Emulator emulator(kBoundsMultiprocessors, false, true);
  EXPECT_THAT(variants(emulator),
              ::testing::IsSupersetOf({"vector", "element", "tiled", "warp_row", "block_row", "split_row", "columns",
                                       "column_tiles", "column_shares", "warp_row_sums", "block_row_sums"}));
  expect_all_stay_inside(cases_, emulator);
}

TEST_F(GeneratedBounds, random_kernels_of_single_elements_touch_nothing_beside_their_operands) {
  for (const Op op : generated_ops()) add(op);
  testing::Emulator emulator(kBoundsMultiprocessors, true, true);
  expect_all_stay_inside(cases_, emulator);
}

// A row that ends in an incomplete vector, of an operand that is not contiguous.
TEST_F(GeneratedBounds, the_last_part_of_a_vector_is_gathered_element_by_element) {
  const auto flipped = [](Graph& g, const char* name, DType dtype, const Shape& shape) {
    return flip(g, input(g, name, {dtype, shape}, Role::data), shape.rank() - 1);
  };
  const auto add_case = [&](const std::function<NodeId(Graph&)>& build) {
    RandomKernel kernel;
    kernel.node = build(kernel.graph);
    const std::vector<Value> outputs = kernel.graph.node(kernel.node).outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) kernel.graph.add_output("y" + std::to_string(i), outputs[i]);
    cases_.emplace_back(std::move(kernel), 0);
  };
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Shape line{1001};
    add_case([&](Graph& g) {
      return make_node(g, Op::add, {flipped(g, "a", dtype, line), input(g, "b", {dtype, line}, Role::data)});
    });
    add_case([&](Graph& g) { return make_node(g, Op::copy, {flipped(g, "a", dtype, line)}); });
    add_case([&](Graph& g) {
      return make_node(g, Op::cast, {flipped(g, "a", dtype, line)}, {{"dtype", std::string("fp16")}});
    });
    add_case([&](Graph& g) {
      return make_node(g, Op::where,
                       {flipped(g, "a", DType::boolean, line), input(g, "b", {dtype, line}, Role::data),
                        flipped(g, "c", dtype, line)});
    });
    add_case([&](Graph& g) {
      return make_node(g, Op::less, {input(g, "a", {dtype, line}, Role::data), flipped(g, "b", dtype, line)});
    });
    add_case([&](Graph& g) {
      return make_node(g, Op::silu_backward, {flipped(g, "a", dtype, line), flipped(g, "b", dtype, line)});
    });
    add_case([&](Graph& g) {
      const TensorType row{accumulator(dtype), {1}};
      return make_node(g, Op::cross_entropy_backward,
                       {input(g, "a", row, Role::data), flipped(g, "b", dtype, {1, 1001}),
                        input(g, "targets", {DType::int64, {1}}, Role::data), input(g, "d", row, Role::data)});
    });
    add_case([&](Graph& g) {
      return make_node(g, Op::reduce_sum, {flipped(g, "a", dtype, {1, 1001})},
                       {{"axes", std::vector<std::int64_t>{0}}, {"keep_dims", false}});
    });
    add_case([&](Graph& g) {  // every other element
      const Value pairs = transpose(g, input(g, "a", {dtype, {13, 2}}, Role::data), {1, 0});
      return make_node(g, Op::neg, {pairs});
    });
  }
  testing::Emulator emulator(kBoundsMultiprocessors, false, true);
  expect_all_stay_inside(cases_, emulator);
}

// Tests the harness: it detects a kernel that reads out of bounds.
TEST(GuardedMemory, ends_a_process_that_reads_beside_it) {
  for (const Edge edge : {Edge::begins_behind_guard, Edge::ends_before_guard}) {
    const GuardedMemory memory(12, edge);
    const std::ptrdiff_t beside = edge == Edge::begins_behind_guard ? -1 : 12;
    const auto read = [&](std::ptrdiff_t at) {
      return testing::run_apart([&] { static_cast<void>(*static_cast<volatile std::byte*>(memory.address() + at)); });
    };
    EXPECT_TRUE(read(0).is_good);
    EXPECT_TRUE(read(11).is_good);
    const testing::Ending ending = read(beside);
    EXPECT_FALSE(ending.is_good);
    EXPECT_EQ(memory.place_of(ending.touched), beside);
  }
}

}  // namespace
}  // namespace ridgepoint
