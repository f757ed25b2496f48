const number = (value, digits = 4) => Number(value.toPrecision(digits)).toString();
const percent = (part) => `${(100 * part).toFixed(1)} %`;
// Against the other schedule.
const changeText = (value, other) => {
  if (!(other > 0) || Math.abs(value / other - 1) < 5e-4) return "";
  const change = 100 * (value / other - 1);
  return ` ${change > 0 ? "+" : "\u2212"}${Math.abs(change).toFixed(1)} %`;
};
const mebi = 1 << 20;
const memory = (bytes) => bytes >= 1024 * mebi
  ? `${number(bytes / 1024 / mebi)} GiB` : `${number(bytes / mebi)} MiB`;

const opName = (op) => {
  const [, kind, stage, microbatch, slice, copy] = op;
  return stage + kind + (microbatch < 0 ? "" : microbatch)
    + (slice < 0 ? "" : `.${slice}`) + (copy > 0 ? `@${copy}` : "");
};
const labelOf = (op) => op[3] < 0 ? "" : op[4] < 0 ? `${op[3]}` : `${op[3]}.${op[4]}`;

// The number of each stage on its rank, by copy.
const chunksOf = (ops) => {
  const stages = new Map();
  for (const [rank, , stage, , , copy] of ops) {
    const key = `${rank}/${copy}`;
    if (!stages.has(key)) stages.set(key, new Set());
    stages.get(key).add(stage);
  }
  const chunk = new Map();
  let most = 1;
  for (const [key, held] of stages) {
    [...held].sort((a, b) => a - b).forEach((stage, i) => chunk.set(`${stage}/${key.split("/")[1]}`, i));
    most = Math.max(most, held.size);
  }
  return {most, of: (op) => chunk.get(`${op[2]}/${op[5]}`)};
};
const say = (text) => { by_id("said").textContent = text; };
