// The script of the report page: sorts and shortens tables, and draws the two
// maps. The page can be read without it.
(() => {
"use strict";

const shortRows = 12; // of a table, before the rest is asked for

// ---- figures, written as package report writes them ----

function digits(v) { return v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2); }

function duration(ns) {
  if (ns < 1000) return `${Math.round(ns)} ns`;
  const units = [["us", 1e3, 1e6], ["ms", 1e6, 1e9], ["s", 1e9, 120e9], ["min", 60e9, 7200e9], ["h", 3600e9, 172800e9]];
  for (const [name, size, until] of units) {
    if (ns < until * 0.9995) return `${digits(ns / size)} ${name}`;
  }
  return `${digits(ns / 86400e9)} d`;
}

function bytes(n) {
  if (n < 10000) return `${Math.round(n)} B`;
  for (const unit of ["kB", "MB", "GB", "TB", "PB"]) {
    n /= 1000;
    if (n < 999.5) return `${digits(n)} ${unit}`;
  }
  return `${digits(n / 1000)} EB`;
}

function count(n) {
  for (const [least, size, unit] of [[1e13, 1e12, "T"], [1e10, 1e9, "G"], [1e7, 1e6, "M"]]) {
    if (n >= least) return `${digits(n / size)} ${unit}`;
  }
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
}

function span(first, last) { return first === last ? `rank ${first}` : `ranks ${first}–${last}`; }

function element(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

// ---- tables ----

class Table {
  constructor(table) {
    this.body = table.tBodies[0];
    this.table = table;
    this.rows = [...this.body.rows];
    this.needle = "";
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (!("fixed" in head.dataset)) this.addSort(head, i);
    });
    if (this.rows.length > shortRows) this.addTools();
    this.show();
  }

  addSort(head, column) {
    const button = element("button", { type: "button", textContent: head.textContent });
    button.setAttribute("aria-label", `${head.textContent}: sort ${this.table.dataset.name} by it`);
    button.addEventListener("click", () => {
      // Figures begin with the largest, names with the first.
      const numeric = head.classList.contains("n");
      const now = head.getAttribute("aria-sort");
      const descending = now ? now === "ascending" : numeric;
      for (const other of this.table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      this.sort(column, numeric, descending ? -1 : 1);
    });
    head.replaceChildren(button);
  }

  sort(column, numeric, sign) {
    const key = numeric
      ? (row) => Number(row.cells[column].dataset.v ?? NaN)
      : (row) => row.cells[column].textContent;
    const keys = new Map(this.rows.map((row) => [row, key(row)]));
    const names = new Intl.Collator("en", { numeric: true });
    this.rows.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (!numeric) return sign * names.compare(x, y);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // none: at the end
      return sign * (x - y);
    });
    this.body.append(...this.rows);
    this.show();
  }

  addTools() {
    const name = this.table.dataset.name;
    this.more = element("button", { type: "button", className: "plain" });
    this.more.addEventListener("click", () => {
      this.table.classList.toggle("short");
      this.show();
    });
    const filter = element("input", { type: "search", placeholder: "filter rows" });
    filter.setAttribute("aria-label", `Filter ${name}`);
    filter.addEventListener("input", () => {
      this.needle = filter.value.trim().toLowerCase();
      this.show();
    });
    this.said = element("span", {});
    this.said.setAttribute("role", "status");
    this.table.classList.add("short");
    this.table.parentElement.after(element("div", { className: "tools" }, this.more, filter, this.said));
  }

  // show hides the rows that do not fit the filter, and those after the first.
  show() {
    let fitting = 0;
    for (const row of this.rows) {
      const fits = this.needle === "" || row.textContent.toLowerCase().includes(this.needle);
      row.classList.toggle("out", !fits);
      row.classList.toggle("over", fits && fitting >= shortRows);
      fitting += fits;
    }
    if (!this.more) return;
    const short = this.table.classList.contains("short");
    this.more.textContent = short ? `Show all ${count(fitting)} rows` : `Show the first ${shortRows}`;
    this.more.setAttribute("aria-label", `${this.more.textContent} of ${this.table.dataset.name}`);
    this.more.hidden = fitting <= shortRows;
    const shown = short ? Math.min(fitting, shortRows) : fitting;
    this.said.textContent = shown === this.rows.length ? "" : `${count(shown)} of ${count(this.rows.length)} rows`;
  }
}

