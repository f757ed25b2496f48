// Who there is, what each does, and who talks to whom.
const node_of = (name, state, doing) => {
  const node = make("div", "node " + state,
    make("div", "name", make("span", "dot " + state), name), make("div", "doing", doing));
  node.title = doing;
  node.dataset.actor = name;
  return node;
};

const rank_doing = rank => rank.doing === "running" ? "runs " + rank.op
  : rank.doing === "waiting" ? `waits at ${rank.op} for ${rank.for}` : rank.doing === "elsewhere" ? "in another process" : "idle";

const is_culprit = (rank, culprit) =>
  culprit && rank.rank === culprit.rank && rank.replica === culprit.replica;

const rank_node = (rank, state, dense) => {
  const failed = is_culprit(rank, state.culprit) && "failed";
  const over = failed || (state.over ? "ended" : "");
  const node = node_of(`rank ${rank.rank}`, over || rank.doing,
    failed ? "failed at " + state.culprit.op : over || rank_doing(rank));
  if (dense && !over && rank.doing === "waiting")
    node.querySelector(".doing").textContent = "waits at " + rank.op;
  if (dense) return node;
  const chips = make("div", "chips");
  state.facts.rank_of_stage.forEach((at, stage) => {
    if (at !== rank.rank) return;
    const on = !over && !["idle", "elsewhere"].includes(rank.doing) && rank.stage === stage;
    chips.append(make("span", "chip" + (on ? " on " + rank.doing : ""), "stage " + stage));
  });
  node.append(chips);
  return node;
};

const replica_box = (replica, state, nodes) => {
  const ranks = state.actors.ranks.filter(r => r.replica === replica);
  const dense = state.actors.ranks.length > 16;
  nodes.ranks[replica] = ranks.map(rank => rank_node(rank, state, dense));
  const note = state.facts.replicas > 1 ? [make("div", "note", "replica " + replica)] : [];
  return make("div", "replica", ...note, make("div", "ranks", ...nodes.ranks[replica]));
};

const waiting_for = (state, what) =>
  state.actors.ranks.some(r => r.doing === "waiting" && r.for.includes(what));

const loader_node = (replica, state) => {
  const slow = state.actors.slow_loads[replica] ?? 0;
  const awaited = !state.over && state.actors.ranks.some(
    r => r.replica === replica && r.doing === "waiting" && r.for.includes("loader"));
  const doing = state.over ? "ended" : awaited ? "is waited for" : "ahead of the ranks";
  return node_of(state.facts.replicas > 1 ? `loader ${replica}` : "loader",
    state.over ? "ended" : awaited ? "waiting" : "running", doing + (slow ? `, ${slow} slow loads` : ""));
};

const coordinator_node = state => {
  if (state.failure)
    return node_of("coordinator", state.interrupted ? "ended" : "failed", state.failure);
  return state.over ? node_of("coordinator", "ended", "ended")
    : node_of("coordinator", state.actors.in_step ? "running" : "idle",
      state.actors.in_step ? "a step runs" : "between steps");
};

const monitor_line = (monitor, over) => {
  const parts = [];
  if (over) parts.push("ended");
  if (!over && monitor.waiting) parts.push(`${monitor.waiting} waiting`);
  if (monitor.dropped) parts.push(`${monitor.dropped} dropped`);
  if (monitor.trouble) parts.push("detached: " + monitor.trouble);
  const state = monitor.trouble ? "failed" : over ? "ended" : monitor.dropped ? "waiting" : "running";
  const line = make("div", "monitor", make("span", "dot " + state), monitor.name,
    make("span", "doing", parts.join(", ")));
  line.title = parts.join(", ");
  line.dataset.actor = monitor.name;
  return line;
};

const monitors_node = state => make("div", "node list", make("div", "name", "monitors"),
  ...state.actors.monitors.map(m => monitor_line(m, state.over)));

const reducer_line = state => {
  const awaited = !state.over && waiting_for(state, "reducer");
  const {stages} = state.facts, few = stages <= 24;
  const names = few ? state.facts.rank_of_stage.map((_, stage) => "reducer " + stage)
    : [`reducers 0 to ${stages - 1}`];
  return make("div", "reducers",
    ...names.map(name => make("span", "chip" + (awaited ? " on waiting" : ""), name)),
    make("span", "note", state.facts.replicas < 2
      ? "nothing to reduce: one replica" : awaited ? "are waited for" : "gradients over replicas"));
};

const draw_actors = state => {
  const place = by_id("actors"), nodes = {ranks: []};
  const replicas = [...Array(state.facts.replicas).keys()];
  nodes.coordinator = coordinator_node(state);
  nodes.loaders = replicas.map(replica => loader_node(replica, state));
  const boxes = replicas.map(replica => replica_box(replica, state, nodes));
  const dropped = state.actors.monitors.reduce((sum, m) => sum + m.dropped, 0);
  nodes.hub = node_of("event hub", state.over ? "ended" : "running",
    state.over ? "ended" : `${state.actors.monitors.length} monitors` + (dropped ? `, ${dropped} events dropped` : ""));
  nodes.monitors = monitors_node(state);
  place.classList.toggle("dense", state.actors.ranks.length > 16);
  place.dataset.actors = 2 + nodes.loaders.length + state.actors.ranks.length
    + state.facts.stages * (1 + state.facts.replicas) + state.actors.monitors.length;
  place.replaceChildren(
    make("div", "column", nodes.coordinator, ...nodes.loaders),
    make("div", "column", ...boxes, reducer_line(state)),
    make("div", "column", nodes.hub, nodes.monitors));
  draw_edges(place, nodes);
};

const draw_edges = (place, nodes) => {
  const origin = place.getBoundingClientRect(), drawn = svg_of("svg", {});
  const box = node => {
    const at = node.getBoundingClientRect();
    return {left: at.left - origin.left, right: at.right - origin.left,
      top: at.top - origin.top, bottom: at.bottom - origin.top,
      x: (at.left + at.right) / 2 - origin.left, y: (at.top + at.bottom) / 2 - origin.top};
  };
  const edge = (a, b) => {
    const [p, q] = [box(a), box(b)];
    const d = q.left >= p.right
      ? `M${p.right} ${p.y}C${(p.right + q.left) / 2} ${p.y} ${(p.right + q.left) / 2} ${q.y} ${q.left} ${q.y}`
      : q.top >= p.bottom ? `M${p.x} ${p.bottom}C${p.x} ${(p.bottom + q.top) / 2} ${q.x} ${(p.bottom + q.top) / 2} ${q.x} ${q.top}` : "";
    if (d) drawn.append(svg_of("path", {d}));
  };
  const ranks = nodes.ranks.map(list => list[0]?.closest(".replica")).filter(Boolean);
  ranks.forEach((box_of, replica) => {
    edge(nodes.coordinator, box_of);
    edge(nodes.loaders[replica], box_of);
    edge(box_of, nodes.hub);
  });
  for (const list of nodes.ranks)
    for (let i = 1; i < list.length && list.length <= 16; ++i)
      edge(list[i - 1], list[i]);
  edge(nodes.hub, nodes.monitors);
  place.prepend(drawn);
};

const draw_actor_legend = () => {
  const keys = [["working", "running"], ["waits, or is waited for", "waiting"],
    ["idle, or ended", ""], ["failed", "failed"]];
  by_id("actors-legend").replaceChildren(...keys.map(
    ([text, name]) => make("span", "key", make("span", "dot " + name), text)));
};
