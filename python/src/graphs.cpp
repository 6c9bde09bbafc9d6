// Graphs of the library, and programs that run them on tensors of Python.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/text/nearest.h"
#include "module.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "tensors.h"

namespace ridgepoint::python {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ErrorKind::usage); }

Op op_named(const std::string& text) {
  if (const std::optional<Op> op = op_from_name(text)) return *op;
  std::vector<std::string_view> names;
  for (const Op op : kAllOps) names.push_back(name(op));
  refuse(fmt::format("there is no op '{}'{}", text, hint(text, names)));
}

TensorType type_from(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  if (shape.size() > static_cast<std::size_t>(kMaxRank))
    refuse(fmt::format("a tensor of {} dimensions; the most are {}", shape.size(), kMaxRank));
  return {dtype_from_name(dtype), Shape(std::vector<Dim>(shape.begin(), shape.end()))};
}

std::vector<std::int64_t> sizes_of(const TensorType& type) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.shape.dims()) sizes.push_back(dim.size);
  return sizes;
}

// A graph in which values have numbers.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& name) { graph_.name = name; }
  static GraphBuilder parse(const std::string& text) { return GraphBuilder(parse_graph(text)); }

  const Graph& graph() const { return graph_; }
  std::string text() const { return print_graph(graph_); }

  std::uint32_t input(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                      const std::string& role_name) {
    const std::optional<Role> role = role_from_name(role_name);
    if (!role)
      refuse(fmt::format("'{}' is no role of an input; there are parameter, state, data, constant", role_name));
    return ridgepoint::input(graph_, name, type_from(dtype, shape), *role).id;
  }

  std::vector<std::uint32_t> add(const std::string& op, const std::vector<std::uint32_t>& operands,
                                 const std::vector<std::pair<std::string, AttributeValue>>& given) {
    std::vector<Value> values;
    for (const std::uint32_t id : operands) values.push_back(value(id));
    Attributes attributes;
    for (const auto& [key, attribute] : given) attributes.set(key, attribute);
    std::vector<std::uint32_t> results;
    const NodeId made = make_node(graph_, op_named(op), std::move(values), std::move(attributes));
    for (const Value result : graph_.node(made).outputs) results.push_back(result.id);
    return results;
  }

  void output(const std::string& name, std::uint32_t id, const std::string& role_name) {
    const std::optional<OutputRole> role = output_role_from_name(role_name);
    if (!role) refuse(fmt::format("'{}' is no role of an output; there are result and loss", role_name));
    if (graph_.find_output(name)) refuse(fmt::format("the graph has an output '{}' already", name));
    graph_.add_output(name, value(id), *role);
  }
  void update(std::uint32_t input, std::uint32_t id) { graph_.add_update(value(input), value(id)); }

  std::string role(const std::string& input) const {
    const std::optional<Value> found = graph_.find_input(input);
    if (!found) refuse(fmt::format("the graph has no input '{}'", input));
    return std::string(name(input_role(graph_.producer_node(*found))));
  }

  py::tuple type(std::uint32_t id) const {
    const TensorType& type = graph_.type(value(id));
    return py::make_tuple(std::string(name(type.dtype)), py::tuple(py::cast(sizes_of(type))));
  }

  void set_scope(const std::string& scope) { graph_.set_scope(scope); }
  std::string scope() const { return graph_.scope(); }
  void set_phase(const std::string& text) {
    const std::optional<Phase> phase = phase_named(text);
    if (!phase) refuse(fmt::format("'{}' is no phase; there are forward and loss", text));
    graph_.set_phase(*phase);
  }

  std::vector<std::pair<std::string, std::uint32_t>> inputs() const {
    std::vector<std::pair<std::string, std::uint32_t>> found;
    for (const NodeId id : graph_.inputs())
      found.emplace_back(input_name(graph_.node(id)), graph_.node(id).outputs[0].id);
    return found;
  }
  std::vector<std::pair<std::string, std::uint32_t>> outputs() const {
    std::vector<std::pair<std::string, std::uint32_t>> found;
    for (const Output& output : graph_.outputs()) found.emplace_back(output.name, output.value.id);
    return found;
  }

 private:
  explicit GraphBuilder(Graph graph) : graph_(std::move(graph)) {}

  Value value(std::uint32_t id) const {
    if (id >= graph_.value_count()) refuse(fmt::format("the graph has no value {}", id));
    return Value{id};
  }

  Graph graph_;
};

