#!/usr/bin/env python3
"""Checks that no call has two arguments which both build nodes of a graph.

usage: check_node_order.py --build DIR [--jobs N] [--clang-query COMMAND] [NAME...]

GCC evaluates the arguments of a call from the right, clang from the left, so the nodes of such a call would stand in
another order in the program than in the page of the planner. Such operands are named, one statement each; in braces they
are evaluated from the left by every compiler. A call builds nodes if it is given a graph, is a method that returns
values of a class that holds a graph, or is a local function that does either. Reads the files in src/ of the build's
compile_commands.json, or those of them whose path contains a NAME. Prints one line a call and exits 1 if there is any.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import run_clang_tidy

MOST_ARGUMENTS = 9


def pairs(first):
    """A matcher for a call of which two arguments, from number `first` on, build nodes."""
    numbers = range(first, MOST_ARGUMENTS)
    both = [f"allOf(hasArgument({i}, building), hasArgument({j}, building))" for i in numbers for j in numbers if i < j]
    return f"anyOf({', '.join(both)})"


def matchers():
    def refers_to(declaration):
        return f"hasType(references(qualType(unless(isConstQualified()), hasDeclaration({declaration}))))"

    in_source = 'isExpansionInFileMatching("/src/")'
    operators = ", ".join(f'"{name}"' for name in ("<<", "=", "==", "!=", "&&", "||", ",", "[]", "()"))
    return f"""set output diag
let graph cxxRecordDecl(hasName("::ridgepoint::Graph"))
let holder cxxRecordDecl(has(fieldDecl({refers_to("graph")})))
let owner cxxRecordDecl(anyOf(holder, has(fieldDecl(anyOf({refers_to("holder")}, hasType(qualType(hasDeclaration(holder))))))))
let builder cxxRecordDecl(anyOf(owner, isDerivedFrom(owner)))
let writable expr(hasType(qualType(unless(isConstQualified()), hasDeclaration(cxxRecordDecl(anyOf(graph, builder))))))
let accessor cxxMethodDecl(anyOf(returns(booleanType()), returns(referenceType()), returns(hasCanonicalType(enumType())), hasBody(unless(hasDescendant(callExpr())))))
let method cxxMemberCallExpr(callee(cxxMethodDecl(ofClass(builder), unless(accessor))))
let given callExpr(anyOf(hasAnyArgument(writable), method, callee(cxxMethodDecl(hasName("::ridgepoint::Graph::add_node")))))
let local callExpr(anyOf(given, cxxOperatorCallExpr(callee(cxxMethodDecl(ofClass(isLambda()), hasBody(hasDescendant(given)))))))
let builds callExpr(anyOf(local, cxxOperatorCallExpr(callee(cxxMethodDecl(ofClass(isLambda()), hasBody(hasDescendant(local)))))))
let building expr(anyOf(builds, hasDescendant(builds)))
match callExpr({in_source}, unless(cxxOperatorCallExpr(hasAnyOverloadedOperatorName({operators}))), {pairs(0)})
match cxxOperatorCallExpr({in_source}, hasOverloadedOperatorName("()"), {pairs(1)})
match cxxConstructExpr({in_source}, unless(isListInitialization()), {pairs(0)})
match binaryOperator({in_source}, unless(hasAnyOperatorName("&&", "||", ",", "=", "<<")), hasLHS(building), hasRHS(building))
"""


FOUND = re.compile(r'^(\S+?):(\d+):(\d+): note: "root" binds here$', re.MULTILINE)


def check(bundle, clang_query, folder):
    """The places {(file, line, column)} of such calls in the files of a bundle. Throws where a file does not compile."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".cpp") as source:
        source.write(bundle.text())
        source.flush()
        command = [clang_query, "-f", folder / "node_order.query", source.name, "--", *bundle.flags, "-Wno-everything"]
        result = subprocess.run(command, cwd=bundle.directory, capture_output=True, text=True, check=False)
    if result.returncode == 0 and "error:" not in result.stderr and "Error parsing" not in result.stdout:
        return {(file, int(line), int(column)) for file, line, column in FOUND.findall(result.stdout)}
    if len(bundle.files) == 1:
        raise RuntimeError(f"{bundle.files[0]}: {result.stderr or result.stdout}")
    return set().union(*(check(half, clang_query, folder) for half in bundle.halves()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--clang-query", default="clang-query-16")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    bundles = run_clang_tidy.bundles_of(arguments.build, arguments.names or ["/src/"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "node_order.query").write_text(matchers())
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            places = sorted(set().union(*pool.map(lambda bundle: check(bundle, arguments.clang_query, folder), bundles)))
    for file, line, column in places:
        print(f"{file}:{line}:{column}: two arguments of this call build nodes; name them in the order they are to stand in")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
