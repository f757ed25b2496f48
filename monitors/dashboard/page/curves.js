// Lines over steps. A point is [step, mean, low, high, not finite].
const curve_margin = {left: 46, right: 10, top: 8, bottom: 20};

const y_range = series => {
  let low = Infinity, high = -Infinity;
  for (const {points, band} of series)
    for (const point of points)
      for (const value of band ? point.slice(1, 4) : [point[1]])
        if (Number.isFinite(value)) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
  if (low > high) return [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
};

const line_path = (points, x, y) => {
  let path = "", pen = "M";
  for (const [step, mean] of points) {
    if (!Number.isFinite(mean)) { pen = "M"; continue; }
    path += pen + x(step).toFixed(1) + " " + y(mean).toFixed(1);
    pen = "L";
  }
  return path;
};

const band_path = (points, x, y) => {
  const known = points.filter(p => Number.isFinite(p[1]));
  if (known.length < 2) return "";
  const side = (list, at) => list.map(
    p => x(p[0]).toFixed(1) + " " + y(p[at]).toFixed(1)).join("L");
  return "M" + side(known, 3) + "L" + side([...known].reverse(), 2) + "Z";
};

// series: [{name, colour, points, band}]
const draw_curves = (svg, series) => {
  const {left, right, top, bottom} = curve_margin;
  const width = svg.clientWidth, height = svg.clientHeight;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const drawn = [];
  const known = series.map(s => s.points).filter(points => points.length);
  const first = known.length ? Math.min(...known.map(points => points[0][0])) : 0;
  const last = Math.max(first + 1, ...known.map(points => points.at(-1)[0]));
  const [low, high] = y_range(series);
  const x = step => left + (step - first) / (last - first) * (width - left - right);
  const y = value => height - bottom - (value - low) / (high - low) * (height - top - bottom);
  for (const value of ticks(low, high, 4)) {
    drawn.push(svg_of("path", {class: "grid", d: `M${left} ${y(value).toFixed(1)}H${width - right}`}));
    drawn.push(svg_of("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, short(value)));
  }
  for (const value of ticks(first, last, Math.max(2, Math.floor(width / 90))))
    if (Number.isInteger(value))
      drawn.push(svg_of("text", {x: x(value), y: height - 5, "text-anchor": "middle"}, String(value)));
  for (const {name, colour, points, band} of series) {
    if (band)
      drawn.push(svg_of("path", {class: "band", fill: colour, d: band_path(points, x, y)}));
    drawn.push(svg_of("path", {class: "mean", stroke: colour, d: line_path(points, x, y), "data-name": name, "data-points": points.length}));
    if (points.length && points.length < 40)
      for (const [step, mean] of points)
        if (Number.isFinite(mean))
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
  draw_curves(by_id("loss"), shown);
  draw_curves(by_id("throughput"), of(["tokens_per_second"], "tokens/s"));
  draw_curves(by_id("norm"), of(["grad_norm"], "gradient norm"));
  const legend = by_id("loss-legend");
  legend.replaceChildren();
  for (const {name, colour} of shown)
    add_key(legend, name.replace("train/loss", "training").replace("validation/loss", "validation"), colour, "line");
};
