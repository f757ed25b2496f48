const gutter = 54;  // for the names of rows

// A step on a canvas: rows are ranks, time goes to the right.
class Timeline {
  constructor(canvas, describe) {
    this.canvas = canvas;
    this.describe = describe;
    this.answer = null;
    this.chosen = -1;
    this.first = 0;
    this.zoom = 1;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => { this.dragged = event.clientX; });
    canvas.addEventListener("pointerleave", () => this.choose(-1));
    canvas.addEventListener("blur", () => this.choose(-1));
    canvas.addEventListener("dblclick", () => this.see(0, 1));
    canvas.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(answer, end, critical) {
    this.answer = answer;
    this.end = Math.max(end, 1e-12);
    this.critical = critical;
    this.chunks = chunksOf(answer.op_list);
    this.path = new Set(answer.critical_path);
    if (this.chosen >= answer.op_list.length) this.chosen = -1;
    this.draw();
  }

  see(first, zoom) {
    this.zoom = Math.min(Math.max(zoom, 1), 200);
    this.first = Math.min(Math.max(first, 0), this.end * (1 - 1 / this.zoom));
    this.draw();
  }

  get rowHeight() { return this.answer.ranks > 16 ? 20 : 30; }
  get gap() { return this.answer.ranks > 16 ? 4 : 8; }
  x(time) { return gutter + (time - this.first) * this.zoom / this.end * (this.width - gutter - 6); }
  time(x) { return this.first + (x - gutter) / (this.width - gutter - 6) * this.end / this.zoom; }
  y(rank) { return 4 + rank * (this.rowHeight + this.gap); }

