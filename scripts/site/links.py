"""Dead links of a site of HTML files: links.py FOLDER

Each link to a file of the site leads to a file that is there, and to an element
that it has; no page loads anything from the network.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values[key] for key in ("id", "name") if values.get(key)}
        for key in ("href", "src", "data"):
            if values.get(key):
                self.links.append(values[key])
                if tag in ("script", "img", "link", "object", "iframe"):
                    self.loaded.append(values[key])


def problems(folder):
    pages = {path: Page(path.read_text()) for path in folder.rglob("*.html")}
    for path, page in sorted(pages.items()):
        where = path.relative_to(folder)
        for link in page.loaded:
            if urlsplit(link).scheme in ("http", "https"):
                yield f"{where}: loads {link}"
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() \
                if parts.path else path
            name = unquote(parts.fragment)
            if not target.is_file():
                yield f"{where}: no file {link}"
            elif name and target in pages and name not in pages[target].names:
                yield f"{where}: {link} names no element"
    print(f"{len(pages)} pages, "
          f"{sum(len(page.links) for page in pages.values())} links")


def main():
    found = list(problems(Path(sys.argv[1]).resolve()))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
