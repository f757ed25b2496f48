// What all pictures share. Whatever comes from the run becomes text by
// textContent, never markup.
const by_id = id => document.getElementById(id);

const make = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
};

const svg_of = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const colour_of = name =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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

// Some `count` round numbers from low to high.
const ticks = (low, high, count) => {
  const raw = Math.max(high - low, 1e-12) / count;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(f => f * magnitude >= raw) * magnitude;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    found.push(i * step);
  return found;
};

// A canvas as wide as its place, in pixels of the page.
const begin_canvas = (canvas, height) => {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  return [context, width];
};

const show_tip = (event, text) => {
  const tip = by_id("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const right = event.clientX + 14 + tip.offsetWidth > innerWidth;
  const low = event.clientY + 16 + tip.offsetHeight > innerHeight;
  tip.style.left = event.clientX + (right ? -14 - tip.offsetWidth : 14) + "px";
  tip.style.top = event.clientY + (low ? -12 - tip.offsetHeight : 16) + "px";
};

// `text_at(x, y)` of the element; empty hides the tip.
const add_tip = (element, text_at) => {
  element.addEventListener("mousemove", event => {
    const box = element.getBoundingClientRect();
    show_tip(event, text_at(event.clientX - box.left, event.clientY - box.top));
  });
  element.addEventListener("mouseleave", () => show_tip(null, ""));
};

const add_key = (legend, text, style, name = "") => {
  const key = make("span", "key");
  const swatch = make("span", "swatch " + name);
  if (style) swatch.style.background = style;
  key.append(swatch, text);
  legend.append(key);
};

// The colours of drawn plans: a hue for each of a rank's stages.
const hues = [212, 158, 28, 280, 340, 48, 190, 100];
const span_colours = (kind, chunk) => {
  const hue = hues[chunk % hues.length];
  if (kind === "F")
    return [`hsl(${hue} 72% ${colour_of("--forward-light")})`, "#16202b"];
  if (kind === "B") return [`hsl(${hue} 50% 42%)`, "#fff"];
  if (kind === "I") return [`hsl(${hue} 52% 56%)`, "#fff"];
  if (kind === "W") return [`hsl(${hue} 26% 34%)`, "#fff"];
  return ["#8a94a0", "#fff"];
};

// Of each stage: which of its rank's it is.
const chunks_of = rank_of_stage => {
  const seen = {};
  return rank_of_stage.map(rank => (seen[rank] = (seen[rank] ?? -1) + 1));
};
