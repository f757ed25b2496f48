"""Layers, names, sizes and examples in docs; called by scripts/check."""
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

LIBRARIES = {
    "fmt": "fmt", "nlohmann": "nlohmann", "caf": "caf", "spdlog": "spdlog",
    "CLI": "CLI", "toml++": "toml++", "catch2": "catch2",
    "boost": "boost", "openssl": "openssl", "torch": "torch", "ATen": "torch", "c10": "torch",
    "cuda_runtime_api.h": "cuda", "cuda_fp16.h": "cuda", "cuda_bf16.h": "cuda",
    "nccl.h": "cuda",
}
SOURCES = (".hpp", ".cpp", ".cu", ".cuh")
UMBRELLAS = "include/troupe"
HOSTS = {"www.apache.org", "www.w3.org", "github.com", "arxiv.org", "www.debian.org"}
HOST = re.compile(r"\b[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*"
                  r"\.(?:org|com|net|io|dev)\b(?![\w(/.]*\()")
MACHINE_PATH = re.compile(r"(?<![\w.}$])/(?:work|root|home|Users)/\w")
CAPITAL = re.compile(r"^\s*(?:class|struct|union|enum(?: class)?|namespace|"
                     r"concept|using)\s+(?!CLI\b)(\w*[A-Z]\w*)\s*(?:[{=]|:(?!:)|final|$)")
LOWER_CAMEL = re.compile(r"\b(?:auto|void|bool|int|double|std::\w+|tensor)&?\s+"
                         r"([a-z]+[A-Z]\w*)\s*[=({;]")
FILE_LINES, FILE_MEDIAN = 400, 100
FUNCTION_LINES, FUNCTION_LIMIT = 25, 60
SHARE = 0.95


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard",
         "--", *patterns], capture_output=True, text=True, check=True)
    return [Path(line) for line in listed.stdout.splitlines()
            if Path(line).is_file()]


def sources():
    return tracked(*(f"*{suffix}" for suffix in SOURCES))


def report(problems):
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


# ---------------------------------------------------------------- layers

def read_table():
    """folder -> (folders it sees, libraries), from the table in the design."""
    rows = {}
    text = Path("docs/design.md").read_text().split("## Layers")[1]
    for line in text.split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            sees = re.findall(r"`([\w/]+)/`", cells[2])
            libraries = {name.strip() for name in cells[3].split(",") if name}
            rows[cells[0].strip("`/")] = (sees, libraries)
    return rows


def layer_of(rows, path):
    for parent in (path, *path.parents):
        if str(parent) in rows:
            return str(parent)
    return None


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match[1]


def needed(rows, layer, include):
    """The folder and the library, or None, that an include needs."""
    folder = library = None
    if include.startswith("troupe/"):
        parent = Path(include[len("troupe/"):]).parent
        folder = layer_of(rows, parent if parent.name else Path(UMBRELLAS))
        folder = None if folder == layer else folder
    if re.search(r"/|\.h$", include):
        library = LIBRARIES.get(include.split("/")[0])
    return folder, library


def check_layers():
    """A row grants what its folder includes, and nothing else."""
    rows = read_table()
    problems, used = [], {layer: (set(), set()) for layer in rows}
    for path in sources():
        if str(path).startswith("tests/package/"):
            continue
        layer = layer_of(rows, path)
        if layer is None:
            problems.append(f"{path}: is in no folder of the table in "
                            "docs/design.md")
            continue
        for number, include in includes(path):
            for part, what in enumerate(needed(rows, layer, include)):
                if what and what not in rows[layer][part]:
                    problems.append(f"{path}:{number}: {layer}/ may not "
                                    f"include {include}")
                used[layer][part].add(what)
    for layer, row in rows.items():
        for part in (0, 1):
            problems += [f"docs/design.md: {layer}/ does not include {what}: "
                         "its row grants it"
                         for what in row[part] if what not in used[layer][part]]
    return report(problems)


# ------------------------------------------------------------------ links

TARGETS = {
    "fmt::fmt": "fmt", "nlohmann_json::nlohmann_json": "nlohmann",
    "CAF::core": "caf", "spdlog::spdlog": "spdlog", "CLI11::CLI11": "CLI",
    "tomlplusplus::tomlplusplus": "toml++", "Boost::headers": "boost",
    "OpenSSL::SSL": "openssl", "OpenSSL::Crypto": "openssl",
    "torch::cpu": "torch",
}


