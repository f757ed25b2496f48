// Asks each second what is new, and draws it.
const page_name = Math.random().toString(36).slice(2);
const shown = {revision: 0, run: null, curves: new Map(), timeline: [], heat: null,
  alerts: [], metrics: new Map(), summary: null, state: null};

const forget_run = () => {
  Object.assign(shown, {revision: 0, timeline: [], heat: null, alerts: [], summary: null});
  shown.curves.clear();
  shown.metrics.clear();
};

const merge_curves = parts => {
  for (const [name, {from, points}] of Object.entries(parts)) {
    const known = shown.curves.get(name) ?? [];
    known.length = Math.min(known.length, from);
    for (const [step, mean, low, high, bad] of points)
      known.push([step, Number(mean), Number(low), Number(high), bad]);
    shown.curves.set(name, known);
  }
};

const take = state => {
  shown.revision = state.revision;
  shown.run = state.run;
  shown.state = state;
  merge_curves(state.curves);
  if (state.timeline && !by_id("timeline-pause").checked) shown.timeline = state.timeline;
  if (state.heat) shown.heat = state.heat;
  if (state.summary) shown.summary = state.summary;
  shown.alerts = shown.alerts.concat(state.alerts).slice(-200);
  for (const [name, value, step] of state.metrics) shown.metrics.set(name, [value, step]);
};

const duration_text = seconds => {
  const whole = Math.max(0, Math.round(seconds)), two = v => String(v).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
};

const draw_facts = ({facts, elapsed, tokens}) => {
  const parts = [["model", facts.model], ["schedule", facts.schedule], ["ranks", facts.ranks], ["stages", facts.stages],
    ["microbatches", facts.microbatches], ["replicas", facts.replicas],
    ["elapsed", elapsed === undefined ? "" : duration_text(elapsed)],
    ["tokens seen", tokens ? short(tokens) : ""], ["process", facts.pid]];
  const command = facts.command ? [make("code", "", facts.command)] : [];
  by_id("facts").replaceChildren(...parts.filter(([, value]) => value).map(
    ([name, value]) => make("span", "", name + " ", make("b", "", value))), ...command);
  by_id("run-name").textContent = facts.name ?? "";
};

// The state's name for the style, a short text, and all that is to be said.
const ended_text = (state, how, reason) =>
  ["ended", `${how} at ${state.step}` + (state.steps ? ` of ${state.steps}` : ""), reason];

const loss_trouble = state => {
  const bad = shown.summary?.losses.find(([, value]) => !Number.isFinite(Number(value)));
  return bad && ["trouble", `${state.over ? "ended" : "running"}, but the ${bad[0]} is ${short(bad[1])}`];
};

const state_text = state => {
  if (state.failure)
    return state.interrupted ? ended_text(state, "interrupted", state.failure) : ["failed", state.failure];
  if (state.ended?.why === "failed") return ["failed", state.ended.reason];
  if (state.ended) return ended_text(state,
    state.ended.why === "asked" ? "interrupted" : "ended early", state.ended.reason);
  if (loss_trouble(state)) return loss_trouble(state);
  if (state.over) return ["ended", "the job has ended"];
  if (!state.step) return ["quiet", "waiting for the first step"];
  if (state.age > 30) return ["quiet", `no step for ${duration_text(state.age)}`];
  return ["running", "running"];
};

const draw_state = ([name, text, more]) => {
  document.body.dataset.state = name;
  by_id("state").textContent = text;
  by_id("state").title = more ?? text;
};

const tile = (name, value, unit, more, is_bad) => make("div", "card tile" + (is_bad ? " bad" : ""),
  make("div", "name", name), make("div", "value", value, ...(unit ? [make("small", "", " " + unit)] : [])),
  make("div", "more", more ?? "\u00a0"));

const step_tile = (state, s) => {
  const made = tile("Step", String(state.step), state.steps ? `of ${state.steps}` : "");
  const left = state.steps ? (state.steps - state.step) * Number(s?.seconds ?? 0) : 0;
  if (state.steps) {
    const bar = make("progress");
    bar.max = state.steps;
    bar.value = state.step;
    made.insertBefore(bar, made.lastChild);
  }
  made.lastChild.textContent = (s ? `${short(1e3 * Number(s.seconds))} ms a step` : "\u00a0")
    + (left > 0 && !state.over ? `, ${duration_text(left)} left` : "");
  return made;
};

const last_validation = () => {
  const points = shown.curves.get("validation/loss");
  return points?.length ? `validation ${points.at(-1)[1].toPrecision(5)}` : undefined;
};

const monitors_share = ({facts}, s) => (Number(s.observe_seconds) + Number(s.monitor_seconds))
  / Math.max(1e-9, Number(s.seconds) * facts.ranks * facts.replicas);

