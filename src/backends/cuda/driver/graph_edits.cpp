#include "backends/cuda/driver/graph_edits.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/kernels/fill/parameters.h"

namespace ridgepoint::cuda {
namespace {

using Nodes = std::vector<CUgraphNode>;

Nodes nodes_of(const Driver& driver, CUgraph graph) {
  std::size_t count = 0;
  check(driver.cuGraphGetNodes(graph, nullptr, &count), "count the nodes of a captured run");
  Nodes nodes(count);
  if (count > 0) check(driver.cuGraphGetNodes(graph, nodes.data(), &count), "read the nodes of a captured run");
  return nodes;
}

// Those before or behind a node. Edges may say which part of a kernel they wait for; the driver tells of nodes only
// together with that, so the nodes are not counted first.
template <typename Query>
Nodes neighbours(const Query& query, CUgraphNode node) {
  for (std::size_t room = 16;; room *= 4) {
    Nodes nodes(room);
    std::vector<CUgraphEdgeData> edges(room);
    std::size_t count = room;
    check(query(node, nodes.data(), edges.data(), &count), "read the edges of a captured run");
    nodes.resize(count);
    if (count < room) return nodes;
  }
}

void connect(const Driver& driver, CUgraph graph, CUgraphNode from, CUgraphNode to) {
  check(driver.cuGraphAddDependencies_v2(graph, &from, &to, nullptr, 1), "connect nodes of a captured run");
}

void remove(const Driver& driver, CUgraph graph, CUgraphNode node) {
  const Nodes behind = neighbours(driver.cuGraphNodeGetDependentNodes_v2, node);
  for (const CUgraphNode before : neighbours(driver.cuGraphNodeGetDependencies_v2, node)) {
    const Nodes known = neighbours(driver.cuGraphNodeGetDependentNodes_v2, before);
    for (const CUgraphNode after : behind) {
      if (std::ranges::find(known, after) == known.end()) connect(driver, graph, before, after);
    }
  }
  check(driver.cuGraphDestroyNode(node), "remove a node of a captured run");
}

bool is_small(const CUDA_MEMSET_NODE_PARAMS& fill) {
  return fill.height == 1 && fill.width * fill.elementSize <= FillBytes::kMostBytes;
}

bool is_of_card(const Driver& driver, const CUDA_MEMSET_NODE_PARAMS& fill) {
  CUmemorytype type{};
  const CUresult result = driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, fill.dst);
  return result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE;
}

CUgraphNodeType type_of(const Driver& driver, CUgraphNode node) {
  CUgraphNodeType type{};
  check(driver.cuGraphNodeGetType(node, &type), "read a node of a captured run");
  return type;
}

std::optional<CUDA_MEMSET_NODE_PARAMS> fill_of(const Driver& driver, CUgraphNode node) {
  if (type_of(driver, node) != CU_GRAPH_NODE_TYPE_MEMSET) return std::nullopt;
  CUDA_MEMSET_NODE_PARAMS fill{};
  check(driver.cuGraphMemsetNodeGetParams(node, &fill), "read a fill of a captured run");
  return fill;
}

// A mark of a collective is written to memory of the host without a multiprocessor (collective_watch.h).
bool is_mark(const Driver& driver, CUgraphNode node) {
  const auto fill = fill_of(driver, node);
  return fill && is_small(*fill) && !is_of_card(driver, *fill);
}

// The end of a collective and the begin of the next one, with nothing between them.
void remove_touching_marks(const Driver& driver, CUgraph graph) {
  std::set<CUgraphNode> removed;
  for (const CUgraphNode begin : nodes_of(driver, graph)) {
    if (removed.contains(begin) || !is_mark(driver, begin)) continue;
    const Nodes before = neighbours(driver.cuGraphNodeGetDependencies_v2, begin);
    if (before.size() != 1 || !is_mark(driver, before.front())) continue;
    for (const CUgraphNode mark : {before.front(), begin}) {
      remove(driver, graph, mark);
      removed.insert(mark);
    }
  }
}

CUgraphNode replace_by_kernel(CudaContext& context, CUgraph graph, CUgraphNode node,
                              const CUDA_MEMSET_NODE_PARAMS& fill) {
  const Driver& driver = context.driver();
  FillBytes parameters{reinterpret_cast<unsigned char*>(fill.dst), fill.value,
                       static_cast<std::int32_t>(fill.elementSize),
                       static_cast<std::int32_t>(fill.width * fill.elementSize)};
  void* arguments[] = {&parameters};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = context.kernel("fill", "fill_bytes");
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = FillBytes::kThreads;
  kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments;
  const Nodes before = neighbours(driver.cuGraphNodeGetDependencies_v2, node);
  CUgraphNode made = nullptr;
  check(driver.cuGraphAddKernelNode_v2(&made, graph, before.data(), before.size(), &kernel),
        "add a kernel to a captured run");
  // Without it, the fill would wait until all blocks of an update beside it have begun.
  CUlaunchAttributeValue priority{};
  priority.priority = context.stream_priority();
  check(driver.cuGraphKernelNodeSetAttribute(made, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority),
        "set the priority of a kernel in a captured run");
  for (const CUgraphNode after : neighbours(driver.cuGraphNodeGetDependentNodes_v2, node))
    connect(driver, graph, made, after);
  return made;
}

}  // namespace

bool GraphEdits::is_unread_copy(const Driver& driver, CUgraphNode node) const {
  CUDA_MEMCPY3D copy{};
  check(driver.cuGraphMemcpyNodeGetParams(node, &copy), "read a copy of a captured run");
  const auto is_of_card = [](CUmemorytype type) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
  };
  return is_of_card(copy.srcMemoryType) && is_of_card(copy.dstMemoryType) &&
         unread_copies_.contains({copy.srcDevice + copy.srcXInBytes, copy.dstDevice + copy.dstXInBytes});
}

void GraphEdits::apply(CudaContext& context, CUgraph graph) const {
  const CudaContext::Scope scope(context);
  const Driver& driver = context.driver();
  for (const CUgraphNode node : nodes_of(driver, graph)) {
    if (!unread_copies_.empty() && type_of(driver, node) == CU_GRAPH_NODE_TYPE_MEMCPY && is_unread_copy(driver, node)) {
      remove(driver, graph, node);
    } else if (const auto fill = fill_of(driver, node)) {
      if (!is_small(*fill) || !is_of_card(driver, *fill)) continue;
      const CUgraphNode kernel = replace_by_kernel(context, graph, node, *fill);
      if (listener_) listener_(node, kernel);
      check(driver.cuGraphDestroyNode(node), "remove a node of a captured run");
    }
  }
  remove_touching_marks(driver, graph);
}

}  // namespace ridgepoint::cuda
