// The last steps, a row for each rank. A span is [row, kind, stage,
// microbatch, start, end], a wait [row, kind, start, end], in microseconds.
const timeline_view = {left: 0, right: 8, top: 24, gap: 14, panels: []};
const wait_names = ["waits for an input that is not computed yet", "waits for transport",
  "waits for a credit", "waits for a core"];
const kind_names = {F: "forward", B: "backward", I: "input backward",
  W: "weight backward", NORM: "gradient norm", UPDATE: "update"};

const row_name = (row, facts) => facts.replicas > 1
  ? `replica ${Math.floor(row / facts.ranks)} \u00b7 rank ${row % facts.ranks}` : `rank ${row}`;

const row_height = rows => rows <= 6 ? 30 : rows <= 12 ? 24 : rows <= 32 ? 16 : 11;

const hatch_of = context => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour_of("--hatch");
  pen.lineWidth = 1;
  pen.beginPath();
  for (const x of [-6, 0, 6]) { pen.moveTo(x, 6); pen.lineTo(x + 6, 0); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
};

const end_of = step => step.spans.reduce((last, span) => Math.max(last, span[5]), 1);

const draw_timeline = (steps, facts) => {
  const canvas = by_id("timeline"), view = timeline_view;
  const shown = steps.slice(-Number(by_id("timeline-steps").value));
  const rows = facts.ranks * facts.replicas, tall = row_height(rows);
  const [context, width] = begin_canvas(canvas, view.top + rows * tall + 20);
  view.left = facts.replicas > 1 ? 136 : 78;
  const total = shown.reduce((sum, step) => sum + end_of(step), 0);
  const room = width - view.left - view.right - view.gap * Math.max(0, shown.length - 1);
  const scale = room / Math.max(total, 1);
  const colours = {}, chunks = chunks_of(facts.rank_of_stage);
  const hatch = hatch_of(context), ink = colour_of("--quiet");
  view.panels = [];
  view.tall = tall;
  context.fillStyle = ink;
  context.textAlign = "right";
  const every = Math.ceil(13 / tall);
  for (let row = 0; row < rows; row += every)
    context.fillText(row_name(row, facts), view.left - 10, view.top + row * tall + tall / 2);
  let at = view.left, count = 0;
  for (const step of shown) {
    const wide = end_of(step) * scale;
    view.panels.push({step, from: at, to: at + wide, scale});
    draw_step(context, step, {at, wide, scale, rows, tall, hatch, ink, chunks, colours});
    count += step.spans.length;
    at += wide + view.gap;
  }
  canvas.dataset.spans = count;
  by_id("timeline-note").textContent = shown.length
    ? shown.length > 1 ? `steps ${shown[0].step} to ${shown.at(-1).step}` : `step ${shown[0].step}`
    : "waiting for the first step";
  draw_timeline_legend(shown, chunks);
};

const draw_step = (context, step, {at, wide, scale, rows, tall, hatch, ink, chunks, colours}) => {
  const top = timeline_view.top, box = Math.max(tall - (tall > 14 ? 5 : 2), 4);
  context.fillStyle = colour_of("--faint");
  for (let row = 0; row < rows; ++row)
    context.fillRect(at, top + row * tall, wide, box);
  for (const [row, kind, start, end] of step.waits) {
    const width = (end - start) * scale;
    if (width < 0.7) continue;
    context.fillStyle = hatch;
    context.fillRect(at + start * scale, top + row * tall, width, box);
    if (kind === 3) {
      context.fillStyle = colour_of("--bad");
      context.fillRect(at + start * scale, top + row * tall + box - 2, width, 2);
    }
  }
  context.textAlign = "center";
  const has_room = ([, , , microbatch, start, end]) => microbatch < 0
    || (end - start) * scale >= 4 + 6 * String(microbatch).length;
  const numbered = box >= 11 && step.spans.every(has_room);
  const most = Math.max(0, ...chunks) + 1;
  for (const [row, kind, stage, microbatch, start, end] of step.spans) {
    const {fill, ink: text} = colours[kind + chunks[stage]] ??= paint(kind, chunks[stage], most);
    const width = Math.max((end - start) * scale, 0.6), x = at + start * scale;
    context.fillStyle = fill;
    context.fillRect(x, top + row * tall, width > 3 ? width - 1 : width, box);
    if (microbatch >= 0 && numbered) {
      context.fillStyle = text;
      context.fillText(String(microbatch), x + width / 2, top + row * tall + box / 2 + 0.5);
    }
  }
  context.fillStyle = ink;
  context.textAlign = "left";
  context.fillText(`step ${step.step}`, at, 9);
  context.strokeStyle = colour_of("--line");
  context.beginPath();
  for (const tick of ticks(0, wide / scale, Math.max(2, wide / 110))) {
    const x = at + tick * scale;
    context.moveTo(x, top - 5);
    context.lineTo(x, top);
    if (wide - tick * scale > 24)
      context.fillText(tick ? time_text(tick) : "0", x, top + rows * tall + 9);
  }
  context.stroke();
};

const draw_timeline_legend = (shown, chunks) => {
  const legend = by_id("timeline-legend"), found = new Map();
  for (const step of shown)
    for (const [, kind, stage] of step.spans)
      found.set(kind in kind_names && kind.length === 1 ? kind + chunks[stage] : "norm", [kind, chunks[stage]]);
  const several = Math.max(0, ...chunks) > 0;
  legend.replaceChildren();
  const order = ([kind, chunk]) =>
    kind.length > 1 ? 1e9 : chunk + 64 * "FBIW".indexOf(kind);
  const keys = [...found.keys()].sort((a, b) => order(found.get(a)) - order(found.get(b)));
  for (const key of keys) {
    const [kind, chunk] = found.get(key);
    const text = key === "norm" ? "norm, update" : kind_names[kind] + (several ? `, stage ${chunk} of the rank` : "");
    add_key(legend, text, paint(kind, chunk, Math.max(0, ...chunks) + 1).fill);
  }
  add_key(legend, "waits", "", "hatched");
  add_key(legend, wait_names[3], colour_of("--bad"), "line");
};

const timeline_tip = facts => (x, y) => {
  const view = timeline_view, row = Math.floor((y - view.top) / view.tall);
  const panel = view.panels.find(p => x >= p.from && x <= p.to);
  if (!panel || y < view.top) return "";
  const {step, from, scale} = panel, time = (x - from) / scale, slack = 1.5 / scale;
  const span = step.spans.find(s => s[0] === row && time >= s[4] && time <= Math.max(s[5], s[4] + slack));
  const name = () => row_name(row, facts());
  if (span) {
    const [, kind, stage, microbatch, start, end] = span;
    const op = `${stage}${kind}${microbatch >= 0 ? microbatch : ""}`;
    return `${op}  ${kind_names[kind] ?? kind}\nstep ${step.step}, ${name()}, stage ${stage}`
      + (microbatch >= 0 ? `, microbatch ${microbatch}` : "")
      + `\n${time_text(end - start)}, from ${time_text(start)} to ${time_text(end)}`;
  }
  const wait = step.waits.find(w => w[0] === row && time >= w[2] && time <= w[3]);
  return wait ? `${name()} ${wait_names[wait[1]]}\nstep ${step.step}, ${time_text(wait[3] - wait[2])}` : "";
};
