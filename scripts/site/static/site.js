// What the theme lacks for keyboards and screen readers.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight pre"))
    block.tabIndex = 0;
  for (const caption of document.querySelectorAll("p.caption[role=heading]"))
    caption.setAttribute("aria-level", "2");
  document.querySelector("aside.sidebar-drawer")
    ?.setAttribute("aria-label", "Site");
  document.querySelector("aside.toc-drawer")
    ?.setAttribute("aria-label", "This page");
});
