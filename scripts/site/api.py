"""Pages on the API of the public headers, from Doxygen's XML.

A page for each umbrella header, in their order, and one for the headers that no
umbrella includes. A header is on the page of the first umbrella that includes it,
in the order of includes.
"""
import re
import xml.etree.ElementTree as ElementTree

# (umbrella, title, what it is for, program in examples/, code blocks in docs/ by
# page and heading, which the tests compile)
TOPICS = (
    ("plan", "API: schedules and plans", "Schedules of the catalogue, from a file, or of "
     "your own; plans: compiling, proving, simulating, drawing, text. Neither "
     "LibTorch nor CAF is needed: link `troupe::plan`.", "own_schedule",
     [("schedules.md", "A schedule of your own")]),
    ("train", "API: models and training", "Models, data, the trainer, checkpoints, "
     "resuming, signals.", "fine_tune",
     [("cpp.md", "Models and losses"), ("cpp.md", "Data"),
      ("cpp.md", "Saving and resuming")]),
    ("monitor", "API: monitors", "Monitors of your own and those that troupe has, their "
     "outputs, the endpoint, the dashboard, and clients of a live run.",
     "own_monitor", [("cpp.md", "Watching"), ("monitors.md", "Writing a monitor")]),
    ("job", "API: several processes", "Meeting the other processes of a job.", None,
     [("cpp.md", "Several processes")]),
    ("fused", "API: functions for layers", "Functions that take less time or memory than "
     "several of LibTorch's operators.", None, [("cpp.md", "Functions for layers")]),
    (None, "API: special purposes", "Headers that none of the five includes.",
     "actor_monitor", []),
)
# Of the serialisation of events, not for callers.
LEFT_OUT = {"fields", "travels_as_row", "largest_value"}


def escaped(text):
    return re.sub(r"([\\*`|_])", r"\\\1", text or "")


def plain(node):
    return re.sub(r"\s+", " ", "".join(node.itertext())).strip() \
        if node is not None else ""


def literal(text):
    return f"``{text}``" if text.strip() == text else f"``{text.strip()}``"


def paragraph(node):
    """Lines of reStructuredText of a <para>."""
    parts = [escaped(node.text)]
    for child in node:
        if child.tag == "verbatim":
            code = "\n".join(f"   {line}" for line in child.text.strip("\n").split("\n"))
            parts.append(f"\n\n.. code-block:: cpp\n\n{code}\n\n")
        elif child.tag == "computeroutput":
            parts.append(literal(plain(child)))
            if re.match(r"\w", child.tail or ""):
                parts.append("\\ ")
        else:
            parts.append(escaped(plain(child)))
        parts.append(escaped(child.tail))
    lines = [line if line.startswith("   ") else line.strip()
             for line in "".join(parts).split("\n")]
    return lines + [""]


def description(node):
    lines = []
    for part in ("briefdescription", "detaileddescription"):
        for para in node.find(part) if node.find(part) is not None else ():
            lines += paragraph(para)
    return lines


def indented(lines):
    return [f"   {line}" if line else "" for line in lines]


