"""Sphinx's settings for the site that scripts/docs makes."""
project = "troupe"
author = "the authors of troupe"
project_copyright = author
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
primary_domain = "cpp"
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
exclude_patterns = []

html_theme = "furo"
html_title = "troupe"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Summaries would be fetched from pages, which browsers refuse for file://.
html_show_search_summary = False
maximum_signature_line_length = 72
