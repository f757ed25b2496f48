"""The documentation site, opened from the disk in a headless Chromium:
site.py FOLDER, the build/docs/html of scripts/docs

Search finds pages and functions, what it finds is there, and no page complains on
the console. Ends with 77 where there is no site or no browser (Chromium, or
$TROUPE_CHROMIUM).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

# What a search has to find, among the addresses of its results.
SEARCHES = {
    "resume": (r"checkpoints\.html", r"api/train\.html#.*resume"),
    "bubble": (r"training\.html", r"api/plan\.html#.*simulation6bubble"),
    "trainer::replan": (r"api/train\.html#.*trainer6replan", r"training\.html"),
    "did not connect to": (r"troubleshooting\.html",),
    "pipeline-model-parallel-size": (r"migration/megatron-lm\.html",),
}
PAGES = ("index.html", "tutorial.html", "troubleshooting.html", "schedules/zb_v.html",
         "commands/train.html", "api/train.html", "migration/README.html")
RESULT = re.compile(r'<ul[^>]* class="search">(.*?)</ul>', re.DOTALL)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def browser():
    names = [os.environ.get("TROUPE_CHROMIUM"), "chromium", "chromium-browser",
             "google-chrome"]
    return next((name for name in names if name and shutil.which(name)), None)


class Browser:
    def __init__(self, program, profile):
        self.command = [
            program, "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking",
            "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
            "--virtual-time-budget=10000", "--enable-logging=stderr",
            f"--user-data-dir={profile}", "--dump-dom"]
        self.failed = []

    def open(self, address):
        """The page's elements after its scripts have run."""
        done = subprocess.run([*self.command, address], capture_output=True,
                              text=True, timeout=120)
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.check(done.returncode == 0, f"{address}: ended with {done.returncode}")
        self.check(not complaints, f"{address}: {complaints[:3]}")
        return done.stdout

    def check(self, holds, why):
        if not holds:
            self.failed.append(why)


def search(opened, site, query, wanted):
    page = opened.open(f"{site}/search.html?q={quote(query)}")
    found = re.findall(r'href="([^"]+)"', " ".join(RESULT.findall(page)))
    for pattern in wanted:
        opened.check(any(re.search(pattern, address) for address in found),
                     f"'{query}' finds no {pattern}, but {found[:20]}")
    return found


def main():
    folder, program = Path(sys.argv[1]).resolve(), browser()
    if not (folder / "index.html").is_file():
        skip("there is no site; scripts/docs makes it")
    if program is None:
        skip("there is no Chromium; TROUPE_CHROMIUM names one")
    site = folder.as_uri()
    with tempfile.TemporaryDirectory() as profile:
        opened = Browser(program, profile)
        for page in PAGES:
            opened.check("</article>" in opened.open(f"{site}/{page}"),
                         f"{page} has no text")
        for query, wanted in SEARCHES.items():
            search(opened, site, query, wanted)
    print(*opened.failed, f"{len(PAGES)} pages, {len(SEARCHES)} searches, "
          f"{len(opened.failed)} failed", sep="\n")
    sys.exit(1 if opened.failed else 0)


main()