def template(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    each = []
    for parameter in parameters:
        text = plain(parameter.find("type"))
        name = plain(parameter.find("declname"))
        each.append(f"{text} {name}" if name and not text.endswith(name) else text)
    return f"template<{', '.join(each)}> "


def directive(kind, signature, lines):
    return [f".. cpp:{kind}:: {signature}", "", *indented(lines)]


# ----------------------------------------------------------------- members

def function(member):
    words = [word for word, is_so in (
        ("static", member.get("static") == "yes"),
        ("explicit", member.get("explicit") == "yes"),
        ("virtual", "virtual" in (member.get("virt") or "")
         and member.get("virt") != "non-virtual")) if is_so]
    type_ = plain(member.find("type")).replace("static ", "")
    arguments = re.sub(r"\s*=\s*(0|default|delete)$", r" = \1",
                       member.findtext("argsstring"))
    text = " ".join([*words, type_, member.findtext("name")]).strip()
    return directive("function", template(member) + text + arguments,
                     description(member))


def variable(member):
    value = plain(member.find("initializer"))
    simple = re.fullmatch(r'=\s*(-?[\w.]+|"[^"\\]*")', value)
    text = (f"{plain(member.find('type'))} {member.findtext('name')}"
            f"{member.findtext('argsstring') or ''}")
    return directive("var", template(member) + text
                     + (f" {value}" if simple else ""), description(member))


def enumeration(member):
    lines = description(member)
    for value in member.findall("enumvalue"):
        lines += directive("enumerator", value.findtext("name"), description(value))
    kind = "enum-class" if member.get("strong") == "yes" else "enum"
    return directive(kind, member.findtext("name"), lines)


def alias(member):
    return directive("type", f"{template(member)}{member.findtext('name')} = "
                     f"{plain(member.find('type'))}", description(member))


MEMBERS = {"function": function, "variable": variable, "enum": enumeration,
           "typedef": alias}


def members(compound):
    """Lines of the public members, in their order in the file."""
    found = [member for member in compound.iter("memberdef")
             if member.get("prot") == "public" and member.get("kind") in MEMBERS
             and member.findtext("name") not in LEFT_OUT]
    found.sort(key=lambda member: int(member.find("location").get("line")))
    return found


# ------------------------------------------------------------------ reader

def within_troupe(space):
    return space == "troupe" or space.startswith("troupe::")


def in_space(space, lines):
    """Lines on an entity of a namespace, on pages of the namespace troupe."""
    inner = space.removeprefix("troupe").removeprefix("::")
    return [f".. cpp:namespace-push:: {inner}", "", *lines, ".. cpp:namespace-pop::",
            ""] if inner else lines


class Reader:
    def __init__(self, folder):
        self.compounds, self.count = {}, 0
        for path in folder.glob("*.xml"):
            for compound in ElementTree.parse(path).getroot().iter("compounddef"):
                self.compounds[compound.get("id")] = compound

    def record(self, compound, name):
        """A class or struct with its members and inner classes."""
        self.count += 1
        bases = ", ".join(f"public {plain(base)}"
                          for base in compound.findall("basecompoundref")
                          if base.get("prot") == "public")
        lines = description(compound)
        for member in members(compound):
            self.count += 1
            lines += MEMBERS[member.get("kind")](member)
        for inner in compound.findall("innerclass"):
            if inner.get("prot") == "public" and inner.get("refid") in self.compounds:
                lines += self.record(self.compounds[inner.get("refid")],
                                     inner.text.split("::")[-1])
        return directive(compound.get("kind"), template(compound) + name
                         + (f" : {bases}" if bases else ""), lines)

    def entities(self, header):
        """(line, reStructuredText) of what a header declares in troupe and the
        namespaces within it."""
        spaces = {compound.findtext("compoundname"): compound
                  for compound in self.compounds.values()
                  if compound.get("kind") == "namespace"}
        for compound in self.compounds.values():
            place = compound.find("location")
            space, _, name = compound.findtext("compoundname").rpartition("::")
            if compound.get("kind") in ("class", "struct") \
                    and place.get("file") == header and within_troupe(space) \
                    and space in spaces:
                yield int(place.get("line")), in_space(
                    space, self.record(compound, name))
        for space in filter(within_troupe, spaces):
            for member in members(spaces[space]):
                place = member.find("location")
                if place.get("file") == header:
                    self.count += 1
                    yield int(place.get("line")), in_space(
                        space, MEMBERS[member.get("kind")](member))


# ------------------------------------------------------------------- pages

def includes(root, header):
    for name in re.findall(r'^#include "troupe/(.*?)"', (root / header).read_text(),
                           re.MULTILINE):
        yield name


def included(root, header, seen):
    """What a header includes, itself first, without what was seen before."""
    for name in includes(root, header):
        if name not in seen:
            seen.add(name)
            yield name
            yield from included(root, name, seen)


def excerpt(root, place, heading):
    """The first C++ block below a heading of a page in docs/."""
    text = (root / "docs" / place).read_text()
    found = re.search(rf"^## {re.escape(heading)}\n(?:(?!^## ).)*?^```cpp\n(.*?)^```$",
                      text, re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"docs/{place}: no C++ below '{heading}'")
    code = found[1].rstrip("\n").split("\n")
    return [f"{heading} (:doc:`/{place.removesuffix('.md')}`):", "",
            ".. code-block:: cpp", "", *indented(code), ""]


def page(root, reader, topic, headers):
    umbrella, title, purpose, example, excerpts = topic
    lines = [title, "=" * len(title), "", purpose.replace("`", "``"), ""]
    if umbrella:
        lines += [".. code-block:: cpp", "", f"   #include \"troupe/{umbrella}.hpp\"", ""]
    lines += [":doc:`/cpp` shows how its parts are used together"
              + (f", :doc:`/examples/{example}` is a complete program."
                 if example else "."), ""]
    for place, heading in excerpts:
        lines += excerpt(root, place, heading)
    lines += [".. cpp:namespace:: troupe", ""]
    for header in headers:
        entities = sorted(reader.entities(header), key=lambda each: each[0])
        if entities:
            lines += [f"``troupe/{header}``", "-" * (len(header) + 11), ""]
            lines += [line for _, text in entities for line in text]
    return "\n".join(lines) + "\n"


def write_pages(root, xml, folder):
    """Writes the pages; returns the number of entities."""
    folder.mkdir(parents=True)
    reader, seen = Reader(xml), set()
    public = [line for line in
              (root / "include/public_headers.txt").read_text().splitlines()
              if line and not line.startswith("#")]
    for topic in TOPICS:
        name = topic[0] or "special"
        headers = list(included(root, f"include/troupe/{topic[0]}.hpp", seen)) \
            if topic[0] else [header for header in public if header not in seen]
        (folder / f"{name}.rst").write_text(page(root, reader, topic, headers))
    entries = "\n".join(f"   {topic[0] or 'special'}" for topic in TOPICS)
    (folder / "index.rst").write_text(
        "API\n===\n\nWhat programs in C++ include and link: :doc:`/cpp`. These "
        "pages have every class and function of the public headers, a page for "
        f"each of the five headers.\n\n.. toctree::\n   :maxdepth: 1\n\n{entries}\n")
    return reader.count
