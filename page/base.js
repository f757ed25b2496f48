// Shared by all pages. Text from elsewhere is set by textContent, never as
// markup.
const by_id = id => document.getElementById(id);

const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(made.dataset, value);
    else if (name.startsWith("aria-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
};

const styles = getComputedStyle(document.documentElement);  // live
const colour_of = name => styles.getPropertyValue(name).trim();

const prefers_dark = matchMedia("(prefers-color-scheme: dark)");
const theme_of = wanted => wanted !== "auto" ? wanted : prefers_dark.matches ? "dark" : "light";
const set_theme = wanted => { document.documentElement.dataset.theme = theme_of(wanted); };
set_theme("auto");

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

// The colours of all drawings of plans, as in engine/plan/op_traits.hpp: hue,
// saturation and lightness of the first of a rank's stages.
const op_colours = {
  F: [212, 84, 74, "forward"], B: [38, 92, 62, "backward"],
  I: [140, 40, 64, "input backward"], W: [325, 38, 70, "weight backward"],
};
const other_colour = [30, 5, 58, "norm and update"];
const paint = (kind, chunk, chunks) => {
  const [hue, saturation, lightest] = op_colours[kind] || other_colour;
  const lightness = op_colours[kind]
    ? lightest - Math.trunc(26 * chunk / Math.max(chunks - 1, 1)) : lightest;
  return {
    fill: `hsl(${hue} ${saturation}% ${lightness}%)`,
    ink: lightness >= 56 ? "#16202b" : "#fff",
    outline: `hsl(${hue} ${saturation}% ${lightness >= 56 ? 24 : 88}%)`,
  };
};

// Beside a place of the window; an empty text hides it.
const show_tip = (text, x = 0, y = 0) => {
  const tip = by_id("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const right = x + 14 + tip.offsetWidth > innerWidth;
  const low = y + 16 + tip.offsetHeight > innerHeight;
  tip.style.left = Math.max(0, x + (right ? -14 - tip.offsetWidth : 14)) + "px";
  tip.style.top = Math.max(0, y + (low ? -12 - tip.offsetHeight : 16)) + "px";
};
