const preferences = ["backward", "forward", "deep_stage", "shallow_stage", "early_microbatch", "weight_backward_last"];
const formats = [["", "export ..."], ["csv", "CSV"], ["text", "text form"], ["plan", "plan"],
  ["lowered_csv", "lowered CSV"], ["svg", "SVG"], ["trace", "trace"], ["json", "JSON"], ["cpp", "C++"],
  ["cpp_lanes", "C++, each op"]];

const table = (head, rows) => element("table", {},
  element("thead", {}, element("tr", {}, ...head.map((textContent) => element("th", {textContent, scope: "col"})))),
  element("tbody", {}, ...rows));

// A schedule, and what comes of it.
class Panel {
  constructor(index, catalogue) {
    this.index = index;
    this.catalogue = catalogue;
    this.controls = [];
    this.build();
    this.timeline = new Timeline(this.canvas, describe);
  }

  get chosen() { return state.panels[this.index]; }
  get row() { return this.catalogue.find((row) => row.name === this.chosen.name); }

  build() {
    const mine = (key) => property(() => this.chosen, key);
    const keep = (control) => { this.controls.push(control); return control; };
    this.root = element("section", {className: "card panel", "aria-label": `Schedule ${this.index + 1}`, data: {verdict: "none"}});
    this.source = keep(choice("", [["catalogue", "built-in"], ["text", "editor"], ["rules", "rules"]],
      {read: mine("source").read, write: (value) => this.setSource(value)}));
    this.source.list.setAttribute("aria-label", "where the schedule comes from");
    this.name = keep(choice("", this.catalogue.map((row) => [row.name, row.name]),
      {read: mine("name").read, write: (value) => this.setName(value)}));
    this.name.list.setAttribute("aria-label", "schedule");
    this.stages = keep(slider("stages V", {least: 1, most: 8, ...mine("stages")}));
    this.slices = keep(slider("slices", {least: 1, most: 8, ...mine("slices")}));
    this.breadth = keep(slider("breadth", {least: 0, most: 32, ...mine("breadth")}));
    this.pill = element("span", {className: "pill", role: "status"});
    this.summary = element("span", {className: "quiet"});
    this.text = element("textarea", {spellcheck: false, wrap: "off", placeholder:
      "A CSV of PyTorch's pipelining, compute only or lowered; a schedule's text form; or a plan", "aria-label": "the schedule's text"});
    this.text.addEventListener("input", () => { this.chosen.text = this.text.value; changed(); });
    this.rules = this.buildRules(keep, mine);
    this.message = element("div", {className: "message", role: "alert"});
    this.tiles = element("div", {className: "tiles"});
    this.canvas = element("canvas", {tabIndex: 0, data: {ops: 0}, "aria-label":
      "Timeline: arrow keys move between ops, + and - zoom; with a mouse, Ctrl+wheel zooms and dragging pans"});
    this.frame = element("div", {className: "canvas"}, this.canvas);
    this.legend = element("div", {className: "legend"});
    this.picture = element("img", {className: "deadlock", alt: "The cycle of waits", hidden: true});
    this.tables = element("div");
    this.channels = element("details");
    this.root.append(
      element("div", {className: "head"}, this.source, this.name, this.stages, this.slices, this.breadth, this.pill, this.summary),
      this.text, this.rules, this.message, this.picture, this.tiles, this.frame, this.legend,
      element("div", {className: "below"}, element("div", {className: "scroll"}, this.tables, this.channels), this.buildExport()));
    by_id("panels").append(this.root);
  }

  buildRules(keep, mine) {
    this.prefer = element("div", {className: "prefer"});
    return element("div", {className: "rules"}, element("span", {className: "quiet", textContent: "prefer"}), this.prefer,
      keep(slider("in flight", {least: 0, most: 32, title: "maximum activations on rank 0; 0: no limit", ...mine("in_flight")})),
      (this.falls = keep(check("one less on each further rank", mine("falls")))), keep(check("split backward", mine("split"))),
      keep(choice("placement", [["looped", "looped"], ["v_shaped", "V"], ["waves", "waves"]], mine("placement"))));
  }

