#!/usr/bin/env python3
"""Compares cc/include with the headers of an installed CUDA 13 toolkit: enumeration values, function types, and the
size, alignment and field offsets of every structure that both declare. Prints the differences; exit status 1 if any.

    python3 cc/check_abi.py [/usr/local/cuda/include]

The toolkit is only read here; nothing of it is used by Orrery.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'include')
# Counted differently on purpose, or not of the header that declares it in the toolkit.
EXPECTED = {'cudaProfilerStart', 'cudaProfilerStop', 'cuProfilerStart', 'cuProfilerStop', 'cuTexObjectCreate'}


def facts(include, header, folder):
    """Enumerators, function types and record fields that a header declares, read from clang's syntax tree."""
    source = os.path.join(folder, 'facts.cc')
    with open(source, 'w') as f:
        f.write(f'#include <{header}>\n')
    tree = json.loads(subprocess.check_output(
        ['clang++-19', '-x', 'c++', '-fsyntax-only', '-w', '-I', include, '-Xclang', '-ast-dump=json', source]))
    enums, functions, records = {}, {}, {}

    def constant(node):
        if 'value' in node and node.get('kind') in ('ConstantExpr', 'IntegerLiteral'):
            return int(node['value'])
        for child in node.get('inner', []):
            value = constant(child)
            if value is not None:
                return value
        return None

    def visit(node):
        kind, name = node.get('kind'), node.get('name')
        if kind == 'EnumDecl':
            last = -1
            for child in node.get('inner', []):
                if child['kind'] == 'EnumConstantDecl':
                    value = constant(child)
                    last = last + 1 if value is None else value
                    enums[child['name']] = last
        elif kind == 'FunctionDecl' and name.startswith('cu'):
            functions[name] = re.sub(r'\b(struct|enum) ', '', node['type']['qualType'])
        elif kind == 'CXXRecordDecl' and name and node.get('completeDefinition'):
            records[name] = [c['name'] for c in node.get('inner', []) if c['kind'] == 'FieldDecl' and c.get('name')]
        elif kind in ('TranslationUnitDecl', 'LinkageSpecDecl'):
            for child in node.get('inner', []):
                visit(child)

    visit(tree)
    return enums, functions, records


def layouts(include, header, records, folder):
    """Lines "name size alignment" and "name.field offset size", printed by a program that uses the header."""
    source, program = os.path.join(folder, 'layout.cc'), os.path.join(folder, 'layout')
    lines = [f'#include <{header}>', '#include <cstddef>', '#include <cstdio>', 'int main() {']
    for name, fields in records.items():
        lines.append(f'std::printf("{name} %zu %zu\\n", sizeof({name}), alignof({name}));')
        lines += [f'std::printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name}*)0)->{f}));' for f in fields]
    with open(source, 'w') as f:
        f.write('\n'.join(lines) + '}\n')
    subprocess.check_call(['g++', '-w', '-I', include, source, '-o', program])
    return subprocess.check_output([program], text=True).splitlines()


def compare(header, theirs_include, folder):
    ours, theirs = facts(OURS, header, folder), facts(theirs_include, header, folder)
    wrong = [f'{name} is {value}, theirs {theirs[0][name]}' for name, value in ours[0].items()
             if theirs[0].get(name, value) != value]
    wrong += [f'{name}: {type_}\n    theirs: {theirs[1].get(name)}' for name, type_ in ours[1].items()
              if name not in EXPECTED and theirs[1].get(name) != type_]
    common = {r: [f for f in fields if f in theirs[2][r]] for r, fields in ours[2].items() if r in theirs[2]}
    wrong += [f'{r}.{f} is missing' for r in common for f in theirs[2][r]
              if f not in ours[2][r] and 'reserved' not in f and f != 'nvlinkUtilCentricScheduling']
    a, b = (layouts(i, header, common, folder) for i in (OURS, theirs_include))
    wrong += [f'layout: {x}, theirs {y}' for x, y in zip(a, b) if x != y]
    print(f'{header}: {len(ours[0])} enumerators, {len(ours[1])} functions, {len(a)} layout facts: {len(wrong)} differ')
    for line in wrong:
        print('  ' + line)
    return not wrong


def main():
    toolkit = sys.argv[1] if len(sys.argv) > 1 else '/usr/local/cuda/include'
    if not os.path.exists(os.path.join(toolkit, 'cuda_runtime_api.h')):
        sys.exit(f'no CUDA headers in {toolkit}')
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(h, toolkit, folder) for h in ('cuda_runtime_api.h', 'cuda.h')]
    sys.exit(0 if all(results) else 1)


main()