  draw() {
    if (!this.answer || !this.answer.op_list || this.canvas.clientWidth === 0) return;
    const height = this.y(this.answer.ranks) + 22;
    const [pen, width] = begin_canvas(this.canvas, height);
    this.width = width;
    pen.font = `${this.rowHeight > 20 ? 11.5 : 10}px Helvetica, Arial, sans-serif`;
    this.rows(pen);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, width - gutter, height);
    pen.clip();
    this.numbered = this.answer.op_list.every((op) => this.hasRoom(op));
    this.answer.op_list.forEach((op, i) => this.box(pen, op, i));
    if (this.critical) this.line(pen);
    if (this.chosen >= 0) this.inputs(pen);
    pen.restore();
  }

  rows(pen) {
    const bottom = this.y(this.answer.ranks) - this.gap + 3;
    pen.strokeStyle = colour_of("--line");
    pen.fillStyle = colour_of("--quiet");
    pen.textAlign = "center";
    for (const t of ticks(this.first, this.first + this.end / this.zoom, 10)) {
      pen.beginPath();
      pen.moveTo(this.x(t), 0);
      pen.lineTo(this.x(t), bottom);
      pen.stroke();
      pen.fillText(number(t), Math.min(this.x(t), this.width - 12), bottom + 10);
    }
    for (let rank = 0; rank < this.answer.ranks; ++rank) {
      pen.fillStyle = colour_of("--row");
      pen.fillRect(gutter, this.y(rank), this.width - gutter - 6, this.rowHeight);
      pen.fillStyle = colour_of("--ink");
      pen.textAlign = "right";
      pen.fillText(`rank ${rank}`, gutter - 6, this.y(rank) + this.rowHeight / 2);
    }
  }

  // Two ops at once, an atomic pair, share the height.
  part(i) {
    const ops = this.answer.op_list;
    const meets = (a, b) => a && b && a[0] === b[0] && a[8] === 1 && b[6] < a[7] - 1e-9 * this.end;
    if (meets(ops[i], ops[i + 1])) return [0, .5];
    return meets(ops[i - 1], ops[i]) ? [.5, .5] : [0, 1];
  }

  // Either all ops have numbers or none.
  hasRoom(op) {
    const label = labelOf(op);
    return !label || this.x(op[7]) - this.x(op[6]) >= 2 + 6.6 * label.length;
  }

  box(pen, op, i) {
    const left = this.x(op[6]);
    const right = this.x(op[7]);
    if (right < gutter || left > this.width) return;
    const [from, share] = this.part(i);
    const top = this.y(op[0]) + from * this.rowHeight;
    const height = share * this.rowHeight;
    const wide = Math.max(right - left, .6);
    const look = paint(op[1], this.chunks.of(op), this.chunks.most);
    pen.globalAlpha = this.critical && !this.path.has(i) ? .28 : 1;
    pen.fillStyle = look.fill;
    pen.fillRect(left, top, wide, height);
    if (wide > 3) {
      pen.strokeStyle = colour_of("--card");
      pen.lineWidth = 1;
      pen.strokeRect(left, top, wide, height);
    }
    if (op[5] > 0 && wide > 6) {
      pen.strokeStyle = look.outline;
      pen.lineWidth = 1.6;
      pen.strokeRect(left + 1.8, top + 1.8, wide - 3.6, height - 3.6);
    }
    if (op[8] === 1 && share === 1 && this.answer.op_list[i + 1]) {
      pen.fillStyle = colour_of("--quiet");
      pen.fillRect(left + 1, top + height + 1.5, this.x(this.answer.op_list[i + 1][7]) - left - 2, 2);
    }
    const label = labelOf(op);
    if (label && this.numbered) {
      pen.fillStyle = look.ink;
      pen.textAlign = "center";
      pen.fillText(label, left + wide / 2, top + height / 2);
    }
    pen.globalAlpha = 1;
  }

  middle(op, time) { return [this.x(time), this.y(op[0]) + this.rowHeight / 2]; }

  line(pen) {
    const low = (op, time) => [this.x(time), this.y(op[0]) + this.rowHeight - 3];
    pen.strokeStyle = colour_of("--path");
    pen.lineWidth = 1.6;
    pen.beginPath();
    for (const i of this.answer.critical_path) {
      const op = this.answer.op_list[i];
      pen.lineTo(...low(op, op[6]));
      pen.lineTo(...low(op, op[7]));
    }
    pen.stroke();
  }

  // The chosen op, and lines from the ops that make its inputs.
  inputs(pen) {
    const op = this.answer.op_list[this.chosen];
    pen.strokeStyle = colour_of("--accent");
    pen.lineWidth = 2;
    for (const [from] of op[9]) {
      const input = this.answer.op_list[from];
      pen.beginPath();
      pen.moveTo(...this.middle(input, input[7]));
      pen.lineTo(...this.middle(op, op[6]));
      pen.stroke();
      pen.strokeRect(this.x(input[6]), this.y(input[0]), this.x(input[7]) - this.x(input[6]), this.rowHeight);
    }
    pen.lineWidth = 2.5;
    pen.strokeRect(this.x(op[6]), this.y(op[0]), this.x(op[7]) - this.x(op[6]), this.rowHeight);
  }

  at(x, y) {
    if (!this.answer || !this.answer.op_list) return -1;
    const rank = Math.floor((y - 4) / (this.rowHeight + this.gap));
    const time = this.time(x);
    let found = -1;
    this.answer.op_list.forEach((op, i) => {
      if (op[0] !== rank || op[6] > time || op[7] < time) return;
      const [from, share] = this.part(i);
      const inside = (y - this.y(rank)) / this.rowHeight;
      if (share === 1 || (inside >= from && inside <= from + share)) found = i;
    });
    return found;
  }

  point(event) {
    const place = this.canvas.getBoundingClientRect();
    if (event.buttons === 1 && this.zoom > 1) {
      const moved = (event.clientX - this.dragged) / (this.width - gutter - 6) * this.end / this.zoom;
      this.dragged = event.clientX;
      this.see(this.first - moved, this.zoom);
      return;
    }
    this.choose(this.at(event.clientX - place.left, event.clientY - place.top), event.clientX, event.clientY);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const held = this.time(event.clientX - this.canvas.getBoundingClientRect().left);
    const zoom = this.zoom * ((event.deltaY || event.deltaX) < 0 ? 1.25 : .8);
    const kept = Math.min(Math.max(zoom, 1), 200);
    this.see(held - (held - this.first) * this.zoom / kept, kept);
  }

  key(event) {
    const ops = this.answer && this.answer.op_list;
    if (!ops) return;
    const now = ops[this.chosen] || [0, "", 0, 0, 0, 0, 0, 0];
    const nearest = (rank) => {
      let best = -1;
      ops.forEach((op, i) => {
        if (op[0] === rank && (best < 0 || Math.abs(op[6] - now[6]) < Math.abs(ops[best][6] - now[6]))) best = i;
      });
      return best;
    };
    const moves = {
      ArrowRight: () => this.chosen < 0 ? 0 : this.chosen + 1,
      ArrowLeft: () => this.chosen - 1,
      ArrowUp: () => nearest(now[0] - 1),
      ArrowDown: () => nearest(this.chosen < 0 ? 0 : now[0] + 1),
      Escape: () => -1,
    };
    if (event.key === "+" || event.key === "-") {
      this.see(now[6] - this.end / this.zoom / 2.5, this.zoom * (event.key === "+" ? 1.25 : .8));
      return;
    }
    if (!moves[event.key]) return;
    event.preventDefault();
    const next = moves[event.key]();
    if (next < 0 && event.key !== "Escape") return;
    const target = Math.min(next, ops.length - 1);
    const place = this.canvas.getBoundingClientRect();
    this.choose(target, target < 0 ? 0 : place.left + this.x(ops[target][7]),
      target < 0 ? 0 : place.top + this.y(ops[target][0]) + this.rowHeight, true);
  }

  choose(i, x, y, aloud = false) {
    if (i === this.chosen && i < 0) return;
    this.chosen = i;
    this.draw();
    const text = i < 0 ? "" : this.describe(this.answer, i, this.path.has(i));
    show_tip(text, x, y);
    if (aloud) say(text);
  }
}

// An op's name, when it runs, and what it waited for.
const describe = (answer, i, onPath) => {
  const ops = answer.op_list;
  const op = ops[i];
  const lines = [`${opName(op)} on rank ${op[0]}: ${(op_colours[op[1]] || other_colour)[3]}`,
    `${number(op[6])} to ${number(op[7])}, takes ${number(op[7] - op[6])}`];
  const before = i > 0 && ops[i - 1][0] === op[0] ? ops[i - 1] : null;
  if (before) lines.push(`after ${opName(before)}, which ends at ${number(before[7])}`);
  for (const [from, arrival] of op[9])
    lines.push(`needs ${opName(ops[from])} of rank ${ops[from][0]}, there at ${number(arrival)}`);
  const idle = op[6] - (before ? before[7] : 0);
  if (idle > 1e-9) lines.push(`the rank is idle for ${number(idle)} before`);
  if (onPath) lines.push("on the critical path");
  return lines.join("\n");
};