def read_components():
    """name -> (folders, what its users link too, what it links alone)."""
    text = "\n".join(path.read_text() for path in
                     tracked("CMakeLists.txt", "cmake/*.cmake"))
    components = {}
    for call in re.findall(r"^\s*troupe_component\((\w+ DIRECTORY[^)]*)\)", text, re.M):
        words, parts, key = call.split(), {}, None
        for word in words[1:]:
            if re.fullmatch(r"[A-Z]+", word):
                key = parts.setdefault(word, [])
            else:
                key.append(word)
        folder = parts["DIRECTORY"][0]
        folders = [folder] + [f"{folder}/{each}"
                              for each in parts.get("SUBFOLDERS", [])]
        public, private = ({TARGETS.get(each, each.removeprefix("troupe::"))
                            for each in parts.get(name, [])}
                           for name in ("DEPENDS", "PRIVATE"))
        components[words[0]] = folders, public, private
    for name, links in re.findall(
            r"^target_link_libraries\(troupe_(\w+) PRIVATE ([^)]*)\)", text, re.M):
        if name in components:
            components[name][2].update(TARGETS.get(each, each)
                                       for each in links.split())
    return components


def reached_by(path, cache):
    """component folder or library -> the line that includes it, through our
    headers too."""
    if path not in cache:
        cache[path] = found = {}
        for number, include in includes(path):
            if include.startswith("troupe/"):
                header = Path(include.removeprefix("troupe/"))
                found.setdefault(str(header.parent), f"{path}:{number}")
                if header.is_file():
                    for what, where in reached_by(header, cache).items():
                        found.setdefault(what, where)
            elif re.search(r"/|\.h$", include):
                found.setdefault(LIBRARIES.get(include.split("/")[0]),
                                 f"{path}:{number}")
        found.pop(None, None)
    return cache[path]


def check_links():
    """A component links what its files include, through our headers too, and
    nothing else."""
    components, problems, cache = read_components(), [], {}
    by_folder = {folder: name for name, (folders, _, _) in components.items()
                 for folder in folders}

    def linked(names):
        seen, left = set(), list(names)
        while left:
            each = left.pop()
            if each not in seen:
                seen.add(each)
                left += components.get(each, ((), (), ()))[1]
        return seen

    for name, (folders, public, private) in components.items():
        links, own = linked(public | private), set()
        for path in sources():
            if str(path.parent) not in folders or path.name == "main.cpp":
                continue
            for number, include in includes(path):
                folder = str(Path(include.removeprefix("troupe/")).parent)
                own.add(by_folder.get(folder) if include.startswith("troupe/")
                        else LIBRARIES.get(include.split("/")[0]))
            for folder, where in reached_by(path, cache).items():
                what = by_folder.get(folder, folder)
                if what in private:
                    own.add(what)
                if what != name and what not in links \
                        and (what in components or what in TARGETS.values()):
                    problems.append(f"{where}: {name} does not link {what}")
        problems += [f"CMake: {name} links {what}, which none of its files "
                     "includes" for what in sorted(public | private)
                     if what not in own
                     and (what in components or what in TARGETS.values())]
    return report(sorted(set(problems)))


# ---------------------------------------------------------------- public

def check_public():
    """Public headers include public ones only; each in the list is there."""
    path = Path("include/public_headers.txt")
    public = [line for line in path.read_text().splitlines()
              if line and not line.startswith("#")]
    problems = [f"{path}: there is no {header}"
                for header in public if not Path(header).is_file()]
    problems += [f"include/troupe/{umbrella.name} is not in {path}"
                 for umbrella in Path("include/troupe").glob("*.hpp")
                 if str(umbrella) not in public]
    for header in filter(lambda each: Path(each).is_file(), public):
        problems += [f"{header}:{number}: is public and includes {include}, "
                     f"which is not in {path}"
                     for number, include in includes(Path(header))
                     if include.startswith("troupe/")
                     and include.removeprefix("troupe/") not in public]
    return report(problems)


# -------------------------------------------------------------- directions

def check_directions():
    """Folders, subfolders too, include others in one direction only."""
    includers, graph = {}, {}
    for path in sources():
        if path.parts[0] in ("tests", "bench", "examples"):
            continue
        for number, include in includes(path):
            folder = Path(include.removeprefix("troupe/")).parent
            if include.startswith("troupe/") and folder != path.parent:
                includers[path.parent, folder] = f"{path}:{number}"
                graph.setdefault(path.parent, set()).add(folder)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        cycle = found.args[1]
        return report([f"{includers[by, of]}: {by}/ includes {of}/, which is "
                       "in turn based on it" for of, by in pairwise(cycle)])
    return 0