struct Settings {
  std::string device, mode, dtype, compile, optimizer;
  int threads = 0;
};

Program compiled(const Graph& graph, const Settings& settings) {
  const py::gil_scoped_release released;
  ProgramOptions options;
  options.compile.mode = mode_from_name(settings.mode);
  options.compile.precision = precision_from_name(settings.dtype);
  options.compile.level = compile_from_name(settings.compile);
  options.compile.optimizer.kind = optimizer_from_name(settings.optimizer);
  return {graph, open_device(settings.device, {.threads = settings.threads, .memory_limit_bytes = {}}), options};
}

// A compiled graph. A call gives it the data of one run, and returns the outputs.
class CompiledProgram {
 public:
  explicit CompiledProgram(Program program) : program_(std::move(program)) {
    const Graph& compiled = program_.graph();
    for (const NodeId id : compiled.inputs(Role::data)) {
      const Node& node = compiled.node(id);
      data_.push_back({input_name(node), compiled.type(node.outputs[0])});
    }
    for (const ridgepoint::Output& output : compiled.outputs())
      outputs_.push_back({output.name, compiled.type(output.value)});
  }

  // Reads the arrays where they lie, and writes the results into new ones, where the program can: no copies.
  py::dict run(const py::kwargs& given) {
    const std::vector<GivenTensor> data = check(given);
    std::vector<py::object> arrays(outputs_.size());
    std::vector<void*> memory(outputs_.size(), nullptr);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (!has_numpy_dtype(outputs_[i].type.dtype)) continue;
      py::array array = new_array(outputs_[i].type);
      memory[i] = array.mutable_data();
      arrays[i] = std::move(array);
    }
    std::vector<HostTensor> copies(outputs_.size());
    {
      const py::gil_scoped_release released;
      run_on(data, memory, copies);
    }
    py::dict results;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      results[outputs_[i].key] = memory[i] != nullptr ? arrays[i] : array_of(copies[i]);
    return results;
  }

  // Parameters, state and constants, which stay from run to run.
  void set(const std::string& name, const py::handle& value) {
    const HostTensor tensor = given_tensor(name, value, type_of(name)).copy();
    const py::gil_scoped_release released;
    const std::scoped_lock lock(mutex_);
    program_.write_input(name, tensor);
  }
  py::array get(const std::string& name) {
    HostTensor tensor;
    {
      const py::gil_scoped_release released;
      const std::scoped_lock lock(mutex_);
      tensor = program_.read_input(name);
    }
    return array_of(tensor);
  }
  void set_random(const std::string& name, double deviation, std::uint64_t seed) {
    const py::gil_scoped_release released;
    const std::scoped_lock lock(mutex_);
    program_.write_random(name, {.deviation = deviation}, seed);
  }

  std::string text() const { return print_graph(program_.graph()); }
  std::vector<std::string> inputs() const {
    std::vector<std::string> names;
    for (const NodeId id : program_.graph().inputs()) names.push_back(input_name(program_.graph().node(id)));
    return names;
  }
  std::vector<std::string> outputs() const {
    std::vector<std::string> names;
    for (const Named& output : outputs_) names.push_back(output.name);
    return names;
  }
  std::int64_t flops() const { return program_.flops_per_run(); }
  std::size_t peak_bytes() const { return program_.memory_use().peak_allocated_bytes; }

 private:
  struct Named {
    Named(std::string its_name, TensorType its_type)
        : name(std::move(its_name)), type(std::move(its_type)), key(name) {}
    std::string name;
    TensorType type;
    py::str key;
  };

  TensorType type_of(const std::string& name) {
    program_.index_bound(name);  // throws Error for another name
    for (const NodeId id : program_.graph().inputs()) {
      if (input_name(program_.graph().node(id)) == name)
        return program_.graph().type(program_.graph().node(id).outputs[0]);
    }
    return {};  // one that is stored in another
  }

  std::vector<GivenTensor> check(const py::kwargs& given) {
    std::vector<GivenTensor> data;
    data.reserve(data_.size());
    std::vector<std::string_view> missing;
    for (const Named& input : data_) {
      PyObject* value = PyDict_GetItemWithError(given.ptr(), input.key.ptr());
      if (value == nullptr) {
        missing.push_back(input.name);
        continue;
      }
      data.push_back(given_tensor(input.name, value, input.type));
      if (data.back().type == input.type) continue;
      refuse(fmt::format("input '{}' is {}; the given tensor is {}", input.name, input.type.to_string(),
                         data.back().type.to_string()));
    }
    if (given.size() > data.size()) refuse_others(given);
    if (!missing.empty())
      refuse(fmt::format("no value is given for {}; every run needs all data", fmt::join(missing, ", ")));
    return data;
  }

  void refuse_others(const py::kwargs& given) {
    for (const auto& [key, value] : given) {
      const auto name = key.cast<std::string>();
      if (std::ranges::find(data_, name, &Named::name) != data_.end()) continue;
      program_.index_bound(name);  // throws Error with the nearest name
      refuse(fmt::format("'{0}' stays from run to run; set it as program['{0}'] = array", name));
    }
  }

  // Without the GIL. Where an output cannot be bound, its memory becomes null, and a copy is made.
  void run_on(const std::vector<GivenTensor>& data, std::vector<void*>& memory, std::vector<HostTensor>& copies) {
    const std::scoped_lock lock(mutex_);
    const Unbound unbound{*this};
    for (std::size_t i = 0; i < data_.size(); ++i) {
      if (!is_aligned(data[i]) || !program_.bind_input(data_[i].name, data[i].data))
        program_.write_input(data_[i].name, data[i].copy());
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (memory[i] != nullptr && !program_.bind_output(outputs_[i].name, memory[i])) memory[i] = nullptr;
    }
    program_.run();
    program_.synchronize();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (memory[i] == nullptr) copies[i] = program_.read_output(outputs_[i].name);
    }
  }

  static bool is_aligned(const GivenTensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data) % size_bytes(tensor.type.dtype) == 0;
  }

  // The arrays of a run may end after it.
  struct Unbound {
    CompiledProgram& self;
    ~Unbound() {
      for (const Named& input : self.data_) self.program_.bind_input(input.name, nullptr);
      for (const Named& output : self.outputs_) self.program_.bind_output(output.name, nullptr);
    }
  };

  std::mutex mutex_;
  Program program_;
  std::vector<Named> data_, outputs_;
};

}  // namespace

