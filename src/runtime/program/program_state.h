// The inside of a ProgramPlan: the graph after the passes, its plan, and where the tensors of its inputs are stored.
// And that of a Program: the kernels, the memory and the executor of a plan, and how tensors come in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/packed/float8_weights.h"
#include "ir/stored_tensors.h"
#include "plan/plan.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/communicator.h"
#include "runtime/device/offload_file.h"
#include "runtime/execution/executor.h"

namespace ridgepoint {

struct ProgramPlan::Implementation {
  // A named tensor, and the input that stores it.
  struct InputSlot {
    StoredTensor tensor;
    Value value;
    std::int64_t index_bound = INT64_MAX;  // exclusive; of int64 data
    std::int64_t ignored_index = 0;        // an index that is allowed whatever the bound; 0: none
  };

  // Storage of consecutive elements of an input: all of them, a low copy, low halves, or the part of a rank.
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
  std::string offload_folder;
  std::map<std::string, std::int64_t> bounds;
  Graph graph;
  std::vector<InputSlot> inputs;
  std::map<std::string, std::size_t, std::less<>> input_index;
  std::map<Value, std::vector<Store>> stores;  // by input, which is the first
  std::map<Value, Value> scales;               // of weights in fp8, by the input with their codes
  ExecutionPlan plan;

 private:
  static std::vector<InputSlot> input_slots(const Graph& graph, const std::map<std::string, std::int64_t>& bounds);
  // Of an input that is a part, the elements that it stores of the whole.
  Store store_of(Value value) const;
  // Adds a state that holds a copy, or a part, of a parameter to its stores.
  void add_store(const Node& state);
};

struct Program::Implementation {
  using InputSlot = ProgramPlan::Implementation::InputSlot;
  using Store = ProgramPlan::Implementation::Store;

  Implementation(std::shared_ptr<const ProgramPlan::Implementation> planned, const std::shared_ptr<Device>& on,
                 const ProgramOptions& options);

  // Waits for the device. Throws Error also where the last run could not read or write the file.
  void synchronize() const;

  // Writes the attribute "initial" of inputs, such as the loss scale.
  void write_initial_values();

  const InputSlot& find_input(std::string_view name) const { return source->find_input(name); }

  // Throws Error (usage) with the nearest name where there is no such output.
  Value find_output(std::string_view name) const;

  // Casts the tensor to the type of the value, and writes it there from `first_element` on.
  void write(Value value, const HostTensor& tensor, std::int64_t first_element = 0);

  // What a store has of the tensor of a slot: the elements from `begin` to `end` of the tensor.
  struct Overlap {
    Value value;
    std::int64_t begin = 0, end = 0;
    std::int64_t first_in_store = 0;
  };
  std::vector<Overlap> overlaps(const InputSlot& slot) const;
  // Of a slot's stores: the one in the type of the tensor, else the first, beside which low halves may be stored.
  const Store& exact_store(const InputSlot& slot) const;
  std::optional<Value> low_halves(const InputSlot& slot) const;
  // The tensor of a slot that is packed, of a floating dtype, or its bytes.
  void write_packed(const InputSlot& slot, const HostTensor& tensor);
  void write_packed(const InputSlot& slot, const ElementSource& elements);
  void write_packed_bytes(const InputSlot& slot, std::span<const std::byte> bytes);
  // Writes a weight in fp8 with those beside it, whose scale it shares.
  void write_float8(const InputSlot& slot, Float8Weight weight);
  HostTensor read_packed(const InputSlot& slot) const;
  std::vector<std::byte> packed_bytes(const InputSlot& slot) const;
  static bool is_whole(const Overlap& overlap, const StoredTensor& tensor);

  // Writes what a store has of the tensor.
  void write_overlap(const Overlap& overlap, const HostTensor& tensor);
  void write_random(const Overlap& overlap, const StoredTensor& tensor, const TruncatedNormal& distribution,
                    std::uint64_t seed, const StopPoint& stop_point);

  // `stored` out of the parts of all ranks, of one dimension. All ranks must call this, in the same order.
  HostTensor gathered(HostTensor part, const StoredTensor& stored) const;

  bool is_on_host(Value value) const;
  bool is_on_disk(Value value) const;
  // Copies bytes into the memory of a value, on the host or on the device, and out of it.
  void copy_in(Value value, void* to, const void* from, std::size_t bytes);
  void copy_out(Value value, void* to, const void* from, std::size_t bytes) const;
  HostTensor read_dense(Value value, const TensorType& type, const std::byte* from) const;

  // Where this rank stores the part: in one place, or the bf16 and then the low halves of its elements, or its codes
  // and then their scale.
  struct PlaceOfPart {
    Value value;
    std::byte* address = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<PlaceOfPart> places_of_packed(const InputSlot& slot) const;
  std::vector<PlaceOfPart> places_of(const StatePart& part) const;

  // Null where the value has no memory.
  std::byte* element(Value value, std::int64_t index) const;

  // Throws Error with `message` when the value has no memory.
  HostTensor read(Value value, const char* message = "an output was read before the program ran") const;

  std::shared_ptr<const ProgramPlan::Implementation> source;
  std::shared_ptr<Device> device;
  std::shared_ptr<Communicator> communicator;
  const Graph& graph;
  const ExecutionPlan& plan;
  std::unique_ptr<OffloadFile> file;  // null where no tensor lies in one, and where the device only plans
  Kernels kernels;
  std::vector<Lifetime> lifetimes;
  std::unique_ptr<Allocator> allocator;
  // Weights in fp8 that were written while some beside them were not, by their input and name: as they were given.
  std::map<Value, std::map<std::string, Float8Weight>> given;
  HostTensor cast;                         // of write(), kept: new memory takes as long as the conversion
  std::unique_ptr<LaunchObserver> marker;  // null unless an external profiler is attached
  Executor executor;
};

}  // namespace ridgepoint
