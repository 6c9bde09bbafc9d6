#include "module.h"

#include <csignal>
#include <cstddef>

#include "core/build_info.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::python {
namespace {

namespace py = pybind11;

// The classes of exceptions, by the kind of an Error. Each is a class that Python's own programs expect, too.
struct ErrorClasses {
  PyObject* any = nullptr;
  PyObject* usage = nullptr;
  PyObject* unsupported = nullptr;
  PyObject* out_of_memory = nullptr;

  PyObject* of(ErrorKind kind) const {
    switch (kind) {
      case ErrorKind::usage: return usage;
      case ErrorKind::unsupported: return unsupported;
      case ErrorKind::out_of_memory: return out_of_memory;
      case ErrorKind::failure: break;
    }
    return any;
  }
};
ErrorClasses classes;

PyObject* add_class(py::module_& module, const char* name, const char* doc, const py::tuple& bases) {
  PyObject* made = PyErr_NewExceptionWithDoc(("ridgepoint." + std::string(name)).c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) throw py::error_already_set();
  module.add_object(name, py::handle(made));
  return made;
}

void add_errors(py::module_& module) {
  classes.any =
      add_class(module, "Error", "A request that failed. The text says what was asked, found, and what to do.",
                py::make_tuple(py::handle(PyExc_RuntimeError)));
  const py::handle any(classes.any);
  classes.usage = add_class(module, "UsageError", "A request that is not valid; nothing ran.",
                            py::make_tuple(any, py::handle(PyExc_ValueError)));
  classes.unsupported = add_class(module, "Unsupported", "A request that this device or this build cannot run.",
                                  py::make_tuple(any, py::handle(PyExc_NotImplementedError)));
  classes.out_of_memory = add_class(module, "OutOfMemory", "Memory of the device ran out.",
                                    py::make_tuple(any, py::handle(PyExc_MemoryError)));
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(classes.of(error.kind()), error.what());
    }
  });
}

// The SGEMM of oneDNN 2.6 keeps data below the stack pointer, where a handler of signals would write. Python's handlers
// run on the alternative stack of the main thread, where it has one.
void give_signals_a_stack() {
  alignas(std::max_align_t) static std::byte memory[std::size_t{1} << 16];
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = sizeof(memory);
  sigaltstack(&stack, nullptr);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "Ridgepoint's engine and commands; `import ridgepoint` has them with names.";
  module.attr("version") = std::string(version());
  give_signals_a_stack();
  add_errors(module);
  add_commands(module);
  add_graphs(module);
}

}  // namespace ridgepoint::python
