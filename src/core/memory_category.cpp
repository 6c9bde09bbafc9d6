#include "core/memory_category.h"

namespace ridgepoint {

std::string_view name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameter:
      return "parameter";
    case MemoryCategory::gradient:
      return "gradient";
    case MemoryCategory::activation:
      return "activation";
    case MemoryCategory::optimizer_state:
      return "optimizer_state";
    case MemoryCategory::temporary:
      return "temporary";
    case MemoryCategory::workspace:
      return "workspace";
    case MemoryCategory::data:
      return "data";
  }
  return "unknown";
}

}  // namespace ridgepoint
