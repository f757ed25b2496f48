"""Sphinx's settings for the site that scripts/docs makes."""
from docutils import nodes
from sphinx.domains.cpp import CPPDomain

project = "troupe"
author = "the authors of troupe"
project_copyright = author
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
smartquotes = False
primary_domain = "cpp"
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
exclude_patterns = []

html_theme = "furo"
html_title = "troupe"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Summaries would be fetched from pages, which browsers refuse for file://.
html_show_search_summary = False
maximum_signature_line_length = 72


class SearchedDomain(CPPDomain):
    """Searches find functions, and not their parameters by themselves."""

    def get_objects(self):
        return (each for each in super().get_objects() if each[2] != "functionParam")


def mark_flags(_, tree):
    """Flags are not broken within a line, nor behind their hyphens."""
    for literal in tree.findall(nodes.literal):
        if literal.astext().startswith("--") and len(literal.astext()) < 40:
            literal["classes"].append("flag")


def setup(app):
    app.add_domain(SearchedDomain, override=True)
    app.connect("doctree-read", mark_flags)
