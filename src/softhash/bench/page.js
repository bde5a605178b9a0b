"use strict";
const rows = JSON.parse(document.getElementById("data").textContent);
const methods = [...new Set(rows.map((row) => row.method))];
const kinds = [...new Set(rows.map((row) => row.kind))];
const shapes = ["circle", "square", "triangle", "diamond", "cross"];
const hidden = new Set();
const tip = document.getElementById("tip");
const SVG = "http://www.w3.org/2000/svg";
const names = {
  error: "mean |error of log Z|, nats", batch_ms: "milliseconds per query, in a batch", scored: "classes scored per query",
  one_ms: "milliseconds per query, one at a time", coverage: "share of 95 % intervals that hold",
};

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function short(value, digits = 3) {
  if (value === null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-4 ? value.toExponential(1) : String(Number(value.toPrecision(digits)));
}

function colour(row) {
  return `var(--c${kinds.indexOf(row.kind) % 10})`;
}

/* Methods of one class share a colour and differ in shape. */
function shape(row) {
  const alike = methods.filter((method) => rows.find((other) => other.method === method).kind === row.kind);
  return shapes[alike.indexOf(row.method) % shapes.length];
}

function mark(row, x, y, r) {
  const path = {
    circle: `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    square: `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: `M${x},${y - 1.2 * r}l${1.2 * r},${2 * r}h${-2.4 * r}z`,
    diamond: `M${x},${y - 1.3 * r}l${1.3 * r},${1.3 * r}l${-1.3 * r},${1.3 * r}l${-1.3 * r},${-1.3 * r}z`,
    cross: `M${x - r / 3},${y - r}h${r * 0.67}v${r * 0.67}h${r * 0.67}v${r * 0.67}h${-r * 0.67}v${r * 0.67}h${-r * 0.67}v${-r * 0.67}h${-r * 0.67}v${-r * 0.67}h${r * 0.67}z`,
  }[shape(row)];
  return node("path", { d: path, fill: colour(row) });
}

function logTicks(low, high) {
  const wide = Math.log10(high / low) > 3;
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of wide ? [1] : [1, 2, 5]) {
      const tick = step * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks;
}

function scale(values, log, from, to) {
  let low = log ? Math.min(...values) / 1.4 : 0;
  let high = log ? Math.max(...values) * 1.4 : 1;
  const put = log
    ? (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low)
    : (value) => from + ((to - from) * (value - low)) / (high - low);
  return { put, ticks: log ? logTicks(low, high) : [0, 0.2, 0.4, 0.6, 0.8, 1] };
}

function front(points, x) {
  const best = [];
  for (const row of [...points].sort((a, b) => a[x] - b[x] || a.error - b.error))
    if (!best.length || row.error < best[best.length - 1].error) best.push(row);
  return best;
}

function axes(svg, sx, sy, box, x, y) {
  let last = -Infinity;
  for (const tick of sx.ticks) {
    const at = sx.put(tick);
    svg.append(node("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }));
    if (at - last < 34) continue;
    svg.append(node("text", { x: at, y: box.bottom + 16, "text-anchor": "middle" }, short(tick)));
    last = at;
  }
  for (const tick of sy.ticks) {
    svg.append(node("line", { class: "grid", x1: box.left, x2: box.right, y1: sy.put(tick), y2: sy.put(tick) }));
    svg.append(node("text", { x: box.left - 6, y: sy.put(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  svg.append(node("text", { x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" }, names[x]));
  svg.append(node("text", { x: box.left - 40, y: box.top - 10 }, names[y]));
}

function exactLines(svg, sx, box, x) {
  const lines = rows.filter((row) => row.kind.startsWith("Exact") && !row.kind.includes("Gumbel") && !hidden.has(row.method));
  let at = 0;
  for (const row of lines) {
    const place = sx.put(row[x]);
    svg.append(node("line", { class: "guide", x1: place, x2: place, y1: box.top, y2: box.bottom }));
    const left = place > (box.left + box.right) / 2;
    const text = { x: place + (left ? -5 : 5), y: box.top + 14 + 15 * at++, "text-anchor": left ? "end" : "start" };
    svg.append(node("text", text, row.method));
  }
}

function draw(figure) {
  const { x, y } = figure.dataset;
  const width = Math.max(300, figure.clientWidth);
  const height = Math.min(460, Math.max(320, width * 0.55));
  const box = { left: 46, right: width - 12, top: 26, bottom: height - 44 };
  const drawable = (row) => row[x] > 0 && row[y] !== null && (y === "coverage" || row[y] > 0);
  const inexact = rows.filter((row) => row.kind !== "Exact" && drawable(row));
  const times = figure.dataset.front ? rows.filter((row) => row[x] > 0) : inexact;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "group" });
  figure.replaceChildren(svg);
  if (!inexact.length) return;
  const sx = scale(times.map((row) => row[x]), true, box.left, box.right);
  const sy = scale(inexact.map((row) => row[y]), y !== "coverage", box.bottom, box.top);
  axes(svg, sx, sy, box, x, y);
  if (y === "coverage")
    svg.append(node("line", { class: "guide", x1: box.left, x2: box.right, y1: sy.put(0.95), y2: sy.put(0.95) }));
  if (figure.dataset.front) {
    const best = front(inexact.filter((row) => !hidden.has(row.method)), x);
    const path = best.map((row, i) => `${i ? "L" : "M"}${sx.put(row[x])},${sy.put(row[y])}`).join("");
    if (best.length) svg.append(node("path", { class: "front", d: path }));
  }
  for (const row of inexact) {
    if (hidden.has(row.method)) continue;
    const point = mark(row, sx.put(row[x]), sy.put(row[y]), 5);
    point.setAttribute("class", "mark");
    point.setAttribute("tabindex", "0");
    point.setAttribute("role", "img");
    point.setAttribute("aria-label", `${row.method} ${row.settings}: error ${short(row.error)}`);
    for (const event of ["pointerenter", "focus", "click"]) point.addEventListener(event, () => show(row, point));
    for (const event of ["pointerleave", "blur"]) point.addEventListener(event, hide);
    svg.append(point);
  }
  if (figure.dataset.front) exactLines(svg, sx, box, x);
}

function show(row, point) {
  const lines = [
    row.settings, `error ${short(row.error)} nats, 95th percentile ${short(row.p95)}`,
    `${short(row.batch_ms)} ms in a batch, ${short(row.one_ms)} ms alone`,
    `${short(row.scored)} classes scored, index ${short(row.index_bytes / 1e6)} MB`,
  ];
  const title = document.createElement("strong");
  title.textContent = row.method;
  tip.replaceChildren(title);
  for (const line of lines.filter(Boolean)) {
    const part = document.createElement("div");
    part.textContent = line;
    tip.append(part);
  }
  tip.hidden = false;
  const at = point.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth - size.width - 8;
  tip.style.left = `${Math.max(8, Math.min(at.right + 10, room))}px`;
  tip.style.top = `${Math.max(8, at.top > size.height + 12 ? at.top - size.height - 8 : at.bottom + 8)}px`;
}

function hide() {
  tip.hidden = true;
}

function redraw() {
  document.querySelectorAll(".chart").forEach(draw);
}

function legend() {
  const place = document.getElementById("legend");
  for (const method of methods) {
    const row = rows.find((other) => other.method === method);
    if (row.kind === "Exact") continue;
    const button = document.createElement("button");
    const icon = node("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
    icon.append(mark(row, 7, 7, 5));
    button.type = "button";
    button.append(icon, method);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const now = hidden.delete(method) || !hidden.add(method);
      button.setAttribute("aria-pressed", String(now));
      redraw();
      fill();
    });
    place.append(button);
  }
}

const columns = [
  ["method", "method"], ["settings", "settings"], ["error", "error"], ["p95", "95th perc."], ["bias", "bias"],
  ["bias_se", "± SE"], ["coverage", "coverage"], ["claimed", "claimed"], ["scored", "scored"], ["batch_ms", "ms, batch"],
  ["batch_spread", "spread"], ["one_ms", "ms, alone"], ["one_spread", "spread"], ["index_bytes", "index MB"],
  ["build_seconds", "build s"], ["draws", "draws"],
];
let order = { by: "batch_ms", up: true };

function head() {
  const line = document.querySelector("#rows thead").insertRow();
  for (const [key, name] of columns) {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      order = { by: key, up: order.by === key ? !order.up : true };
      fill();
    });
    cell.dataset.key = key;
    cell.scope = "col";
    cell.className = typeof rows[0][key] === "string" ? "words" : "";
    cell.append(button);
    line.append(cell);
  }
}

function compare(a, b) {
  const [x, y] = [a[order.by], b[order.by]];
  if (x === null || y === null) return (x === null) - (y === null);
  return (order.up ? 1 : -1) * (typeof x === "string" ? x.localeCompare(y) : x - y);
}

function written(key, value) {
  if (typeof value === "string" || value === null) return value ?? "–";
  return key === "coverage" ? `${(100 * value).toFixed(1)} %` : key === "scored" ? String(value) : short(value);
}

function fill() {
  for (const cell of document.querySelectorAll("#rows th"))
    cell.setAttribute("aria-sort", cell.dataset.key !== order.by ? "none" : order.up ? "ascending" : "descending");
  const body = document.querySelector("#rows tbody");
  body.replaceChildren();
  for (const row of rows.filter((row) => !hidden.has(row.method)).sort(compare)) {
    const line = body.insertRow();
    for (const [key] of columns) {
      const cell = line.insertCell();
      const value = key === "index_bytes" ? row[key] / 1e6 : key === "scored" ? Math.round(row[key]) : row[key];
      cell.className = typeof value === "string" ? "words" : "";
      cell.textContent = written(key, value);
    }
  }
}

for (const button of document.querySelectorAll(".switch button"))
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".switch button")) other.setAttribute("aria-pressed", String(other === button));
    document.getElementById("time").dataset.x = button.dataset.time;
    redraw();
  });
legend();
head();
fill();
redraw();
window.addEventListener("scroll", hide, { passive: true });
new ResizeObserver(redraw).observe(document.querySelector("main"));
