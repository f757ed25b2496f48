"""The sources of the site: stage.py TROUPE XML FOLDER

Copies docs/ and some pages of the root into the folder, draws the schedules, and
adds the pages that are made: the commands' help, the API of the public headers,
the examples.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import api

ROOT = Path(__file__).resolve().parents[2]
# Pages of the root by their names in the site.
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
              "SECURITY.md": "security.md"}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
DRAWN = re.compile(r"^```text\n\$ troupe (plan .*?)\n(?![^\n]*\\\n).*?^```$",
                   re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^<!-- troupe (plan .*?) -->\n!\[([^]]*)\]\([\w/]+\.svg\)",
                     re.MULTILINE | re.DOTALL)
TEXT_FORMATS = {".sh": "sh", ".py": "python", ".cpp": "cpp", ".hpp": "cpp",
                ".yaml": "yaml", ".sbatch": "sh", "": "sh"}


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True,
                          timeout=60, cwd=ROOT)
    if done.returncode:
        sys.exit(f"troupe {shlex.join(words)} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


# ---------------------------------------------------------------- drawings

class Drawings:
    """Pictures by `troupe plan`, one for light pages and one for dark ones."""

    def __init__(self, program, folder):
        self.program, self.folder, self.count = program, folder, 0

    def __call__(self, page, command, text):
        words = shlex.split(re.sub(r"\\?\n", " ", command))
        for flag in ("--format", "--width"):
            if flag in words:
                del words[words.index(flag):words.index(flag) + 2]
        self.count += 1
        blocks = []
        for theme in ("light", "dark"):
            path = self.folder / "drawings" / f"{self.count}-{theme}.svg"
            path.parent.mkdir(exist_ok=True)
            path.write_text(run(self.program, *words, "--format", "svg", "--theme",
                                theme))
            relative = "../" * (len(page.parts) - 1) + f"drawings/{path.name}"
            blocks.append(f":::{{image}} {relative}\n:alt: {text}\n"
                          f":class: drawing only-{theme}\n:::\n")
        return "\n".join(blocks)


# ------------------------------------------------------------------- pages

def target_in_site(page, target):
    """The path from a page of the site to what a link in the tree means."""
    if re.match(r"\w+:", target):
        return target
    base = ROOT / ("docs" if page.name not in ROOT_PAGES.values() else "")
    path = (base / page.parent / target).resolve()
    if not path.exists():
        sys.exit(f"docs/{page}: there is no {target}")
    place = path.relative_to(ROOT)
    if place.parts[0] == "docs":
        place = place.relative_to("docs")
        place = place / "README.md" if path.is_dir() else place
    elif place.name == "README.md":
        place = Path("index.md")
    elif str(place) in ROOT_PAGES:
        place = Path(ROOT_PAGES[str(place)])
    elif place.parts[0] == "examples":
        place = Path("examples", "index.md" if len(place.parts) == 1
                     else f"{place.parts[1].split('.')[0]}.md")
    else:
        sys.exit(f"docs/{page}: {target} is not in the site")
    return os.path.relpath(place, page.parent)


def staged(page, text, draw):
    text = LINK.sub(lambda found: found[1] + target_in_site(page, found[2])
                    + found[3], text)
    text = PICTURE.sub(lambda found: draw(page, found[1], found[2]), text)
    return DRAWN.sub(lambda found: draw(page, found[1], "The drawing")
                     + "\n" + found[0], text)


def copy_pages(program, folder):
    draw = Drawings(program, folder)
    for path in sorted((ROOT / "docs").rglob("*")):
        page = path.relative_to(ROOT / "docs")
        (folder / page.parent).mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            (folder / page).write_text(staged(page, path.read_text(), draw))
        elif path.suffix in (".png", ".svg", ".ipynb"):
            shutil.copyfile(path, folder / page)
    for name, page in ROOT_PAGES.items():
        (folder / page).write_text(
            staged(Path(page), (ROOT / name).read_text(), draw))
    return draw.count


def contents(names):
    entries = "\n".join(names)
    return f":::{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{entries}\n:::\n"


def add_contents(folder):
    """The pages that a folder's README.md lists are below it in the menu."""
    path = folder / "README.md"
    text = path.read_text()
    names = dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)\)", text))
    path.write_text(f"{text}\n{contents(names)}")


def pages_list(title, text, names):
    return f"# {title}\n\n{text}\n\n{contents(names).replace(':hidden:', '')}"


# ---------------------------------------------------------------- commands