// ---- maps ----

function unpack(text, Type) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return new Type(out.buffer);
}

// css is the value of a custom property.
function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function rgb(hex) { return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); }

// palette is 256 colours between the stops of the ramp.
function palette() {
  const stops = css("--ramp").split(/\s+/).map(rgb);
  return Array.from({ length: 256 }, (_, i) => {
    const at = i / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((v, k) => Math.round(v + (stops[low + 1][k] - v) * (at - low)));
  });
}

// HeatMap draws the cells of a model in a figure. A model has rows, columns,
// share(cell): 0 to 1 for a colour, null for nothing to show; say(row, column);
// rowTick, columnTick: what is written at the axes; legend: what is written
// below; peak: the cell to begin with; cellMax: the most pixels of a cell.
class HeatMap {
  constructor(figure, models) {
    this.figure = figure;
    this.models = models;
    this.box = figure.querySelector(".canvas");
    this.canvas = figure.querySelector("canvas");
    this.readout = figure.querySelector("output");
    this.choice = figure.querySelector("[data-choice]");
    this.metric = figure.querySelector("[data-metric]");
    for (const e of figure.querySelectorAll("[hidden]")) e.hidden = false;
    for (const select of [this.choice, this.metric]) select?.addEventListener("change", () => this.open());
    for (const button of figure.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do));
    }
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.listenToPointer();
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.open();
  }

  // open shows the chosen data.
  open() {
    this.model = this.models(Number(this.choice?.value ?? 0), this.metric?.value);
    [this.row, this.column] = this.model.peak;
    this.view = { x: 0, y: 0, w: this.model.columns, h: this.model.rows };
    this.paint();
    this.say("largest: ");
    this.canvas.setAttribute("aria-label", `${this.box.getAttribute("aria-label")}, ${this.readout.textContent}`);
    this.draw();
  }

  // paint makes a picture with one pixel for each cell.
  paint() {
    const { rows, columns, share } = this.model;
    this.colors = palette();
    const picture = new ImageData(columns, rows), none = rgb(css("--none")), known = picture.data;
    for (let i = 0; i < rows * columns; i++) {
      const v = share(i), color = v === null ? none : this.colors[Math.round(v * 255)];
      known[4 * i] = color[0];
      known[4 * i + 1] = color[1];
      known[4 * i + 2] = color[2];
      known[4 * i + 3] = 255;
    }
    this.picture = new OffscreenCanvas(columns, rows);
    this.picture.getContext("2d").putImageData(picture, 0, 0);
  }

  // layout is where the cells are drawn, in pixels of the page.
  layout() {
    const { rows, columns, cellMax, square } = this.model;
    const left = 72, top = 34, legend = 44, right = 12;
    const width = this.printing ? 560 : this.box.clientWidth || 600;
    let w = Math.min(Math.max(width - left - right, 40), columns * cellMax);
    let h = square ? Math.min(w / columns * rows, 620) : Math.max(Math.min(rows * cellMax, 512), 64);
    if (square) w = Math.min(w, h / rows * columns);
    return { left, top, w, h, width, height: top + h + legend };
  }

  draw() {
    const at = this.at = this.layout(), scale = this.printing ? 3 : window.devicePixelRatio || 1;
    this.canvas.width = at.width * scale;
    this.canvas.height = at.height * scale;
    const g = this.canvas.getContext("2d"), view = this.view;
    g.scale(scale, scale);
    g.font = "11px system-ui, sans-serif";
    g.imageSmoothingEnabled = at.w < view.w || at.h < view.h; // no cell may vanish
    g.imageSmoothingQuality = "high";
    g.drawImage(this.picture, view.x, view.y, view.w, view.h, at.left, at.top, at.w, at.h);
    g.strokeStyle = css("--soft");
    g.strokeRect(at.left - 0.5, at.top - 0.5, at.w + 1, at.h + 1);
    this.drawValues(g);
    this.drawAxes(g);
    this.drawCursor(g);
    this.drawLegend(g);
  }

  // drawValues writes into cells that are large enough.
  drawValues(g) {
    const { at, view, model } = this, w = at.w / view.w, h = at.h / view.h;
    if (!model.value || w < 52 || h < 18) return;
    g.textAlign = "center";
    g.textBaseline = "middle";
    for (let r = Math.floor(view.y); r < view.y + view.h; r++) {
      for (let c = Math.floor(view.x); c < view.x + view.w; c++) {
        const cell = r * model.columns + c, v = model.share(cell);
        if (v === null) continue;
        const [red, green, blue] = this.colors[Math.round(v * 255)];
        g.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff";
        g.fillText(model.value(cell), at.left + (c + 0.5 - view.x) * w, at.top + (r + 0.5 - view.y) * h);
      }
    }
  }

  drawAxes(g) {
    const { at, view, model } = this;
    g.fillStyle = css("--soft");
    g.textAlign = "center";
    g.textBaseline = "bottom";
    this.ticks(view.x, view.w, model.columns, at.w / 56, (c) => {
      g.fillText(model.columnTick(c), at.left + (c + 0.5 - view.x) * at.w / view.w, at.top - 4);
    });
    g.textAlign = "left";
    g.fillText(`${model.columnName} →`, at.left, at.top - 18);
    g.textAlign = "right";
    g.textBaseline = "middle";
    this.ticks(view.y, view.h, model.rows, at.h / 20, (r) => {
      g.fillText(model.rowTick(r), at.left - 6, at.top + (r + 0.5 - view.y) * at.h / view.h);
    });
    g.textBaseline = "bottom";
    g.fillText(`${model.rowName} ↓`, at.left - 6, at.top - 18);
  }

  // ticks calls f for at most so many cells of an axis, a power of two apart.
  ticks(from, length, all, most, f) {
    let step = 1;
    while (length / step > Math.max(1, most)) step *= 2;
    for (let i = Math.ceil((from - 0.5) / step) * step; i < from + length - 0.5 && i < all; i += step) {
      if (i >= 0 && i + 0.5 >= from) f(i);
    }
  }

  drawCursor(g) {
    const { at, view } = this, w = at.w / view.w, h = at.h / view.h;
    const x = at.left + (this.column - view.x) * w, y = at.top + (this.row - view.y) * h;
    if (this.printing || x + w < at.left || y + h < at.top || x > at.left + at.w || y > at.top + at.h) return;
    g.lineWidth = 3;
    g.strokeStyle = css("--panel");
    g.strokeRect(x - 1, y - 1, w + 2, h + 2);
    g.lineWidth = 1.5;
    g.strokeStyle = css("--text");
    g.strokeRect(x - 1, y - 1, w + 2, h + 2);
    g.lineWidth = 1;
  }

  drawLegend(g) {
    const { at, model } = this, top = at.top + at.h + 12, w = Math.min(260, at.w);
    for (let i = 0; i < w; i++) {
      g.fillStyle = `rgb(${this.colors[Math.round(i / w * 255)].join(" ")})`;
      g.fillRect(at.left + i, top, 1.5, 10);
    }
    g.fillStyle = css("--soft");
    g.textBaseline = "top";
    const [low, middle, high] = model.legend;
    g.textAlign = "left";
    g.fillText(low, at.left, top + 14);
    g.textAlign = "center";
    if (w > 180) g.fillText(middle, at.left + w / 2, top + 14);
    g.textAlign = "right";
    g.fillText(high, at.left + w, top + 14);
    if (at.w > w + 150) {
      g.fillStyle = css("--none");
      g.fillRect(at.left + w + 20, top, 14, 10);
      g.fillStyle = css("--soft");
      g.textAlign = "left";
      g.fillText(model.noneName, at.left + w + 40, top);
    }
  }

  say(intro = "") {
    this.readout.textContent = intro + this.model.say(this.row, this.column);
  }

  // go moves the cursor to a cell and the view with it.
  go(row, column) {
    this.row = Math.max(0, Math.min(this.model.rows - 1, row));
    this.column = Math.max(0, Math.min(this.model.columns - 1, column));
    const view = this.view;
    view.x = Math.max(Math.min(view.x, this.column), this.column + 1 - view.w);
    view.y = Math.max(Math.min(view.y, this.row), this.row + 1 - view.h);
    this.draw();
    this.say();
  }

  key(event) {
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] };
    const zooms = { "+": "in", "=": "in", "-": "out", "0": "all", Home: "all" };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.go(this.row + moves[event.key][0], this.column + moves[event.key][1]);
    else if (event.key in zooms) this.act(zooms[event.key]);
    else return;
    event.preventDefault();
  }

  // act zooms around the cursor.
  act(what) {
    if (what === "all") this.zoom(Infinity, 0.5, 0.5);
    else this.zoom(what === "in" ? 0.5 : 2, (this.column + 0.5 - this.view.x) / this.view.w, (this.row + 0.5 - this.view.y) / this.view.h);
    const { x, y, w, h } = this.view;
    const shown = (from, length) => `${Math.floor(from) + 1} to ${Math.ceil(from + length)}`;
    this.readout.textContent = `rows ${shown(y, h)} of ${this.model.rows}, columns ${shown(x, w)} of ${this.model.columns}; ${this.model.say(this.row, this.column)}`;
  }

  // zoom scales the view and keeps the point at (x, y), shares of it, in place.
  zoom(factor, x, y) {
    const { rows, columns } = this.model, view = this.view;
    x = Math.max(0, Math.min(1, x));
    y = Math.max(0, Math.min(1, y));
    const w = Math.max(Math.min(columns, 4), Math.min(columns, view.w * factor));
    const h = Math.max(Math.min(rows, 4), Math.min(rows, view.h * factor));
    this.move(view.x + (view.w - w) * x, view.y + (view.h - h) * y, w, h);
  }

  move(x, y, w = this.view.w, h = this.view.h) {
    const { rows, columns } = this.model;
    this.view = { x: Math.max(0, Math.min(columns - w, x)), y: Math.max(0, Math.min(rows - h, y)), w, h };
    this.draw();
  }

  // cellAt is the cell below the pointer, or null.
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect(), { at, view } = this;
    const x = (event.clientX - box.left - at.left) / at.w, y = (event.clientY - box.top - at.top) / at.h;
    if (x < 0 || y < 0 || x >= 1 || y >= 1) return null;
    return { x, y, row: Math.floor(view.y + y * view.h), column: Math.floor(view.x + x * view.w) };
  }

  listenToPointer() {
    let drag = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, view: this.view, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const cell = this.cellAt(event);
      if (drag) {
        const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
        drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
        if (drag.moved) this.move(drag.view.x - dx / this.at.w * drag.view.w, drag.view.y - dy / this.at.h * drag.view.h);
      } else if (cell) {
        this.readout.textContent = this.model.say(cell.row, cell.column);
      }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const cell = this.cellAt(event);
      if (drag && !drag.moved && cell) this.go(cell.row, cell.column);
      drag = null;
    });
    this.canvas.addEventListener("pointercancel", () => { drag = null; });
    this.canvas.addEventListener("pointerleave", () => { if (!drag) this.say(); });
    this.canvas.addEventListener("wheel", (event) => {
      const cell = this.cellAt(event);
      if (!cell || document.activeElement !== this.box) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, cell.x, cell.y);
    }, { passive: false });
  }

  redraw(printing) {
    this.printing = printing;
    this.paint();
    this.draw();
  }
}

