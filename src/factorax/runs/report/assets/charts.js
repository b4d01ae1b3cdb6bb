"use strict";
// Line and bar charts of a report, drawn by uPlot: switches for series and axes, and a readout for mouse and keyboard.
(() => {
  const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6700", "#3B7EA1", "#6A4C93", "#5A5A5A"];
  const DARK = ["#56B4E9", "#F0883E", "#35C79B", "#E58AC5", "#E6B800", "#9CC9E3", "#B79CE0", "#C0C0C0"];
  const POINTS = 400; // of a common x-axis, if series have points of their own
  const READ = 8; // series in a readout
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const choices = {}; // what the reader has chosen, by the title of the chart; a page that loads itself again keeps it

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function element(tag, attributes = {}, text = "") {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== "") node.textContent = text;
    return node;
  }

  function shown(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const text = size >= 1e4 && size < 1e9 ? Math.round(value).toLocaleString("en-GB") : Number(value.toPrecision(4)).toString();
    return text.replace("-", "−");
  }

  function short(value) {
    if (value === null) return "";
    for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= limit) return shown(Number((value / limit).toPrecision(4))) + unit;
    }
    return shown(Number(value.toPrecision(6)));
  }

  function colour(index) {
    const palette = dark.matches ? DARK : LIGHT;
    if (index < palette.length) return palette[index];
    return `hsl(${(index * 137.5) % 360} 55% ${dark.matches ? 68 : 38}%)`; // the golden angle keeps neighbours apart
  }

  function faint(text, alpha) {
    const part = Math.round(alpha * 255).toString(16).padStart(2, "0");
    return text.startsWith("#") ? text + part : text.replace(")", ` / ${alpha})`);
  }

  // The values of a curve at other points, nothing beyond its ends or between points without a value.
  function at(grid, x, y) {
    if (!y) return grid.map(() => null);
    const values = [];
    let k = 0;
    for (const point of grid) {
      if (point < x[0] || point > x[x.length - 1]) { values.push(null); continue; }
      while (k < x.length - 2 && x[k + 1] < point) k++;
      const [x0, x1, y0, y1] = [x[k], x[Math.min(k + 1, x.length - 1)], y[k], y[Math.min(k + 1, x.length - 1)]];
      if (point === x0) values.push(y0);
      else if (y0 === null || y1 === null) values.push(point === x1 ? y1 : null);
      else values.push(x1 === x0 ? y1 : y0 + (y1 - y0) * (point - x0) / (x1 - x0));
    }
    return values;
  }

  function same(a, b) {
    return a === b || (a.length === b.length && a.every((value, i) => value === b[i]));
  }

  function commonGrid(series, axis) {
    const first = series[0].x[axis];
    if (series.every((each) => same(each.x[axis], first))) return first;
    const points = new Set(series.flatMap((each) => each.x[axis]));
    if (points.size <= POINTS) return [...points].sort((a, b) => a - b);
    const low = Math.min(...series.map((each) => each.x[axis][0]));
    const high = Math.max(...series.map((each) => each.x[axis][each.x[axis].length - 1]));
    return Array.from({ length: POINTS }, (_, i) => low + (high - low) * i / (POINTS - 1));
  }

  // Many series of an episode: a row for each, dark for large values; lines would hide each other.
  function heat(root, chart) {
    for (const old of root.querySelectorAll(":scope > :not(.chart-title)")) old.remove();
    const axis = Object.keys(chart.axes)[0], steps = chart.series[0].x[axis], rows = chart.series.length;
    const stage = root.appendChild(element("div", {
      class: "chart-stage chart-heat", tabindex: 0, role: "img",
      "aria-label": `Heat map: ${chart.title}, ${rows} rows. Arrow keys read values.`,
    }));
    const canvas = stage.appendChild(element("canvas"));
    const readout = root.appendChild(element("div", { class: "chart-readout", "aria-live": "polite" }));
    table(root, chart, { axis });
    const values = chart.series.flatMap((each) => each.y).filter((value) => value !== null);
    const ends = (some) => [some.reduce((a, b) => Math.min(a, b), Infinity), some.reduce((a, b) => Math.max(a, b), -Infinity)];
    const [low, high] = ends(values);
    const left = 120, cell = Math.max(9, Math.min(20, Math.floor(420 / rows)));
    let place = [0, 0];
    const wide = () => (stage.clientWidth - left - 4) / steps.length;

    function paint() {
      const ratio = window.devicePixelRatio || 1, height = cell * rows + 24;
      canvas.width = Math.round(stage.clientWidth * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.width = "100%"; canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
      chart.series.forEach((each, i) => {
        pen.globalAlpha = 1; pen.fillStyle = css("--text"); pen.textAlign = "right";
        const [least, most] = chart.by_row ? ends(each.y.filter((value) => value !== null)) : [low, high];
        if (i % Math.ceil(12 / cell) === 0) pen.fillText(clipped(each.name, 17), left - 6, (i + 0.5) * cell, left - 8);
        each.y.forEach((value, k) => {
          if (value === null) return;
          pen.fillStyle = css("--absent"); pen.globalAlpha = 1;
          pen.fillRect(left + k * wide(), i * cell, wide() - (wide() > 4 ? 1 : 0), cell - 1);
          pen.globalAlpha = most > least ? (value - least) / (most - least) : 0.5; pen.fillStyle = css("--present");
          pen.fillRect(left + k * wide(), i * cell, wide() - (wide() > 4 ? 1 : 0), cell - 1);
        });
      });
      pen.globalAlpha = 1; pen.fillStyle = css("--quiet"); pen.textAlign = "left";
      const scale = chart.by_row ? "every row from its smallest value (light) to its largest (dark)" : `from ${shown(low)} (light) to ${shown(high)} (dark)`;
      pen.fillText(`${chart.axes[axis]} ${steps[0]} to ${steps[steps.length - 1]}; ${scale}`, left, cell * rows + 14, stage.clientWidth - left);
      stage.dataset.points = String(values.length);
    }

    function read() {
      const [i, k] = place, each = chart.series[i];
      readout.replaceChildren(element("strong", {}, `${axis} ${shown(steps[k])}: `), `${each.name} ${shown(each.y[k])}`);
    }
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      place = [Math.floor((event.clientY - box.top) / cell), Math.floor((event.clientX - box.left - left) / wide())]
        .map((value, which) => Math.min((which ? steps.length : rows) - 1, Math.max(0, value)));
      read();
    });
    stage.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!move) return;
      event.preventDefault();
      place = place.map((value, which) => Math.min((which ? steps.length : rows) - 1, Math.max(0, value + move[which])));
      read();
    });
    let width = stage.clientWidth;
    new ResizeObserver(() => {
      if (!stage.isConnected || Math.abs(stage.clientWidth - width) < 2) return;
      width = stage.clientWidth;
      paint();
    }).observe(stage);
    dark.addEventListener("change", () => { if (stage.isConnected) paint(); });
    paint();
    read();
  }

  function draw(root, chart) {
    if (chart.heat) { heat(root, chart); return; }
    const key = [chart.section, chart.title, ...Object.keys(chart.axes)].join("/");
    const chosen = choices[key] ||= { axis: Object.keys(chart.axes)[0], off: new Set(), single: false };
    const axes = Object.keys(chart.axes);
    for (const old of root.querySelectorAll(":scope > :not(.chart-title)")) old.remove();
    if (axes.length > 1) {
      const set = root.appendChild(element("fieldset", { class: "chart-axes" }));
      set.appendChild(element("legend", {}, "x-axis"));
      for (const axis of axes) {
        const label = set.appendChild(element("label"));
        const radio = label.appendChild(element("input", { type: "radio", name: `axis-${root.dataset.chart}`, value: axis }));
        radio.checked = axis === chosen.axis;
        label.append(` ${axis}`);
        radio.addEventListener("change", () => { chosen.axis = axis; plot(); });
      }
    }
    const stage = root.appendChild(element("div", {
      class: "chart-stage", tabindex: 0, role: "img",
      "aria-label": `Chart: ${chart.title}, ${chart.series.length} series. Arrow keys read values.`,
    }));
    const readout = root.appendChild(element("div", { class: "chart-readout", "aria-live": "polite" }));
    const hasRuns = chart.series.some((each) => each.runs && each.runs.length);
    if (chart.series.length > 1 || hasRuns) switches(root, chart, chosen, () => plot());
    table(root, chart, chosen);
    let drawn = null;

    function plot() {
      if (drawn) drawn.destroy();
      const axis = chosen.axis, grid = commonGrid(chart.series, axis), low = chart.lowest ?? null;
      const data = [grid], options = [{}], bands = [], lines = [];
      chart.series.forEach((each, index) => {
        const show = !chosen.off.has(each.name), ink = colour(index), x = each.x[axis];
        if (each.low) {
          data.push(at(grid, x, each.high), at(grid, x, each.low));
          const edge = { show, stroke: "transparent", points: { show: false }, spanGaps: true };
          options.push(edge, edge);
          bands.push({ series: [data.length - 2, data.length - 1], fill: faint(ink, 0.22), show });
        }
        if (chosen.single) {
          for (const run of each.runs || []) {
            data.push(at(grid, x, run));
            options.push({ show, stroke: faint(ink, 0.4), width: 1, points: { show: false }, spanGaps: true });
          }
        }
        const values = at(grid, x, each.y);
        data.push(values);
        const bar = chart.bars ? {
          paths: uPlot.paths.bars({ size: [0.38, 40], align: index ? 1 : -1 }), fill: faint(ink, 0.75), width: 1,
        } : { width: 2, spanGaps: true };
        const few = !chart.bars && values.filter((value) => value !== null).length < 3;
        options.push({ show, stroke: ink, points: { show: few, size: 7 }, ...(each.dashed ? { dash: [8, 5] } : {}), ...bar });
        lines.push({ name: each.name, index: data.length - 1, show, low: each.low, ink });
      });
      const axisStyle = { stroke: css("--quiet"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid") } };
      const labels = chart.labels;
      const settings = {
        width: stage.clientWidth || 320, height: Math.max(220, Math.min(360, stage.clientWidth * 0.45)),
        legend: { show: false }, bands,
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        scales: {
          x: { time: false, ...(chart.bars ? { range: [-0.6, grid.length - 0.4] } : {}) },
          y: { range: (u, least, most) => {
            if (least === null || !Number.isFinite(least)) return [0, 1];
            const bottom = low === null ? least : Math.max(least, low), edge = (most - bottom) * 0.06 || Math.abs(most) * 0.1 || 1;
            return [chart.bars && bottom >= 0 ? 0 : bottom - edge, most + edge];
          } },
        },
        axes: [
          { ...axisStyle, label: chart.axes[axis], labelSize: 22, size: 38, ...(labels ? {
            splits: (u) => labels.map((_, i) => i).filter((i) => i % Math.ceil(labels.length * 60 / u.width) === 0),
            values: (u, places) => places.map((i) => clipped(labels[i] ?? "", 12)),
          } : { values: (u, values) => values.map(short) }) },
          { ...axisStyle, label: chart.y, labelSize: 20, size: 58, values: (u, values) => values.map(short) },
        ],
        series: options,
        hooks: { setCursor: [(u) => read(u, grid, data, lines)] },
      };
      drawn = new uPlot(settings, data, stage);
      stage.dataset.points = String(data.slice(1).reduce((sum, column) => sum + column.filter((v) => v !== null).length, 0));
      read(drawn, grid, data, lines);
    }

    // The values under the cursor, or the last ones.
    function read(u, grid, data, lines) {
      const k = u.cursor.idx ?? grid.length - 1;
      const where = chart.labels ? chart.labels[grid[k]] : `${chosen.axis === "x" ? chart.axes.x : chosen.axis} ${shown(grid[k])}`;
      const visible = lines.filter((line) => line.show && data[line.index][k] !== null);
      const height = u.cursor.top >= 0 && u.cursor.idx !== null ? u.posToVal(u.cursor.top, "y") : null;
      if (height !== null) {
        visible.sort((a, b) => Math.abs(data[a.index][k] - height) - Math.abs(data[b.index][k] - height));
      }
      readout.replaceChildren(element("strong", {}, `${where}: `));
      visible.slice(0, READ).forEach((line, i) => {
        readout.append(i ? "; " : "");
        const swatch = readout.appendChild(element("span", { class: "swatch" }));
        swatch.style.background = line.ink;
        const band = line.low ? ` [${shown(data[line.index - 1 - extra(line)][k])}, ${shown(data[line.index - 2 - extra(line)][k])}]` : "";
        readout.append(`${line.name} ${shown(data[line.index][k])}${band}`);
      });
      if (visible.length > READ) readout.append(`; and ${visible.length - READ} more`);
      if (!visible.length) readout.append("no values");
    }

    // Columns of single runs stand between a line and its band.
    function extra(line) {
      const each = chart.series.find((one) => one.name === line.name);
      return chosen.single && each.runs ? each.runs.length : 0;
    }

    stage.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !drawn) return;
      event.preventDefault();
      const grid = drawn.data[0], now = drawn.cursor.idx ?? (step > 0 ? -1 : grid.length);
      const next = Math.min(grid.length - 1, Math.max(0, now + step * (event.shiftKey ? 10 : 1)));
      drawn.setCursor({ left: drawn.valToPos(grid[next], "x"), top: -1 });
    });
    let width = 0;
    new ResizeObserver(() => {
      if (!stage.isConnected || Math.abs(stage.clientWidth - width) < 2) return;
      width = stage.clientWidth;
      plot();
    }).observe(stage);
    dark.addEventListener("change", () => { if (stage.isConnected) { draw(root, chart); } }, { once: true });
    width = stage.clientWidth;
    plot();
  }

  function switches(root, chart, chosen, changed) {
    const set = root.appendChild(element("fieldset", { class: "chart-series" }));
    set.appendChild(element("legend", {}, chart.series.length > 1 ? "Show" : "Seeds"));
    const boxes = [];
    if (chart.series.length > 4) {
      for (const [text, on] of [["All", true], ["None", false]]) {
        set.appendChild(element("button", { type: "button" }, text)).addEventListener("click", () => {
          chosen.off = new Set(on ? [] : chart.series.map((each) => each.name));
          boxes.forEach((box) => { box.checked = on; });
          changed();
        });
      }
    }
    if (chart.series.some((each) => each.runs && each.runs.length)) {
      const label = set.appendChild(element("label"));
      const box = label.appendChild(element("input", { type: "checkbox", class: "chart-single" }));
      box.checked = chosen.single;
      label.append(" single seeds");
      box.addEventListener("change", () => { chosen.single = box.checked; changed(); });
    }
    if (chart.series.length < 2) return;
    const list = set.appendChild(element("ul", chart.series.length > 12 ? { tabindex: 0, "aria-label": "series" } : {}));
    chart.series.forEach((each, index) => {
      const label = list.appendChild(element("li")).appendChild(element("label"));
      const box = label.appendChild(element("input", { type: "checkbox" }));
      box.checked = !chosen.off.has(each.name);
      label.appendChild(element("span", { class: "swatch" })).style.background = colour(index);
      label.append(each.name);
      boxes.push(box);
      box.addEventListener("change", () => { chosen.off[box.checked ? "delete" : "add"](each.name); changed(); });
    });
  }

  // The same numbers for those who do not see the chart; written when it is opened.
  function table(root, chart, chosen) {
    const details = root.appendChild(element("details"));
    details.appendChild(element("summary", {}, "Values as a table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const box = details.appendChild(element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": `Values of ${chart.title}` }));
      const node = box.appendChild(element("table", { class: "numbers" }));
      const axis = chosen.axis, grid = commonGrid(chart.series, axis), some = chart.series.slice(0, 30);
      const every = chart.labels ? 1 : Math.max(1, Math.ceil(grid.length / 25));
      const head = node.appendChild(element("thead")).appendChild(element("tr"));
      head.appendChild(element("th", { scope: "col" }, chart.axes[axis]));
      for (const each of some) head.appendChild(element("th", { scope: "col" }, each.name));
      const columns = some.map((each) => at(grid, each.x[axis], each.y)), body = node.appendChild(element("tbody"));
      for (let k = grid.length - 1; k >= 0; k -= every) {
        const row = element("tr");
        row.appendChild(element("th", { scope: "row" }, chart.labels ? chart.labels[grid[k]] : shown(grid[k])));
        for (const column of columns) row.appendChild(element("td", {}, shown(column[k])));
        body.prepend(row);
      }
    });
  }

  const clipped = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  window.factoraxCharts = { choices, draw, element, shown, clipped, css, dark };
})();