  buildExport() {
    this.format = element("select", {"aria-label": "export as"}, ...formats.map(([value, textContent]) => element("option", {value, textContent})));
    this.format.addEventListener("change", () => { this.chosen.export = this.format.value; changed(); });
    this.copy = element("button", {type: "button", textContent: "copy"});
    this.copy.addEventListener("click", () => navigator.clipboard.writeText(this.output.textContent).then(() => say("copied")));
    this.save = element("button", {type: "button", textContent: "save"});
    this.save.addEventListener("click", () => {
      const url = URL.createObjectURL(new Blob([this.output.textContent]));
      element("a", {href: url, download: this.file}).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
    this.output = element("pre", {tabIndex: 0, hidden: true, "aria-label": "the exported text"});
    return element("div", {className: "export"}, element("div", {className: "row"}, this.format, this.copy, this.save), this.output);
  }

  updateRules() {
    const {prefer} = this.chosen;
    this.prefer.replaceChildren(...prefer.concat(prefer.length < preferences.length ? [""] : []).map((value, i) => {
      const options = preferences.filter((name) => name === value || !prefer.includes(name));
      const list = element("select", {"aria-label": `preference ${i + 1}`}, element("option", {value: "", textContent: "-"}),
        ...options.map((name) => element("option", {value: name, textContent: name.replaceAll("_", " ")})));
      list.value = value;
      list.addEventListener("change", () => {
        this.chosen.prefer = prefer.toSpliced(i, 1, list.value).filter(Boolean);
        changed();
      });
      return list;
    }));
  }

  // The editor begins with the schedule that was shown, unless its own text has
  // been edited.
  setSource(value) {
    const shown = this.request();
    this.chosen.source = value;
    const isOwn = () => this.chosen.text && this.chosen.text !== this.filled;
    if (value !== "text" || isOwn()) return;
    post("/api/export", {...shown, format: "text"}).then(({text}) => {
      if (!text || isOwn()) return;
      this.chosen.text = this.filled = text;
      changed();
    });
  }

  setName(value) {
    this.chosen.name = value;
    this.chosen.stages = this.row.usual_stages_per_rank;
    this.chosen.slices = this.row.usual_slices;
  }

  // As high as its text, within limits.
  fitText() {
    const lines = this.text.value.split("\n").length;
    this.text.rows = Math.min(Math.max(lines, 4), 24);
  }

  // Shows the controls that the chosen schedule has.
  update() {
    const {source, text, name, export: format} = this.chosen;
    const row = source === "catalogue" ? this.row : null;
    if (row) {
      const {least, most} = row.stages_per_rank;
      this.chosen.stages = Math.min(Math.max(this.chosen.stages, least), most);
      this.stages.limit(least, Math.min(most, 8));
      if (!row.slices) this.chosen.slices = 1;
    } else this.stages.limit(1, 8);
    this.name.hidden = source !== "catalogue";
    this.stages.hidden = source === "text" || (row && row.stages_per_rank.most === 1);
    this.slices.hidden = !row || !row.slices;
    this.breadth.hidden = !row || !row.breadth;
    this.text.hidden = source !== "text";
    this.rules.hidden = source !== "rules";
    if (this.text.value !== text) this.text.value = text;
    this.fitText();
    this.updateRules();
    this.format.value = format;
    for (const control of this.controls) control.update();
    this.name.list.title = row ? `${row.summary} (${row.accepts})` : name;
    this.falls.enable(this.chosen.in_flight > 0);
    this.copy.disabled = this.save.disabled = !format;
  }

  request() {
    const {source, name, text, stages, slices, breadth, prefer, in_flight, falls, split, placement} = this.chosen;
    const sizes = ["kept", "activation", "parameters"].filter((key) => state[key] > 0)
      .map((key) => `${key}=${state[key] * mebi}`).join(",");
    return {
      source, name, text: source === "text" ? text : "",
      rules: {prefer: prefer.length ? prefer : ["backward"], in_flight, falls_by_rank: falls, split_backward: split, placement},
      ranks: state.ranks, microbatches: state.microbatches, stages_per_rank: stages, breadth,
      slices: source === "catalogue" ? slices : 1,
      costs: `f=${state.f},i=${state.i},w=${state.w},b=${state.i + state.w},message=${state.message}`,
      costs_of_rank: state.of_rank, atomic_pairs: state.atomic, sizes, memory_limit: state.limit * mebi,
      transport: state.transport, shared_fifo: state.shared_fifo, credits: state.credits, theme: theme_of(state.theme),
    };
  }

  // One request at a time; the last change wins.
  async ask() {
    if (this.busy) { this.again = true; return; }
    this.busy = true;
    do {
      this.again = false;
      this.take(await post("/api/draw", this.request()));
      await this.exportNow();
    } while (this.again);
    this.busy = false;
    settled();
  }

  async exportNow() {
    const format = this.chosen.export;
    this.output.hidden = !format;
    if (!format) return;
    const made = await post("/api/export", {...this.request(), format});
    this.file = made.file || "";
    this.output.textContent = made.error || made.text;
    this.output.dataset.format = format;
  }

  take(answer) {
    const verdict = answer.error ? "error" : answer.verdict.progress ? "progress" : "deadlock";
    this.root.dataset.verdict = verdict;
    this.pill.textContent = {error: "not possible", progress: "makes progress", deadlock: "deadlock"}[verdict];
    this.message.textContent = answer.error || (verdict === "deadlock" ? answer.verdict.text : "");
    this.picture.hidden = verdict !== "deadlock";
    if (verdict === "deadlock") this.picture.src = `data:image/svg+xml,${encodeURIComponent(answer.verdict.svg)}`;
    const drawn = Boolean(answer.op_list);
    this.root.classList.toggle("stale", !drawn);
    this.frame.hidden = this.legend.hidden = !drawn && verdict !== "error";
    this.tiles.hidden = this.tables.hidden = this.channels.hidden = this.frame.hidden;
    if (answer.error) { this.canvas.dataset.ops = 0; return; }
    this.answer = answer;
    this.summary.textContent = `${answer.ranks} ranks, ${answer.stages} stages${answer.copies > 1 ? " in two copies" : ""}, `
      + `${answer.microbatches} microbatches${answer.slices > 1 ? ` of ${answer.slices} slices` : ""}, ${answer.ops} ops`;
    this.canvas.dataset.ops = drawn ? answer.op_list.length : 0;
    if (drawn) refresh();
  }

  show(end, others) {
    const {answer} = this;
    if (!answer || !answer.op_list) return;
    this.timeline.show(answer, end, state.critical);
    this.showTiles(others);
    this.showLegend();
    this.showTable();
  }

  showTiles(others) {
    const {answer} = this;
    const tile = (name, value, text, more = "", bad = false) => {
      const [other] = others.map((each) => value(each)).filter((v) => v !== undefined);
      const best = other !== undefined && value(answer) < other - 1e-9;
      return element("div", {className: `tile${bad ? " bad" : best ? " best" : ""}`, data: {name}},
        element("div", {className: "name", textContent: name}),
        element("div", {className: "value", textContent: text},
          element("span", {className: "change", textContent: changeText(value(answer), other)})),
        element("div", {className: "more", textContent: more}));
    };
    const most = (list) => list ? Math.max(...list) : undefined;
    const inFlight = (a) => most(a.in_flight) * a.ranks / (a.stages * a.slices);
    this.tiles.replaceChildren(
      tile("period", (a) => a.period, number(answer.period), "between steps"),
      tile("makespan", (a) => a.makespan, number(answer.makespan), "of a step"),
      tile("idle", (a) => a.idle, percent(answer.idle), `${percent(answer.span_idle)} within`),
      tile("in flight", inFlight, number(inFlight(answer)), "microbatches"),
      tile("messages", (a) => a.messages, `${answer.messages}`, `${answer.channels.length} channels`),
      ...(answer.staleness > 0 ? [tile("staleness", (a) => a.staleness, `${answer.staleness}`, "updates of lag, at most")] : []),
      ...(answer.peak_bytes ? [tile("memory", (a) => most(a.peak_bytes), memory(most(answer.peak_bytes)),
        answer.fits ? "most of a rank" : "beyond the limit", !answer.fits)] : []));
  }

  showLegend() {
    const {most} = this.timeline.chunks;
    const kinds = Object.keys(op_colours).filter((kind) => this.answer.op_list.some((op) => op[1] === kind));
    const entry = (text, ...boxes) => element("span", {}, ...boxes, element("b", {textContent: text}));
    const box = (fill, outline) => {
      const made = element("i");
      made.style.background = fill;
      if (outline) made.style.boxShadow = `inset 0 0 0 2px ${outline}`;
      return made;
    };
    const entries = kinds.map((kind) => entry(op_colours[kind][3],
      ...Array.from({length: Math.min(most, 8)}, (_, chunk) => box(paint(kind, chunk, most).fill))));
    if (most > 1) entries.push(entry(`light to dark: stages 0 to ${most - 1} of a rank`));
    const copy = paint("F", 0, 1);
    if (this.answer.copies > 1) entries.push(entry("copy 1 of the stage", box(copy.fill, copy.outline)));
    if (this.answer.op_list.some((op) => op[8] === 1)) entries.push(entry("underlined: an overlapped pair"));
    this.legend.replaceChildren(...entries);
  }

  showTable() {
    const {answer} = this;
    const sizes = Boolean(answer.peak_bytes);
    const full = Math.max(state.limit * mebi, ...(answer.peak_bytes || [0]));
    const cell = (textContent) => element("td", {textContent});
    const bar = (rank) => {
      const inner = element("div", {className: state.limit > 0 && answer.peak_bytes[rank] > state.limit * mebi ? "over" : ""});
      inner.style.width = `${full > 0 ? 100 * answer.peak_bytes[rank] / full : 0}%`;
      return element("td", {className: "bar"}, inner);
    };
    const rows = answer.idle_by_rank.map((idle, rank) => element("tr", {}, cell(`${rank}`), cell(percent(idle)), cell(`${answer.in_flight[rank]}`),
      ...(sizes ? [cell(memory(answer.peak_bytes[rank])), bar(rank)] : [])));
    const head = ["rank", "idle", "in flight", ...(sizes ? ["memory", ""] : [])];
    this.tables.replaceChildren(table(head, rows));
    this.channels.hidden = answer.channels.length === 0;
    this.channels.replaceChildren(element("summary", {textContent: `${answer.channels.length} channels`}),
      table(["from", "to", "carries", "messages", "credits"], answer.channels.map((each) =>
        element("tr", {}, ...[each.from, each.to, each.carries, each.messages, each.credits].map((value) => cell(`${value}`))))));
  }
}
