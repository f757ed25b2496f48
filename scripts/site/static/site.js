// What the theme lacks for keyboards and screen readers.
const renamed = (element, name) => {
  const made = document.createElement(name);
  made.className = element.className;
  made.append(...element.childNodes);
  element.replaceWith(made);
};

document.addEventListener("DOMContentLoaded", () => {
  const all = (selector) => document.querySelectorAll(selector);
  for (const block of all(".highlight pre, .table-wrapper, :has(> img.drawing)"))
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  for (const cell of all("th")) if (!cell.textContent) renamed(cell, "td");
  for (const parameters of all(".sig dd, .sig dl")) renamed(parameters, "div");
  for (const caption of all("p.caption[role=heading]")) caption.ariaLevel = 2;
  all("aside.sidebar-drawer").forEach((menu) => { menu.ariaLabel = "Site"; });
  all("aside.toc-drawer").forEach((menu) => { menu.ariaLabel = "This page"; });
  document.getElementById("search-results")
    ?.insertAdjacentHTML("beforebegin", "<h1>Search</h1>");
});
