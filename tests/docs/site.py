"""The documentation site, opened from the disk in a headless Chromium:
site.py FOLDER, the build/docs/html of scripts/docs

Search finds pages and functions, no page complains on the console, none is wider
than a phone, and axe-core finds nothing wrong with contrast, headings, names and
landmarks of any kind of page, light or dark, on a phone or a desk. Ends with 77
where there is no site or no browser (Chromium, or $TROUPE_CHROMIUM).
"""
import re
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import chromium

# What a search has to find, among the addresses of its results.
SEARCHES = {
    "resume": (r"checkpoints\.html", r"api/train\.html#.*resume"),
    "bubble": (r"training\.html", r"api/plan\.html#.*simulation6bubble"),
    "trainer::replan": (r"api/train\.html#.*trainer6replan", r"training\.html"),
    "lost process": (r"healing\.html",),
    "does not see the folder of": (r"troubleshooting\.html",),
    "did not connect to": (r"troubleshooting\.html",),
    "pipeline-model-parallel-size": (r"migration/megatron-lm\.html",),
}
# One of each kind, and those with most of their own.
PAGES = ("index.html", "tutorial.html", "troubleshooting.html", "monitors.html",
         "schedules/zb_v.html", "commands/train.html", "examples/own_schedule.html",
         "api/train.html", "migration/README.html", "search.html?q=resume")
SCREENS = ((390, "light"), (390, "dark"), (1280, "light"), (1280, "dark"))
SEARCHED = "document.querySelector('#search-results > .search-summary')?.innerText"
RESULTS = "Array.from(document.querySelectorAll('ul.search a'), each => each.href)"
VIOLATIONS = """axe.run(document, {resultTypes: ["violations"]}).then(found =>
  found.violations.map(rule => `${rule.id}: ` + rule.nodes.slice(0, 3).map(
    node => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")))"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Site:
    def __init__(self, browser, folder):
        self.browser, self.address, self.failed = browser, folder.as_uri(), []

    def open(self, page):
        self.browser.open(f"{self.address}/{page}")
        if "?q=" in page:
            self.browser.wait_for(SEARCHED)
        self.check(not self.browser.complaints, f"{page}: {self.browser.complaints}")

    def check(self, holds, why):
        if not holds:
            self.failed.append(why)

    def search(self, query, wanted):
        self.open(f"search.html?q={quote(query)}")
        found = self.browser.value(RESULTS)
        for pattern in wanted:
            self.check(any(re.search(pattern, address) for address in found),
                       f"'{query}' finds no {pattern}, but {found[:20]}")

    def examine(self, page, width, theme):
        self.browser.look(width, theme)
        self.open(page)
        where = f"{page}, {width} px, {theme}"
        self.check(self.browser.value("!!document.querySelector('article')"),
                   f"{where}: no text")
        wide = self.browser.value("document.documentElement.scrollWidth")
        self.check(wide <= width, f"{where}: {wide} px wide")
        for violation in self.browser.value(VIOLATIONS):
            self.failed.append(f"{where}: {violation}")


def main():
    folder, program = Path(sys.argv[1]).resolve(), chromium.found()
    if not (folder / "index.html").is_file():
        skip("there is no site; scripts/docs makes it")
    if program is None:
        skip("there is no Chromium; TROUPE_CHROMIUM names one")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = chromium.Browser(program, profile)
        site = Site(browser, folder)
        for query, wanted in SEARCHES.items():
            site.search(query, wanted)
        browser.before_each_page((folder.parent / "axe.min.js").read_text())
        for page in PAGES:
            for screen in SCREENS:
                site.examine(page, *screen)
        browser.close()
    print(*site.failed, f"{len(PAGES)} pages on {len(SCREENS)} screens, "
          f"{len(SEARCHES)} searches, {len(site.failed)} failed", sep="\n")
    sys.exit(1 if site.failed else 0)


main()
