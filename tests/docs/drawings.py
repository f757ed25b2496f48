"""The drawings in docs/: blocks of `$ troupe plan ...` and its output in
docs/schedules/, and SVG files below a comment with their command, in all pages:

    <!-- troupe plan --schedule 1f1b --format svg -->
    ![1F1B](1f1b.svg)

drawings.py check TROUPE    fails if a drawing is not what the program prints,
                            or if a schedule has no page
drawings.py update TROUPE   writes the drawings anew
"""
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "docs" / "schedules"
BLOCK = re.compile(r"^```text\n\$ troupe (.*?)\n(?![^\n]*\\\n)(.*?)^```$",
                   re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^<!-- troupe (.*?) -->\n!\[[^]]*\]\(([\w/]+\.svg)\)",
                     re.MULTILINE | re.DOTALL)


def run(troupe, words):
    return subprocess.run([troupe, *words], text=True, check=True, timeout=20,
                          capture_output=True).stdout


def drawn(troupe, command):
    """What the command prints, without the table of channels."""
    words = shlex.split(command.replace("\\\n", " "))
    return run(troupe, words).split("\nedge ", 1)[0].rstrip("\n") + "\n"


def check_pictures(troupe, mode):
    """Names of SVG files that are not what the program draws now."""
    differing = []
    for page in sorted(PAGES.parent.rglob("*.md")):
        for command, name in PICTURE.findall(page.read_text()):
            file = page.parent / name
            now = run(troupe, shlex.split(command))
            if mode == "update":
                file.write_text(now)
            elif not file.is_file() or file.read_text() != now:
                differing.append(f"{name}: the drawing is another one now; run "
                                 "tests/docs/drawings.py update TROUPE")
    return differing


def main():
    mode, troupe = sys.argv[1:]
    known = [row["schedule"]
             for row in json.loads(run(troupe, ["schedules", "--json"]))]
    failed = [f"{name}.md is missing" for name in known
              if not (PAGES / f"{name}.md").is_file()]
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        now = BLOCK.sub(lambda found: f"```text\n$ troupe {found[1]}\n"
                        f"{drawn(troupe, found[1])}```", text)
        if page.stem in known and not BLOCK.search(text):
            failed.append(f"{page.name} has no drawing")
        if now != text and mode == "update":
            page.write_text(now)
        elif now != text:
            failed.append(f"{page.name}: the drawing is another one now; run "
                          "tests/docs/drawings.py update TROUPE")
    failed += check_pictures(troupe, mode)
    print(*failed, f"{len(known)} schedules, {len(failed)} failed", sep="\n")
    sys.exit(1 if failed or not known else 0)


main()