const draw_tiles = () => {
  const {state, summary: s} = shown, tiles = [step_tile(state, s)];
  const percent = value => (100 * Number(value)).toFixed(1);
  if (s) {
    const counts = s.losses.length && s.losses[0][1] !== null;
    const loss = s.losses.length ? Number(s.losses[0][1]) : NaN;
    tiles.push(
      counts || !s.losses.length
        ? tile("Loss", Number.isFinite(loss) ? loss.toPrecision(5) : short(loss), "", last_validation(), !Number.isFinite(loss))
        : tile("Loss", "\u2013", "", "no counted tokens"),
      tile("Tokens per second", short(s.tokens_per_second), "", `monitors: ${percent(monitors_share(state, s))} % of the time`),
      tile("Bubble", percent(s.bubble), "%", `plan ${percent(s.plan_bubble)} %`),
      tile("Gradient norm", short(s.grad_norm), "", s.updated ? state.facts.clips ? "before clipping" : undefined : "update skipped", !Number.isFinite(Number(s.grad_norm))),
      tile("Learning rate", short(s.lr), "", Number(s.loss_scale) !== 1 ? `loss scale ${short(s.loss_scale)}` : undefined),
      tile("Memory", (s.memory_bytes / 2 ** 20).toFixed(0), "MiB"));
  }
  by_id("tiles").replaceChildren(...tiles);
};

const draw_alerts = () => {
  const list = by_id("alerts"), total = shown.state.alerted;
  by_id("alerts-note").textContent = total > shown.alerts.length
    ? `the last ${shown.alerts.length} of ${total}` : total ? String(total) : "";
  list.replaceChildren(...shown.alerts.slice().reverse().map(alert => make("li", "",
    make("span", "dot " + alert.kind),
    make("span", "where", `step ${alert.step}, ${alert.from}` + (alert.kind === "alert" ? "" : `, ${alert.kind}`)),
    make("pre", "", alert.text))));
  if (!shown.alerts.length) list.append(make("li", "empty", "none"));
};

const draw_metrics = () => {
  by_id("metrics-card").hidden = shown.metrics.size === 0;
  by_id("metrics-note").textContent = shown.state.unkept_metrics ? "the first 200 names" : "";
  const row = (cells, tag) =>
    make("tr", "", ...cells.map((text, i) => make(tag, i ? "number" : "name", text)));
  by_id("metrics").replaceChildren(row(["name", "value", "step"], "th"),
    ...[...shown.metrics].sort(([a], [b]) => (a < b ? -1 : 1)).map(
      ([name, [value, step]]) => row([name, short(value), String(step)], "td")));
};

const draw = () => {
  const {state} = shown;
  if (!state) return;
  const loss = shown.summary?.losses[0];
  document.title = `${state.step}${state.steps ? "/" + state.steps : ""}`
    + (loss && loss[1] !== null ? ` \u00b7 ${short(loss[1])}` : "") + ` \u00b7 ${state.facts.name || "troupe"}`;
  draw_state(state_text(state));
  draw_facts(state);
  draw_tiles();
  draw_timeline(shown.timeline, state.facts);
  draw_all_curves(shown.curves);
  draw_heat_map(shown.heat, state.statistics_every);
  draw_alerts();
  draw_actors(state);
  draw_metrics();
};

const ask = async () => {
  // From the origin, as an address with a password in it can't be fetched.
  const from = location.origin + "/state/" + shown.revision + "/" + page_name;
  const response = await fetch(from, {cache: "no-store"});
  if (!response.ok) throw new Error("status " + response.status);
  const state = await response.json();
  if (shown.run && state.run !== shown.run) {
    forget_run();  // another run has the port now
    shown.run = null;
    return ask();
  }
  return state;
};

const poll = async () => {
  let again = 1000;
  try {
    take(await ask());
    draw();
    if (shown.state.over) again = 5000;
    shown.silent_since = null;
  } catch (problem) {
    again = 2000;
    shown.silent_since ??= new Date();
    if (!shown.state?.over)
      draw_state(["gone", `no answer since ${shown.silent_since.toLocaleTimeString()}: the job may have ended`]);
  }
  setTimeout(poll, again);
};

add_tip(by_id("timeline"), timeline_tip(() => shown.state.facts));
add_tip(by_id("heat"), heat_tip);
for (const id of ["loss", "throughput", "norm", "bubble", "rate", "memory"]) add_curve_tip(by_id(id));
for (const id of ["timeline-steps", "heat-kind", "heat-statistic", "smoothing", "log-axis"])
  by_id(id).addEventListener("change", draw);
by_id("actors-fold").addEventListener("toggle", draw);
addEventListener("resize", draw);
prefers_dark.addEventListener("change", () => { set_theme("auto"); draw(); });
draw_actor_legend();
const saved = by_id("saved-state");  // this is a file, which no run answers
if (saved) {
  take(JSON.parse(saved.textContent));
  draw();
} else {
  poll();
}
