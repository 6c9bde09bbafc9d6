#!/usr/bin/env python3
"""Tests of check_node_order.py on small files; skipped without clang-query-16."""

import pathlib
import shutil
import tempfile
import unittest

import check_node_order
import run_clang_tidy

TYPES = """namespace ridgepoint {
struct Value { unsigned id = 0; };
enum class Kind : int { one };
struct Graph { Value type(Value x) const { return x; } };
Value neg(Graph&, Value);
Value add(Graph&, Value, Value);
Value pair(Value, Value);
Value with_kind(Value, Kind);
Kind kind_of(Value);
struct Layer {
  Graph& graph_;
  Value x_;
  Value x() const { return x_; }
  Kind kind() const { return kind_of(x()); }
  Value made(Value x) { return neg(graph_, x); }
  Value both(Value x) { return %s; }
};
Value rule(Graph& graph, Value x) {
  const auto number = [&](int) { return neg(graph, x); };
  Layer layer{graph, x};
  return %s;
}
}
"""


@unittest.skipUnless(shutil.which("clang-query-16"), "no clang-query-16")
class Calls(unittest.TestCase):
    def found(self, returned, in_class="x"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "src"
            folder.mkdir()
            (folder / "node_order.query").write_text(check_node_order.matchers())
            file = folder / "rule.cpp"
            file.write_text(TYPES % (in_class, returned))
            bundle = run_clang_tidy.Bundle(name, "clang++", ("-std=c++20",), [str(file)])
            return len(check_node_order.check(bundle, "clang-query-16", folder))

    def test_two_arguments_that_are_given_the_graph(self):
        self.assertEqual(self.found("add(graph, neg(graph, x), neg(graph, x))"), 1)

    def test_arguments_that_build_further_inside(self):
        self.assertEqual(self.found("pair(pair(x, neg(graph, x)), pair(neg(graph, x), x))"), 1)

    def test_local_functions_build(self):
        self.assertEqual(self.found("pair(number(0), number(1))"), 1)

    def test_methods_of_a_class_that_holds_the_graph_build(self):
        self.assertEqual(self.found("x", in_class="pair(made(x), made(x))"), 1)
        self.assertEqual(self.found("pair(layer.made(x), layer.made(x))"), 1)

    def test_one_argument_may_build(self):
        self.assertEqual(self.found("add(graph, neg(graph, neg(graph, x)), x)"), 0)

    def test_what_only_reads_builds_nothing(self):
        self.assertEqual(self.found("add(graph, graph.type(x), neg(graph, x))"), 0)
        self.assertEqual(self.found("pair(layer.x(), neg(graph, x))"), 0)
        self.assertEqual(self.found("with_kind(neg(graph, x), layer.kind())"), 0)


if __name__ == "__main__":
    unittest.main()
