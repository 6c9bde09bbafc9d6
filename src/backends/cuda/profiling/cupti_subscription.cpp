#include "backends/cuda/profiling/cupti_subscription.h"

#include <array>
#include <new>

#include "backends/cuda/driver/kernel_cache.h"
#include "backends/cuda/profiling/cupti_buffers.h"

namespace ridgepoint::cuda {
namespace {

// Concurrent kernels, because the plain kind serialises kernels. External correlation needs the records of API calls.
// Without the kind of whole graphs, each node of a graph has a record.
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                               CUPTI_ACTIVITY_KIND_DRIVER,
                               CUPTI_ACTIVITY_KIND_RUNTIME,
                               CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMCPY2,
                               CUPTI_ACTIVITY_KIND_MEMSET,
                               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

constexpr std::array kGraphNodes = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

}  // namespace

// The subscription also shows whether another tool uses CUPTI.
CuptiSubscription::CuptiSubscription(CapturedNodes& nodes) : call_(cupti()) {
  CuptiBuffers::instance();
  check(call_, call_.cuptiSubscribe(&subscriber_, on_callback, &nodes), "start recording");
  try {
    for (const CUpti_ActivityKind kind : kKinds) {
      check(call_, call_.cuptiActivityEnable(kind), "record kernels");
      ++enabled_;
    }
  } catch (...) {
    end();
    throw;
  }
  sees_graph_nodes_ = true;
  for (const CUpti_CallbackId id : kGraphNodes) {
    if (call_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id) != CUPTI_SUCCESS)
      sees_graph_nodes_ = false;
  }
}

// CUPTI knows a kernel by the address of its CUfunction, and reports the old name where the driver gives this address
// to a kernel that is loaded later (seen with CUDA 13.0). So the kernels at the end of a recording are never unloaded.
void CuptiSubscription::end() noexcept {
  try {
    LoadedSource::keep_loaded();
  } catch (const std::bad_alloc&) {  // later names may be wrong
  }
  while (enabled_ > 0) call_.cuptiActivityDisable(kKinds[--enabled_]);
  call_.cuptiUnsubscribe(subscriber_);
}

// CUPTI calls this, so nothing may be thrown. A node whose id cannot be read stays unknown.
void CuptiSubscription::on_callback(void* nodes, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE || data == nullptr) return;
  const auto* graph =
      static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
  if (graph == nullptr) return;
  auto& known = *static_cast<CapturedNodes*>(nodes);
  try {
    const std::optional<std::uint64_t> node = id_of_graph_node(graph->node);
    if (!node) return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) known.created(*node);
    if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
    if (const std::optional<std::uint64_t> original = id_of_graph_node(graph->originalNode))
      known.copied(*original, *node);
  } catch (...) {  // no memory: the node stays unknown
  }
}

std::optional<std::uint64_t> id_of_graph_node(CUgraphNode node) {
  std::uint64_t id = 0;
  if (cupti().cuptiGetGraphNodeId(node, &id) != CUPTI_SUCCESS) return std::nullopt;
  return id;
}

}  // namespace ridgepoint::cuda
