// What the dashboard's pictures share.
const make = (tag, className, ...children) =>
  element(tag, className ? {className} : {}, ...children);

const svg_of = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

// 12.3k, 0.0321, 3.00e-4
const short = given => {
  const value = Number(given), size = Math.abs(value);
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (size === 0) return "0";
  if (size >= 1e9 || size < 1e-3) return value.toExponential(2);
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return (value / 1e3).toPrecision(3) + "k";
  return size >= 100 ? value.toFixed(0) : value.toPrecision(3);
};

const time_text = us => us >= 1e6 ? Number((us / 1e6).toPrecision(4)) + " s"
  : us >= 1e3 ? Number((us / 1e3).toPrecision(4)) + " ms"
    : us.toFixed(0) + " \u00b5s";

// `text_at(x, y)` of the element; empty hides the tip.
const add_tip = (element, text_at) => {
  element.addEventListener("mousemove", event => {
    const box = element.getBoundingClientRect();
    show_tip(text_at(event.clientX - box.left, event.clientY - box.top), event.clientX, event.clientY);
  });
  element.addEventListener("mouseleave", () => show_tip(""));
};

const add_key = (legend, text, style, name = "") => {
  const swatch = make("span", "swatch " + name);
  if (style) swatch.style.background = style;
  legend.append(make("span", "key", swatch, text));
};

// Of each stage: which of its rank's it is.
const chunks_of = rank_of_stage => {
  const seen = {};
  return rank_of_stage.map(rank => (seen[rank] = (seen[rank] ?? -1) + 1));
};
