// What the page remembers, in its address too.
const usualPanel = (name) => ({
  source: "catalogue", name, stages: 1, slices: 1, breadth: 0, text: "",
  prefer: ["backward"], in_flight: 0, falls: true, split: false, placement: "looped", export: "",
});
const usual = () => ({
  ranks: 4, microbatches: 8, f: 1, i: 1, w: 1, message: 0, of_rank: true, atomic: false,
  kept: 0, activation: 0, parameters: 0, limit: 0,
  transport: "buffered", shared_fifo: false, credits: 0,
  critical: false, scale: true, compare: false, theme: "auto",
  panels: [usualPanel("1f1b"), usualPanel("zb_h1")],
});
let state = usual();

const differing = (value, plain) => {
  const changed = {};
  for (const key of Object.keys(plain)) {
    if (key === "text" && value.source !== "text") continue;
    if (key === "panels") {
      const panels = value.panels.map((panel, i) => differing(panel, plain.panels[i]));
      if (panels.some((panel) => Object.keys(panel).length > 0)) changed.panels = panels;
    } else if (JSON.stringify(value[key]) !== JSON.stringify(plain[key])) changed[key] = value[key];
  }
  return changed;
};
const merged = (plain, given) => {
  for (const key of Object.keys(plain)) {
    const value = given && given[key];
    if (key === "panels" && Array.isArray(value)) plain.panels.forEach((panel, i) => merged(panel, value[i]));
    else if (Array.isArray(plain[key]) ? Array.isArray(value) && value.every((v) => typeof v === "string")
      : typeof value === typeof plain[key]) plain[key] = value;
  }
  return plain;
};
const remember = () => {
  const changed = differing(state, usual());
  const hash = Object.keys(changed).length ? `#${encodeURIComponent(JSON.stringify(changed))}` : "#";
  history.replaceState(null, "", hash);
};
const restore = () => {
  try {
    state = merged(usual(), JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}"));
  } catch {
    state = usual();
  }
};

// Disables what has no effect now.
const enabling = (row, ...inputs) => (on) => {
  row.classList.toggle("off", !on);
  row.ariaDisabled = !on;
  for (const input of inputs) input.disabled = !on;
};

// A slider with a field for exact values.
const slider = (label, {least, most, step = 1, read, write, title = ""}) => {
  const range = element("input", {type: "range", min: least, max: most, step, title, "aria-label": label});
  const field = element("input", {type: "number", min: least, step, title, "aria-label": `${label}, exactly`});
  const set = (value) => {
    if (!Number.isFinite(value)) return;
    write(Math.max(value, least));
    changed();
  };
  range.addEventListener("input", () => set(range.valueAsNumber));
  field.addEventListener("input", () => set(field.valueAsNumber));
  const row = element("div", {className: "slider"}, element("span", {textContent: label, title}), range, field);
  row.update = () => {
    const value = read();
    if (document.activeElement !== field || field.valueAsNumber !== value) field.value = value;
    range.value = value;
  };
  row.limit = (low, high) => {
    range.min = field.min = low;
    range.max = high;
    range.disabled = field.disabled = low === high;
  };
  row.enable = enabling(row, range, field);
  return row;
};
const check = (label, {read, write, title = ""}) => {
  const box = element("input", {type: "checkbox"});
  box.addEventListener("change", () => { write(box.checked); changed(); });
  const row = element("label", {className: "check", title}, box, label);
  row.update = () => { box.checked = read(); };
  row.enable = enabling(row, box);
  return row;
};
const choice = (label, options, {read, write}) => {
  const list = element("select", {"aria-label": label},
    ...options.map(([value, text]) => element("option", {value, textContent: text})));
  list.addEventListener("change", () => { write(list.value); changed(); });
  const row = element("label", {className: "check"}, label, list);
  row.list = list;
  row.update = () => { list.value = read(); };
  return row;
};
const property = (object, key) => ({read: () => object()[key], write: (value) => { object()[key] = value; }});
const inState = (key) => property(() => state, key);

// Enables the controls that have an effect on what is shown.
const enableControls = (rows, shown) => {
  const answers = shown.map((panel) => panel.answer).filter((answer) => answer && answer.op_list);
  const edits = shown.every((panel) => panel.chosen.source === "text");
  const sizes = ["kept", "activation", "parameters"].some((key) => state[key] > 0);
  const some = (test) => answers.length === 0 || answers.some(test);
  rows.ranks.enable(!edits);
  rows.microbatches.enable(!edits);
  rows.message.enable(some((answer) => answer.messages > 0));
  rows.of_rank.enable(some((answer) => answer.stages > answer.ranks || answer.slices > 1));
  rows.atomic.enable(some((answer) => answer.op_list.some((op) => op[8] === 1)));
  rows.limit.enable(sizes);
  rows.credits.enable(state.transport === "credited");
  rows.scale.enable(state.compare);
};

const jobControls = () => {
  const all = [];
  const put = (id, ...rows) => { by_id(id).append(...rows); all.push(...rows); };
  const named = (key, row) => { all[key] = row; return row; };
  const number = (key, label, options) => named(key, slider(label, {...options, ...inState(key)}));
  const mark = (key, label, title = "") => named(key, check(label, {...inState(key), title}));
  put("shape", number("ranks", "ranks P", {least: 1, most: 32}), number("microbatches", "microbatches", {least: 1, most: 64}));
  put("costs", ...[["forward F", "f"], ["inputs I", "i"], ["weights W", "w"], ["message", "message"]].map(
    ([label, key]) => number(key, label, {least: 0, most: 4, step: .05})),
  mark("of_rank", "of a rank's layers", "Costs and sizes are those of all layers of a rank; they are divided among its stages and slices"),
  mark("atomic", "pairs as one op", "An overlapped pair waits for both inputs and delivers both results at its end"));
  put("memory", ...[["kept MiB", "kept", "kept by a forward for its backward, per microbatch"],
    ["outputs MiB", "activation", "given to the next stage"],
    ["weights MiB", "parameters", "including gradients and optimizer state"],
    ["limit MiB", "limit", "per rank, if there are sizes; 0: no limit"]].map(
    ([label, key, title]) => number(key, label, {least: 0, most: 4096, step: 16, title})));
  put("transport", choice("transport", [["buffered", "buffered"], ["credited", "credited"], ["rendezvous", "rendezvous"]], inState("transport")),
    mark("shared_fifo", "one FIFO for each pair of ranks"),
    number("credits", "credits", {least: 0, most: 16, title: "of credited transport: maximum per channel; 0: as many as the plan needs"}));
  put("view", mark("critical", "critical path"), mark("scale", "same time scale", "of two schedules"));
  return all;
};
