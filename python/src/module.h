// The parts of ridgepoint._core, one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace ridgepoint::python {

void add_commands(pybind11::module_& module);  // the program's commands, run within this process
void add_graphs(pybind11::module_& module);    // graphs and programs of the library

}  // namespace ridgepoint::python