// axis is what the groups of an axis hold.
function axis({ first, ranks, group }) {
  return {
    groups: Math.ceil(ranks / group),
    tick: (i) => String(first + i * group),
    span: (i) => span(first + i * group, Math.min(first + (i + 1) * group, first + ranks) - 1),
  };
}

// logarithmic is a share between 0 and 1 of v between low and high.
function logarithmic(low, high) {
  if (!(high > low)) return () => 1;
  const scale = Math.log(high / low);
  return (v) => Math.max(0, Math.min(1, Math.log(Math.max(v, low) / low) / scale));
}

function matrixModel(data, metric) {
  const from = axis(data.from), to = axis(data.to), bits = unpack(data.cells, Uint8Array);
  const size = new Float32Array(from.groups * to.groups), number = new Float32Array(size.length);
  const bytesOf = unpack(data.bytes, Float32Array), messagesOf = unpack(data.messages, Float32Array);
  const cells = [];
  for (let cell = 0; cell < size.length; cell++) {
    if (!(bits[cell >> 3] >> (cell & 7) & 1)) continue;
    size[cell] = bytesOf[cells.length];
    number[cell] = messagesOf[cells.length];
    cells.push(cell);
  }
  const [values, format] = metric === "messages" ? [number, count] : [size, bytes];
  let low = Infinity, high = 0, peak = cells[0];
  for (const cell of cells) {
    const v = values[cell];
    if (v > 0 && v < low) low = v;
    if (v > high) {
      high = v;
      peak = cell;
    }
  }
  const scale = logarithmic(low, high);
  return {
    rows: from.groups, columns: to.groups, square: true, cellMax: 64,
    share: (cell) => values[cell] > 0 ? scale(values[cell]) : null,
    value: (cell) => format(values[cell]),
    say: (r, c) => {
      const cell = r * to.groups + c;
      const what = number[cell] > 0 ? `${bytes(size[cell])} in ${count(number[cell])} messages` : "no messages";
      return `${from.span(r)} to ${to.span(c)}: ${what}`;
    },
    rowTick: from.tick, columnTick: to.tick, rowName: "from rank", columnName: "to rank", noneName: "none",
    legend: high > low ? [format(low), format(Math.sqrt(low * high)), format(high)] : ["", "", format(high)],
    peak: [Math.floor(peak / to.groups), peak % to.groups],
  };
}

