// The inside of a ProgramPlan: the graph after the passes, its plan, and where the tensors of its inputs are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stored_tensors.h"
#include "plan/plan.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

struct ProgramPlan::Implementation {
  // A named tensor, and the input that stores it.
  struct InputSlot {
    StoredTensor tensor;
    Value value;
    std::int64_t index_bound = INT64_MAX;  // exclusive; of int64 data
  };

  // Storage of consecutive elements of an input: all of them, a low copy, or the part of a rank.
  struct Store {
    Value value;
    std::int64_t first_element = 0;
    std::int64_t elements = 0;
  };

  Implementation(Graph source, std::shared_ptr<Device> target, const ProgramOptions& options);

  // Throws Error (usage) with the nearest name where there is no such input.
  const InputSlot& find_input(std::string_view name) const;

  std::shared_ptr<Device> device;
  bool captures;
  ParallelOptions parallel;
  AllocatorKind allocator;
  std::map<std::string, std::int64_t> bounds;
  Graph graph;
  std::vector<InputSlot> inputs;
  std::map<std::string, std::size_t, std::less<>> input_index;
  std::map<Value, std::vector<Store>> stores;  // by input, which is the first
  ExecutionPlan plan;

 private:
  static std::vector<InputSlot> input_slots(const Graph& graph, const std::map<std::string, std::int64_t>& bounds);
  // Of an input that is a part, the elements that it stores of the whole.
  Store store_of(Value value) const;
  // Adds a state that holds a copy, or a part, of a parameter to its stores.
  void add_store(const Node& state);
};

}  // namespace ridgepoint