# -------------------------------------------------------------- neighbours

NEIGHBOUR = re.compile(r"\b(?:\w*_)?stage_?(?:\(\))? ?[+-] ?1\b|\(s [+-] 1\)")


def check_neighbours():
    """Which stage follows which is for schedules and plans alone to know."""
    problems = []
    for path in sources():
        parts = path.parts
        if parts[0] in ("tests", "bench", "schedules") \
                or parts[:2] == ("engine", "plan"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if NEIGHBOUR.search(line):
                problems.append(f"{path}:{number}: arithmetic on the number of "
                                "a stage; see engine/plan/values.hpp")
    return report(problems)


# ----------------------------------------------------------------- names

def name_problems(path, line):
    if path.suffix in SOURCES:
        for pattern in (CAPITAL, LOWER_CAMEL):
            match = pattern.search(line)
            if match and len(match[1]) > 1 \
                    and not re.search("template|override", line):
                yield f"{match[1]} is not snake_case"
    for host in HOST.findall(line):
        if host not in HOSTS:
            yield f"names a host: {host}"
    if MACHINE_PATH.search(line):
        yield "names a path of somebody's machine"
    if path.suffix == ".cu" and line == "namespace {":
        yield "nvcc gives anonymous namespaces names by the file's path"


def check_names():
    problems = []
    for path in tracked():
        if path.suffix in SOURCES and not re.fullmatch(
                r"[a-z0-9_]+(\.[a-z0-9]+)?\.([hc]pp|cuh?)", path.name):
            problems.append(f"{path}: the file's name is not snake_case")
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            problems += [f"{path}:{number}: {problem}"
                         for problem in name_problems(path, line)]
    return report(problems)


# ----------------------------------------------------------------- sizes

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)


