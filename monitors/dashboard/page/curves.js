// Lines over steps. A point is [step, mean, low, high, not finite].
const curve_margin = {left: 54, right: 10, top: 18, bottom: 32};

// An exponential mean of the finite values, as TensorBoard smooths.
const smoothed = (points, weight) => {
  let sum = 0, count = 0;
  return points.map(([step, mean, low, high, bad]) => {
    if (!Number.isFinite(mean)) return [step, mean, low, high, bad];
    sum = weight * sum + (1 - weight) * mean;
    count += 1;
    return [step, sum / (1 - weight ** count), low, high, bad];
  });
};

// How values become heights: `to` is monotonic, `marks` are for the axis.
const linear_axis = {to: value => value, fits: Number.isFinite, marks: (low, high) => ticks(low, high, 4)};
const log_axis = {
  to: Math.log10, fits: value => Number.isFinite(value) && value > 0,
  marks: (low, high) => {
    if (high - low < 1) return ticks(10 ** low, 10 ** high, 4).filter(value => value > 0);
    const found = [];
    for (let power = Math.floor(low); power <= high; ++power)
      for (const factor of high - low < 3 ? [1, 2, 5] : [1]) found.push(factor * 10 ** power);
    const within = found.filter(value => Math.log10(value) >= low && Math.log10(value) <= high);
    const every = Math.ceil(within.length / 6);
    return within.filter((_, i) => i % every === 0);
  },
};

// In the axis's own units.
const y_range = (series, axis) => {
  let low = Infinity, high = -Infinity;
  for (const {points, band} of series)
    for (const point of points)
      for (const value of band ? point.slice(1, 4) : [point[1]])
        if (axis.fits(value)) {
          low = Math.min(low, axis.to(value));
          high = Math.max(high, axis.to(value));
        }
  if (low > high) return [0, 1];
  const flat = high - low < 1e-9 * Math.abs(high);  // but for rounding
  const room = (flat ? 0 : (high - low) * 0.06) || Math.abs(high) * 0.05 || 1;
  return [axis === linear_axis && low >= 0 && low - room < 0 ? 0 : low - room, high + room];
};

const line_path = (points, x, y, axis) => {
  let path = "", pen = "M";
  for (const [step, mean] of points) {
    if (!axis.fits(mean)) { pen = "M"; continue; }
    path += pen + x(step).toFixed(1) + " " + y(mean).toFixed(1);
    pen = "L";
  }
  return path;
};

const band_path = (points, x, y, axis) => {
  const known = points.filter(p => axis.fits(p[1]) && axis.fits(p[2]));
  if (known.length < 2) return "";
  const side = (list, at) => list.map(
    p => x(p[0]).toFixed(1) + " " + y(p[at]).toFixed(1)).join("L");
  return "M" + side(known, 3) + "L" + side([...known].reverse(), 2) + "Z";
};

