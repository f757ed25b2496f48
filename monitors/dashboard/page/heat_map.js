// A row for each stage, a column for each microbatch of all replicas. A cell
// is [max |x|, l2, mean, not finite], or null.
const heat_view = {left: 64, top: 20};

const rgb_between = (low, high, share) => {
  const [a, b] = [low, high].map(text => text.split(" ").map(Number));
  return "rgb(" + a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(" ") + ")";
};

// Numbers to [0, 1]: on a logarithmic scale where they lie far apart, around
// zero for means.
const heat_scale = (values, statistic) => {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite), high = Math.max(...finite);
  if (!finite.length) return {low: 0, high: 0, share: () => 0};
  if (statistic === 2) {
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return {low: -most, high: most, share: v => (v / most + 1) / 2};
  }
  if (statistic === 3) return {low: 0, high, share: v => (v > 0 ? 1 : 0)};
  if (low > 0 && high / low > 50)
    return {low, high, logarithmic: true, share: v => Math.log(v / low) / Math.log(high / low)};
  return {low, high, share: v => (high > low ? (v - low) / (high - low) : 0.5)};
};

const heat_colour = (share, statistic) => {
  const low = colour_of("--heat-low"), high = colour_of("--heat-high");
  if (statistic === 3) return share ? colour_of("--bad") : colour_of("--faint");
  if (statistic !== 2) return rgb_between(low, high, share);
  return share < 0.5 ? rgb_between(low, "47 111 222", 1 - 2 * share)
    : rgb_between(low, "214 110 40", 2 * share - 1);
};

// Black or white, whichever is read better on "#rrggbb".
const ink_on = colour => {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#16202b" : "#fff";
};

const draw_heat_map = (heat, every) => {
  const canvas = by_id("heat"), statistic = Number(by_id("heat-statistic").value);
  const cells = heat?.[by_id("heat-kind").value] ?? [];
  const columns = Math.max(1, heat?.columns ?? 1), rows = Math.max(1, cells.length / columns);
  const tall = rows <= 8 ? 30 : rows <= 16 ? 20 : rows <= 64 ? 12 : 5;
  const [context, width] = begin_canvas(canvas, heat_view.top + rows * tall + 4);
  const wide = (width - heat_view.left) / columns;
  const values = cells.map(cell => (cell ? Number(cell[statistic]) : NaN));
  const scale = heat_scale(values, statistic);
  const ink = colour_of("--quiet");
  let known = 0;
  cells.forEach((cell, i) => {
    if (!cell) return;
    ++known;
    const x = heat_view.left + (i % columns) * wide, y = heat_view.top + Math.floor(i / columns) * tall;
    const share = scale.share(values[i]);
    context.fillStyle = Number.isFinite(values[i]) ? heat_colour(share, statistic) : colour_of("--bad");
    const ground = context.fillStyle;
    context.fillRect(x, y, wide > 4 ? wide - 1.5 : wide, tall > 6 ? tall - 1.5 : tall);
    if (cell[3] > 0 && statistic !== 3) {
      context.fillStyle = colour_of("--bad");
      context.beginPath();
      context.moveTo(x, y); context.lineTo(x + 8, y); context.lineTo(x, y + 8);
      context.fill();
    }
    if (wide > 46 && tall > 18) {
      context.fillStyle = ink_on(ground);
      context.textAlign = "center";
      context.fillText(short(values[i]), x + wide / 2, y + tall / 2);
    }
  });
  context.fillStyle = ink;
  context.textAlign = "right";
  for (let row = 0; row < rows && known; row += Math.ceil(13 / tall))
    context.fillText("stage " + row, heat_view.left - 10, heat_view.top + row * tall + tall / 2);
  context.textAlign = "center";
  for (let column = 0; column < columns && known; column += Math.ceil(22 / wide))
    context.fillText(String(column), heat_view.left + (column + 0.5) * wide, 9);
  canvas.dataset.cells = known;
  canvas.picture = {cells, columns, wide, tall};
  by_id("heat-note").textContent = heat
    ? `step ${heat.step}, by stage and microbatch; each ${every} steps` + (heat.cut ? "; too large to show whole" : "")
    : `first in step ${every}`;
  draw_heat_legend(scale, statistic, known);
};

const draw_heat_legend = (scale, statistic, known) => {
  const legend = by_id("heat-legend");
  legend.replaceChildren();
  if (!known || statistic === 3) return;
  const ramp = make("span", "ramp"), stops = [0, 0.25, 0.5, 0.75, 1];
  ramp.style.background = `linear-gradient(90deg, ${stops.map(s => heat_colour(s, statistic)).join(", ")})`;
  legend.append(short(scale.low), ramp, short(scale.high) + (scale.logarithmic ? " (logarithmic)" : ""));
  add_key(legend, "has values that are not finite", colour_of("--bad"));
};

const heat_tip = (x, y) => {
  const {cells, columns, wide, tall} = by_id("heat").picture ?? {cells: []};
  const column = Math.floor((x - heat_view.left) / wide), row = Math.floor((y - heat_view.top) / tall);
  const cell = column >= 0 && column < columns && row >= 0 ? cells[row * columns + column] : null;
  return cell ? `stage ${row}, microbatch ${column}\nmax |x| ${short(cell[0])}\nl2 norm ${short(cell[1])}\nmean ${short(cell[2])}\nNaN + Inf ${cell[3]}` : "";
};