function rasterModel(data) {
  const codes = unpack(data.lateness, Uint16Array), rows = data.first.length, columns = data.calls.length;
  const late = (code) => data.low * Math.pow(data.high / data.low, (code - 2) / 65533);
  const peak = codes.reduce((best, code, i) => code > codes[best] ? i : best, 0);
  const legend = [`≤ ${duration(data.low)}`, duration(Math.sqrt(data.low * data.high)), `${duration(data.high)} late`];
  return {
    rows, columns, square: false, cellMax: 28,
    share: (cell) => codes[cell] === 0 ? null : codes[cell] === 1 ? 0 : (codes[cell] - 2) / 65533,
    say: (r, c) => {
      const code = codes[r * columns + c], last = data.latest[c];
      let how = "not known";
      if (code === 1) how = "among the first, as far as the clocks can tell";
      if (code > 1) how = `${duration(late(code))} after the first${data.first[r] === data.last[r] ? "" : " at most"}`;
      return `operation ${count(data.calls[c])}, ${span(data.first[r], data.last[r])}: ${how}` +
        (last >= 0 ? `; the last was rank ${last}` : "; who was last is open");
    },
    rowTick: (r) => String(data.first[r]), columnTick: (c) => count(data.calls[c]),
    rowName: "rank", columnName: "operation of the communicator", noneName: "not known",
    legend: codes[peak] > 1 ? legend : ["within the error of the clocks", "", ""],
    peak: [Math.floor(peak / columns), peak % columns],
  };
}

// ---- start ----

for (const table of document.querySelectorAll("table")) new Table(table);

const data = JSON.parse(document.getElementById("data").textContent);
const maps = [];
function addMap(id, models) {
  const figure = document.getElementById(id);
  if (figure) maps.push(new HeatMap(figure, models));
}
addMap("matrix-map", (i, metric) => matrixModel(data.matrices[i], metric));
addMap("raster-map", (i) => rasterModel(data.rasters[i]));

// While a page is being printed its colours are those of paper.
function redraw(printing) {
  document.documentElement.classList.toggle("paper", printing);
  for (const map of maps) map.redraw(printing);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(false));
addEventListener("beforeprint", () => redraw(true));
addEventListener("afterprint", () => requestAnimationFrame(() => redraw(false)));

// For tests and the benchmark: when all of this was done, in ms since the page
// was asked for, and how figures are written.
window.mpitrace = { ready: performance.now(), format: { duration, bytes, count } };
})();