// series: [{name, colour, points, band}]; `unit` is the title of the y axis.
const draw_curves = (svg, given, unit) => {
  const weight = Number(by_id("smoothing").value);
  const series = weight ? given.map(each => ({...each, points: smoothed(each.points, weight)})) : given;
  const any_positive = series.some(s => s.points.some(p => log_axis.fits(p[1])));
  const axis = by_id("log-axis").checked && any_positive ? log_axis : linear_axis;
  const {left, right, top, bottom} = curve_margin;
  const width = svg.clientWidth, height = svg.clientHeight;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const drawn = [];
  const known = series.map(s => s.points).filter(points => points.length);
  const first = known.length ? Math.min(...known.map(points => points[0][0])) : 0;
  const last = Math.max(first + 1, ...known.map(points => points.at(-1)[0]));
  const [low, high] = y_range(series, axis);
  const x = step => left + (step - first) / (last - first) * (width - left - right);
  const y = value => height - bottom - (axis.to(value) - low) / (high - low) * (height - top - bottom);
  drawn.push(svg_of("text", {x: 2, y: 11, class: "axis"}, unit));
  drawn.push(svg_of("text", {x: left + (width - left - right) / 2, y: height - 3, "text-anchor": "middle", class: "axis"}, "step"));
  for (const value of axis.marks(low, high)) {
    drawn.push(svg_of("path", {class: "grid", d: `M${left} ${y(value).toFixed(1)}H${width - right}`}));
    drawn.push(svg_of("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, short(value)));
  }
  for (const value of ticks(first, last, Math.max(2, Math.floor(width / 90))))
    if (Number.isInteger(value))
      drawn.push(svg_of("text", {x: x(value), y: height - 17, "text-anchor": "middle"}, String(value)));
  for (const {name, colour, points, band} of series) {
    if (band)
      drawn.push(svg_of("path", {class: "band", fill: colour, d: band_path(points, x, y, axis)}));
    drawn.push(svg_of("path", {class: "mean", stroke: colour, d: line_path(points, x, y, axis), "data-name": name, "data-points": points.length}));
    if (points.length && points.length < 40)
      for (const [step, mean] of points)
        if (axis.fits(mean))
          drawn.push(svg_of("circle", {cx: x(step).toFixed(1), cy: y(mean).toFixed(1), r: 2.2, fill: colour}));
    for (const [step, , , , bad] of points)
      if (bad)
        drawn.push(svg_of("path", {class: "hole", d: `M${x(step).toFixed(1)} ${height - bottom - 7}l4 7h-8z`}));
  }
  svg.replaceChildren(...drawn);
  svg.picture = {series, x, height};
};

const nearest = (points, x, at) => {
  let best = null;
  for (const point of points)
    if (!best || Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at)) best = point;
  return best;
};

const add_curve_tip = svg => {
  add_tip(svg, at => {
    const {series, x, height} = svg.picture ?? {series: []};
    svg.querySelector(".cross")?.remove();
    const lines = [];
    for (const {name, points} of series) {
      const point = nearest(points, x, at);
      if (!point) continue;
      if (!lines.length) {
        lines.push("step " + point[0]);
        svg.append(svg_of("path", {class: "cross", d: `M${x(point[0]).toFixed(1)} ${curve_margin.top}V${height - curve_margin.bottom}`}));
      }
      const apart = point[2] !== point[3] ? `  (${short(point[2])} to ${short(point[3])})` : "";
      const from = lines.length > 1 && point[0] + "" !== lines[0].slice(5) ? ` at step ${point[0]}` : "";
      lines.push(`${name} ${point[4] && !Number.isFinite(point[1]) ? "not finite" : Number(point[1]).toPrecision(6)}${apart}${from}`);
    }
    return lines.join("\n");
  });
  svg.addEventListener("mouseleave", () => svg.querySelector(".cross")?.remove());
};

const draw_all_curves = curves => {
  const palette = ["--accent", "--second", "--good", "--warn"].map(colour_of);
  const of = (names, label) => names.filter(n => curves.has(n)).map((name, i) =>
    ({name: label ?? name, colour: palette[i % 4], points: curves.get(name), band: !name.startsWith("validation")}));
  const losses = [...curves.keys()].filter(n => n.startsWith("train/"))
    .concat([...curves.keys()].filter(n => n.startsWith("validation/")));
  const shown = of(losses);
  const in_percent = series => series.map(each => ({...each,
    points: each.points.map(([step, ...values]) => [step, ...values.slice(0, 3).map(v => 100 * v), values[3]])}));
  draw_curves(by_id("loss"), shown, "loss");
  draw_curves(by_id("throughput"), of(["tokens_per_second"], "tokens/s"), "tokens/s");
  draw_curves(by_id("norm"), of(["grad_norm"], "gradient norm"), "norm");
  draw_curves(by_id("bubble"), in_percent(of(["bubble"], "bubble")), "%");
  draw_curves(by_id("rate"), of(["lr"], "learning rate"), "learning rate");
  draw_curves(by_id("memory"), of(["memory_mib"], "memory"), "MiB");
  const legend = by_id("loss-legend");
  legend.replaceChildren();
  for (const {name, colour} of shown)
    add_key(legend, name.replace("train/loss", "training").replace("validation/loss", "validation"), colour, "line");
};
