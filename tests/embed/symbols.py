#!/usr/bin/env python3
"""symbols.py INCLUDE LIBRARY [--write]: programs that were linked with a former LIBRARY of the same SONAME find their
functions in this one, and its types are laid out as theirs. symbols.txt beside this file has the SONAME and the
functions of the installed headers at the last --write, types.txt the places in their types: members, bases (bytes),
virtual functions (slots), values; no kernels' arguments, and not the types of members. New functions and types may come. A symbol counts if each word of its name stands
in a header of INCLUDE, and if it is there without CUDA, too."""
import pathlib
import re
import subprocess
import sys
import tempfile

LIST = pathlib.Path(__file__).with_name("symbols.txt")
TYPES = LIST.with_name("types.txt")
SHORTER = [("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
           ("std::basic_string_view<char, std::char_traits<char> >", "std::string_view"), ("[abi:cxx11]", ""),
           ("__cxx11::", ""), ("ringlet::", "")]
# Lines of readelf: an entry with its depth and tag, then its attributes.
ENTRY = re.compile(r" <(\d+)><\w+>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
ATTRIBUTE = re.compile(r"    <\w+>   DW_AT_(\w+) *: (?:\(.*?\): )?(.*)")


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def soname(library):
    return re.search(r"Library soname: \[(.*)\]", output("readelf", "-d", library))[1]


def functions(include, library):
    """Strong definitions: what is inline, or a template's, is part of the program."""
    words = {word for header in pathlib.Path(include).rglob("*.h") for word in re.findall(r"\w+", header.read_text())}
    found = set()
    for name in re.findall(r"^\w+ [TDBR] (ringlet::(?!cuda::|comm::nccl).*)$", output("nm", "-DC", "--defined-only", library), re.M):
        for long, short in SHORTER:
            name = name.replace(long, short)
        if words.issuperset(re.findall(r"\w+", re.sub(r"\(.*|<.*>", "", name))):
            found.add(name)
    return found


def entries(lines):
    entry = None
    for line in lines:
        if line.startswith(" <"):
            if entry:
                yield entry
            match = ENTRY.match(line)
            entry = match and (int(match[1]), match[2], {})
        elif entry and (match := ATTRIBUTE.match(line)):
            entry[2][match[1]] = match[2]


def place(tag, of):
    """Of a type's part; none of a static member and of a function that is not virtual."""
    name = of.get("name", "(unnamed)")
    if tag == "member" and "external" not in of:
        return f"{name} {of.get('data_member_location') or of.get('data_bit_offset', '0') + ' bits'}"
    if tag == "inheritance":
        return f"base {of.get('data_member_location', 'virtual')}"
    if tag == "subprogram" and "vtable_elem_location" in of:
        return f"{name}() " + re.search(r"constu: (\d+)", of["vtable_elem_location"])[1]
    return f"{name} {of['const_value']}" if tag == "enumerator" else None


def layouts(include):
    """The places in each type of the installed headers, from the compiler's debug information."""
    headers = [header.relative_to(include) for header in sorted(pathlib.Path(include).rglob("*.h"))]
    source = "".join(f'#include "{header}"\n' for header in headers if header.name != "eigen.h")
    with tempfile.NamedTemporaryFile(suffix=".o") as built:
        output("g++", "-std=c++20", "-g", "-fno-eliminate-unused-debug-types", "-femit-class-debug-always", f"-I{include}",
               "-x", "c++", "-c", "-", "-o", built.name, input=source)
        lines = output("readelf", "--debug-dump=info", built.name).splitlines()
    types, scopes = {}, []  # of each scope around an entry: its name and, of a type, the places in it
    for depth, tag, of in entries(lines):
        del scopes[depth - 1:]
        outer, places = scopes[-1] if scopes else ("", None)
        inner = None, None
        if outer is not None and "name" in of and tag in ("namespace", "class_type", "structure_type", "union_type", "enumeration_type"):
            name = outer + of["name"]
            new = name.startswith("ringlet::") and "byte_size" in of and name not in types
            inner = name + "::", types.setdefault(name, [f"size {of['byte_size']}"]) if new else None
        elif places is not None and (found := place(tag, of)):
            places.append(found)
        scopes += [(None, None)] * (depth - 1 - len(scopes)) + [inner]
    return {name.removeprefix("ringlet::"): places for name, places in types.items()
            if not re.search(r"\bdetail::|^ringlet::(cuda|comm::nccl)|Args$", name)}


def main(include, library, *options):
    version, now, types = soname(library), functions(include, library), layouts(include)
    if options == ("--write",):
        LIST.write_text("\n".join([version, *sorted(now)]) + "\n")
        TYPES.write_text("".join(f"{name}: {', '.join(places)}\n" for name, places in sorted(types.items())))
        return
    former, *then = LIST.read_text().splitlines()
    same = version == former
    changed = sorted(set(then) - now) if same else []
    print(f"{version}: {len(now)} functions, {len(now - set(then))} new, {len(changed)} gone since {former}")
    for line in TYPES.read_text().splitlines() if same else []:
        name, places = re.fullmatch(r"(.*): (size .*)", line).groups()
        old, new = places.split(", "), types.get(name)  # a program has its own copy of a type that is gone
        if new and new != old:
            changed.append(f"{name}: {', '.join(x for x in old if x not in new) or 'same order'} then, "
                           f"{', '.join(x for x in new if x not in old) or 'another'} now")
    print(f"{len(types)} types of {TYPES.name} or new")
    if changed:
        sys.exit("\n".join(changed) + f"\nPrograms linked with {version} miss these functions, or have other layouts: change "
                 "the version in meson.build. Before a release of that version, write the lists anew: "
                 "symbols.py INCLUDE LIBRARY --write")


main(*sys.argv[1:])
