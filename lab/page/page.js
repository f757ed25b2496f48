const post = async (path, request) => {
  try {
    const response = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request)});
    return await response.json();
  } catch {
    return {error: "no response from troupe lab; is it still running?"};
  }
};
let panels = [];
let jobRows = [];
const shown = () => panels.slice(0, state.compare ? 2 : 1);

// Draws all panels anew, from their last answers.
const refresh = () => {
  const answers = shown().map((panel) => panel.answer).filter((answer) => answer && answer.op_list);
  const longest = Math.max(...answers.map((answer) => answer.makespan));
  for (const panel of shown())
    if (panel.answer && panel.answer.op_list)
      panel.show(state.scale ? longest : panel.answer.makespan, answers.filter((answer) => answer !== panel.answer));
  enableControls(jobRows, shown());
};
const settled = () => {
  if (!panels.some((panel) => panel.busy)) document.body.dataset.state = "ready";
};
const update = () => {
  set_theme(state.theme);
  by_id("theme").value = state.theme;
  by_id("compare").checked = state.compare;
  by_id("panels").classList.toggle("two", state.compare);
  panels.forEach((panel, i) => { panel.root.hidden = i > 0 && !state.compare; });
  for (const row of jobRows) row.update();
  for (const panel of shown()) panel.update();
  enableControls(jobRows, shown());
};
const changed = () => {
  document.body.dataset.state = "busy";
  update();
  remember();
  refresh();
  for (const panel of shown()) panel.ask();
};

const start = async () => {
  const {schedules} = await (await fetch("/api/schedules")).json();
  restore();
  jobRows = jobControls();
  panels = [new Panel(0, schedules), new Panel(1, schedules)];
  by_id("job").addEventListener("submit", (event) => event.preventDefault());
  by_id("compare").addEventListener("change", (event) => { state.compare = event.target.checked; changed(); });
  by_id("theme").addEventListener("change", (event) => { state.theme = event.target.value; changed(); });
  by_id("link").addEventListener("click", () => navigator.clipboard.writeText(location.href).then(() => say("link copied")));
  prefers_dark.addEventListener("change", changed);
  window.addEventListener("hashchange", () => { restore(); changed(); });
  changed();
};
start();