def without_text(code):
    """The code, with comments, strings and directives blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return TOKEN.sub(blank, code)


def is_container(head):
    return re.search(r"\b(namespace|class|struct|union|enum|extern)\b",
                     head.split("(")[0]) and "=" not in head


def is_function(head, before):
    if "(" not in head or re.search(r"(^|[^=!<>])=(?!=)\s*$", head):
        return False
    initializers = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", head)
    return not (initializers and before not in ") \n")


MACRO_LINE = re.compile(r"^[A-Z_]+\((?:[^()]|\([^()]*\))*\)$", re.MULTILINE)


def functions(code):
    """Yields (name, first line, lines) of every function and test case."""
    code = MACRO_LINE.sub(lambda found: "\n" * found[0].count("\n"),
                          without_text(code))
    stack, head, start, parentheses, line = [], "", 0, 0, 1
    for position, character in enumerate(code):
        outside = all(kind == "container" for kind, _, _ in stack)
        if character == "{":
            kind = "other"
            if outside and parentheses == 0:
                if is_container(head):
                    kind = "container"
                elif is_function(head, code[position - 1]):
                    kind = "function"
            stack.append((kind, head, start))
            if kind == "container":
                head = ""
        elif character == "}" and stack:
            kind, opened, first = stack.pop()
            if kind == "function":
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", opened)
                yield name[1] if name else "?", first, line - first + 1
            if kind != "other":
                head = ""
        elif outside:
            parentheses += (character == "(") - (character == ")")
            if character == ";" and parentheses == 0:
                head = ""
            elif head or not character.isspace():
                start = start if head else line
                head += character
        line += character == "\n"


def exceptions():
    """Lines of `path[:function]  reason`."""
    path = Path("scripts/exceptions.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [line.split(None, 1) for line in lines
               if line.strip() and not line.startswith("#")]
    return {entry[0] for entry in entries if len(entry) == 2}


def share_problems(what, sizes, limit):
    within = sum(size <= limit for size in sizes)
    if sizes and within < SHARE * len(sizes):
        yield (f"only {within} of {len(sizes)} {what} have at most {limit} "
               f"lines; wanted {SHARE:.0%}")


def file_problems(files, allowed):
    sizes = sorted(files.values())
    yield from share_problems("files", sizes, FILE_LINES)
    if sizes and sizes[len(sizes) // 2] > FILE_MEDIAN:
        yield f"the median file has {sizes[len(sizes) // 2]} lines"
    for path, size in files.items():
        if size > FILE_LINES and str(path) not in allowed:
            yield f"{path}: {size} lines, more than {FILE_LINES}"


def function_problems(found, allowed):
    sizes = [lines for _, _, _, lines in found]
    problems = list(share_problems("functions", sizes, FUNCTION_LINES))
    yield from problems
    for path, name, first, lines in found:
        if lines > FUNCTION_LIMIT and f"{path}:{name}" not in allowed:
            yield f"{path}:{first}: {name} has {lines} lines"
        elif problems and lines > FUNCTION_LINES:
            yield f"{path}:{first}: {name} has {lines} lines (counts)"


def check_sizes():
    texts = {path: path.read_text() for path in sources()}
    files = {path: text.count("\n") for path, text in texts.items()}
    found = [(path, *function) for path, text in texts.items()
             for function in functions(text)]
    print(f"{len(files)} files, {sum(files.values())} lines, "
          f"{len(found)} functions")
    allowed = exceptions()
    return report([*file_problems(files, allowed),
                   *function_problems(found, allowed)])


# ------------------------------------------------------------------ docs

def missing_tests():
    """`FILE` "CASE" in docs/runtime-lines.md names a test that exists."""
    text = Path("docs/runtime-lines.md").read_text()
    named = re.findall(r'`(tests/[^`]+)` "([^"]+)"', text)
    for path, case in named:
        code = Path(path).read_text() if Path(path).exists() else ""
        if f'"{case}"' not in re.sub(r'"\s*\n\s*"', "", code):
            yield f"docs/runtime-lines.md: {path} has no test '{case}'"
    if not named:
        yield "docs/runtime-lines.md: names no tests"


NAMED_FILE = re.compile(r"`((?:base|schedules|engine|actors|monitors|cli|tests|"
                        r"bench|examples|scripts|cmake)/[\w/.-]+\.(?:[hc]pp|cuh?|py|cmake))`")


def missing_files():
    return [f"{path}:{number}: there is no {name}"
            for path in tracked("docs/*.md", "README.md", "CONTRIBUTING.md")
            for number, line in enumerate(path.read_text().splitlines(), 1)
            for name in NAMED_FILE.findall(line) if not Path(name).exists()]


def missing_names():
    """Of docs/design.md: identifiers with an underscore that are in no source."""
    page = Path("docs/design.md")
    words = {word for path in [*sources(), *tracked("*.cmake", "*.in", "*.py")]
             for word in re.findall(r"\w+", path.read_text())}
    return [f"{page}:{number}: no source has the name {name}"
            for number, line in enumerate(page.read_text().splitlines(), 1)
            for quoted in re.findall(r"`([^`]+)`", line) if "/" not in quoted
            for name in re.findall(r"\w+", quoted)
            if "_" in name and name not in words]


def missing_messages():
    """docs/troubleshooting.md has each error code, and messages that exist."""
    page = Path("docs/troubleshooting.md")
    text = page.read_text()
    codes = re.search(r"enum class error_code {(.*?)};",
                      Path("base/error.hpp").read_text(), re.S)[1]
    for code in re.findall(r"^  (\w+),", codes, re.M):
        if f"\n## `{code}`\n" not in text:
            yield f"{page}: has no heading `{code}`, of base/error.hpp"
    code = "\n".join(re.sub(r'"\s*\n\s*"', "", path.read_text())
                     for path in sources() if path.parts[0] != "tests")
    for message in re.findall(r"^\| `(.+?)` \|", text, re.M):
        for part in message.split("..."):
            if part.strip() and part.strip() not in code:
                yield f"{page}: no source has the message '{part.strip()}'"


def check_docs():
    """Code blocks headed by a file's name are that file; tests, files, messages
    and (in docs/design.md) names exist."""
    text = Path("CONTRIBUTING.md").read_text()
    blocks = re.findall(r"^`([^`\n]+)`:\n\n```cpp\n(.*?)```$", text,
                        re.S | re.M)
    problems = [f"CONTRIBUTING.md: the block is not {path}"
                for path, code in blocks if Path(path).read_text() != code]
    problems += [] if blocks else ["CONTRIBUTING.md: no example"]
    return report([*problems, *missing_tests(), *missing_files(),
                   *missing_messages(), *missing_names()])


if __name__ == "__main__":
    checks = {"layers": lambda: (check_layers() | check_links()
                                | check_directions() | check_neighbours()
                                | check_public()),
              "public": check_public,
              "names": check_names,
              "sizes": check_sizes, "docs": check_docs}
    sys.exit(checks[sys.argv[1]]())