def all_help(program, words):
    """The help with all flags: that of --help-all, if there is one."""
    for flag in ("--help-all", "--help"):
        done = subprocess.run([program, *words, flag], capture_output=True,
                              text=True, timeout=60)
        if done.returncode == 0:
            return done.stdout
    sys.exit(f"troupe {shlex.join([*words, flag])} failed: {done.stderr}")


def help_sections(text):
    """(heading, text): a heading is not indented, and the line below it is."""
    heading, lines, all_lines = "Usage", [], text.splitlines()
    for line, below in zip(all_lines, [*all_lines[1:], ""]):
        if re.match("[A-Z]", line) and below.startswith("  "):
            yield heading, "\n".join(lines).strip("\n")
            heading, lines = line.rstrip(":"), []
        else:
            lines.append(line)
    yield heading, "\n".join(lines).strip("\n")


FLAG_COLUMN = 30


def as_markdown(text):
    """Escapes what is outside of `code`."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else
                   re.sub(r"([\\`*_<\[|$])", r"\\\1", part) for part in parts)


def flag_entry(first, lines):
    """A flag with its text, as an entry of a definition list."""
    flag, text = first[:FLAG_COLUMN].strip(), first[FLAG_COLUMN:]
    if first[FLAG_COLUMN - 1] != " ":
        flag, text = first.strip(), ""
    lines = [line for line in [text, *lines] if line.strip()]
    if any(line.startswith(" ") for line in lines):
        body = "```text\n" + "\n".join(lines) + "\n```"
    else:
        body = as_markdown(" ".join(lines)) or "(no text)"
    return f"`{flag}`\n: " + body.replace("\n", "\n  ") + "\n"


def flag_list(text):
    """The definition list of a section of flags; None if it is something else."""
    entries = []
    for line in text.splitlines():
        if re.match(r"  -", line):
            entries.append((line.ljust(FLAG_COLUMN), []))
        elif entries and (line.startswith(" " * FLAG_COLUMN) or not line.strip()):
            entries[-1][1].append(line[FLAG_COLUMN:])
        else:
            return None
    return "\n".join(flag_entry(*entry) for entry in entries)


def command_page(program, words):
    text = all_help(program, words)
    parts = [f"# troupe {' '.join(words)}\n"]
    for heading, lines in help_sections(text):
        if lines:
            parts.append(f"## {heading}\n\n"
                         + (flag_list(lines) or f"```text\n{lines}\n```\n"))
    return "\n".join(parts), text


def subcommands(text):
    listed = text.split("Subcommands:\n")[1].split("\n\n")[0] \
        if "Subcommands:\n" in text else ""
    return re.findall(r"^  ([a-z]\w*) ", listed, re.MULTILINE)


def command_pages(program, folder):
    folder.mkdir(parents=True)
    names, left = [], [[name] for name in subcommands(all_help(program, []))]
    while left:
        words = left.pop(0)
        page, text = command_page(program, words)
        names.append("-".join(words))
        (folder / f"{names[-1]}.md").write_text(page)
        if words != ["help"]:  # whose subcommands are the commands
            left = [[*words, name] for name in subcommands(text)] + left
    (folder / "index.md").write_text(pages_list(
        "Commands", "What `troupe COMMAND --help-all` prints, by command: each flag "
        "with its range and default. Settings of `--config` have the names of "
        "the flags.", names))
    return len(names)


# ---------------------------------------------------------------- examples

def example_page(folder, name, files):
    blocks = [f"# {name}\n"]
    for path in files:
        language = TEXT_FORMATS[path.suffix]
        blocks.append(f"`{path.relative_to(ROOT)}`:\n\n````{language}\n"
                      f"{path.read_text()}````\n")
    (folder / f"{name}.md").write_text("\n".join(blocks))


def example_pages(folder):
    folder.mkdir(parents=True)
    names = []
    for path in sorted((ROOT / "examples").iterdir()):
        files = [path] if path.is_file() else sorted(
            file for file in path.iterdir()
            if file.is_file() and file.suffix in TEXT_FORMATS)
        names.append(path.stem)
        example_page(folder, path.stem, files)
    (folder / "index.md").write_text(pages_list(
        "Examples", "Complete programs, as they are in `examples/`; the tests "
        "build and run them.", names))
    return len(names)


def main():
    program, xml, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True)
    drawings = copy_pages(program, folder)
    for name in ("schedules", "migration"):
        add_contents(folder / name)
    commands = command_pages(program, folder / "commands")
    examples = example_pages(folder / "examples")
    entities = api.write_pages(ROOT, xml, folder / "api")
    print(f"{drawings} drawings, {commands} commands, {examples} examples, "
          f"{entities} classes, functions and constants of the API")


main()
