# SPDX-License-Identifier: Apache-2.0
"""No cycle between modules, and no large one inside a module. The table of tree.py has no cycle; every call of a function
that one module alone defines follows the table (or the function is public); and the files of a module that reach each other
by includes and calls, a .c with its .h being one file, are five at most."""
import collections
import re
import sys

import c_source
import findings
import tree

COMPONENT_FILES_MAX = 5


def components(edges):
    """The strongly connected components of a graph {node: set of nodes}, without those of one node (Tarjan's algorithm)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            component = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


class Graph:
    """Files and modules of a tree, by includes and by calls."""

    def __init__(self, root):
        self.definitions = collections.defaultdict(set)  # function -> files that define it for others
        self.public = set()  # functions that include/ declares
        self.calls = collections.defaultdict(lambda: collections.defaultdict(set))  # file -> file -> functions
        self.includes = collections.defaultdict(set)  # file -> files
        sources = [(path, text, list(c_source.functions(text)))
                   for _, path, text in tree.relative_sources(root, ".c", ".h")]
        for path, text, functions in sources:
            self._define(path, text, functions)
        for path, text, functions in sources:
            self._use(path, text, functions)

    @staticmethod
    def node(path):
        return path.rsplit(".", 1)[0]

    def _define(self, path, text, functions):
        if tree.module_of(path) == "include":
            self.public.update(re.findall(r"\b(\w+)\s*\(", c_source.code_of(text)))
        for function in functions:
            if not function.is_static or path.endswith(".h"):
                self.definitions[function.name].add(path)

    def _use(self, path, text, functions):
        own = {function.name for function in functions}
        self.includes[self.node(path)].update(self.node(name) for name in c_source.includes(text))
        for function in functions:
            for name in c_source.calls(function) - own:
                if len(self.definitions.get(name, ())) == 1:
                    self.calls[path][next(iter(self.definitions[name]))].add(name)

    def file_edges(self, module):
        """The files of a module and which of them each needs."""
        edges = {node: set(targets) for node, targets in self.includes.items() if tree.module_of(node) == module}
        for path, targets in self.calls.items():
            if tree.module_of(path) == module:
                edges[self.node(path)].update(map(self.node, targets))
        return {node: {target for target in targets if target in edges and target != node}
                for node, targets in edges.items()}

    def calls_between_modules(self):
        """(calling file, its module, defining module, functions)"""
        for path, targets in self.calls.items():
            for target, names in targets.items():
                caller, defines = tree.module_of(path), tree.module_of(target)
                if caller != defines:
                    yield path, caller, defines, names


def find(root):
    graph = Graph(root)
    found = {}
    edges = {module: set(may) for module, may in tree.MAY_INCLUDE.items()}
    for path, caller, defines, names in graph.calls_between_modules():
        if names & graph.public:
            edges[caller].add(defines)
        if defines not in tree.MAY_INCLUDE[caller]:
            found.update({f"{path} calls {defines}": None for _ in names - graph.public})
    for component in components(edges):
        found[f"cycle of modules {' '.join(component)}"] = None
    for module in tree.MAY_INCLUDE:
        files = sum(len(c) for c in components(graph.file_edges(module)) if len(c) > COMPONENT_FILES_MAX)
        if files:
            found[f"files in cycles of {module}"] = files
    return found


def show(root):
    """Every call against the table and every component, as a help to cut them."""
    graph = Graph(root)
    for path, caller, defines, names in graph.calls_between_modules():
        if defines not in tree.MAY_INCLUDE[caller] and names - graph.public:
            print(f"{path} calls {' '.join(sorted(names - graph.public))} of {defines}")
    for module in tree.MAY_INCLUDE:
        edges = graph.file_edges(module)
        for component in components(edges):
            print(f"{module}: {len(component)} files")
            for node in component:
                print(f"    {node} -> {' '.join(sorted(edges[node] & set(component)))}")


if __name__ == "__main__":
    if "--show" in sys.argv[2:]:
        show(sys.argv[1])
    sys.exit(findings.run(sys.argv[1:], "cycles", find,
                          "calls follow the table of tests/tools/tree.py, which has no cycle, and at most "
                          f"{COMPONENT_FILES_MAX} files of a module need each other (--show lists the calls and the components)",
                          "none between modules, none large inside one"))