void add_graphs(py::module_& module) {
  std::vector<std::string> ops;
  for (const Op op : kAllOps) ops.emplace_back(name(op));
  module.attr("ops") = py::tuple(py::cast(ops));

  py::class_<GraphBuilder>(module, "GraphBuilder")
      .def(py::init<std::string>())
      .def_static("parse", &GraphBuilder::parse)
      .def("text", &GraphBuilder::text)
      .def("input", &GraphBuilder::input)
      .def("add", &GraphBuilder::add)
      .def("output", &GraphBuilder::output)
      .def("update", &GraphBuilder::update)
      .def("role", &GraphBuilder::role)
      .def("type", &GraphBuilder::type)
      .def("inputs", &GraphBuilder::inputs)
      .def("outputs", &GraphBuilder::outputs)
      .def("set_phase", &GraphBuilder::set_phase)
      .def_property("scope", &GraphBuilder::scope, &GraphBuilder::set_scope);

  py::class_<CompiledProgram>(module, "Program",
                              "A compiled graph. A call takes the data of a run by name and returns the outputs.")
      .def(py::init([](const GraphBuilder& builder, std::string device, std::string mode, std::string dtype,
                       std::string compile, std::string optimizer, int threads) {
             const Settings settings{std::move(device),  std::move(mode),      std::move(dtype),
                                     std::move(compile), std::move(optimizer), threads};
             return std::make_unique<CompiledProgram>(compiled(builder.graph(), settings));
           }),
           "graph"_a, "device"_a, "mode"_a, "dtype"_a, "compile"_a, "optimizer"_a, "threads"_a)
      .def("__call__", &CompiledProgram::run)
      .def("__setitem__", &CompiledProgram::set)
      .def("__getitem__", &CompiledProgram::get)
      .def("set_random", &CompiledProgram::set_random, "name"_a, "deviation"_a = 1.0, "seed"_a = 0,
           "Sets an input to random values, normal and cut at 3 deviations: the same on every device.")
      .def("text", &CompiledProgram::text, "The graph after all passes, as text.")
      .def_property_readonly("inputs", &CompiledProgram::inputs)
      .def_property_readonly("outputs", &CompiledProgram::outputs)
      .def_property_readonly("flops_per_run", &CompiledProgram::flops)
      .def_property_readonly("peak_bytes", &CompiledProgram::peak_bytes);
}

}  // namespace ridgepoint::python
