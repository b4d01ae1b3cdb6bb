"use strict";
// The influence network of a report: as a matrix, as a graph or on the map, with evidence and changes over training.
(() => {
  const { element, shown, clipped, css, dark } = window.factoraxCharts;
  const SVG = "http://www.w3.org/2000/svg";
  const LISTED = 60; // edges in the list of an action or target
  const chosen = window.factoraxNetworkChoice = { network: 0, view: "", time: {} };

  function shape(tag, attributes, parent, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  const pair = (net, i, j) => i * net.targets.length + j;

  // The state of every pair after the first `count` changes: 1 present, 2 added since the start, 3 dropped; 0 is absent.
  function states(net, count) {
    const at = new Uint8Array(net.actions.length * net.targets.length), initial = new Uint8Array(at.length);
    for (const [i, j] of net.edges) { at[pair(net, i, j)] = 1; initial[pair(net, i, j)] = 1; }
    for (const event of net.events.slice(0, count)) {
      for (const [i, j] of event.came) at[pair(net, i, j)] = initial[pair(net, i, j)] ? 1 : 2;
      for (const [i, j] of event.went) at[pair(net, i, j)] = initial[pair(net, i, j)] ? 3 : 0;
    }
    return at;
  }

  function facts(net) {
    const evidence = new Map(), suspects = new Map(), strengths = new Map();
    if (net.evidence) {
      net.evidence.pairs.forEach(([i, j], k) => {
        const known = net.evidence, parts = [`effect ${shown(known.effect[k])}`];
        if (known.confidence && known.confidence[k] !== null) parts.push(`confidence ${known.confidence[k].toFixed(4)}`);
        if (known.p_value[k] !== null) parts.push(`p = ${shown(known.p_value[k])}`);
        parts.push(`${known.samples[k].toLocaleString("en-GB")} samples`);
        evidence.set(pair(net, i, j), parts.join(", "));
      });
    }
    for (const [i, j, p] of net.suspects) suspects.set(pair(net, i, j), p);
    if (net.soft) net.edges.forEach(([i, j], k) => strengths.set(pair(net, i, j), net.soft[k]));
    return { evidence, suspects, strengths };
  }

  function describe(net, known, at, i, j) {
    const k = pair(net, i, j);
    const parts = [["no edge", "edge", "edge, added in training", "no edge, dropped in training"][at[k]]];
    if (known.strengths.has(k)) parts.push(`strength ${shown(known.strengths.get(k))}`);
    if (known.evidence.has(k)) parts.push(known.evidence.get(k));
    if (known.suspects.has(k)) parts.push(`suspected by the test for missing edges (p = ${shown(known.suspects.get(k))})`);
    return parts.join("; ");
  }

  function show(root, nets) {
    root.replaceChildren();
    chosen.network = Math.min(chosen.network, nets.length - 1);
    const bar = root.appendChild(element("div", { class: "network-bar" }));
    if (nets.length > 1) {
      const select = bar.appendChild(element("label", {}, "Network ")).appendChild(element("select", { class: "network-choice" }));
      nets.forEach((net, k) => select.appendChild(element("option", { value: k }, net.name)));
      select.value = String(chosen.network);
      select.addEventListener("change", () => { chosen.network = Number(select.value); show(root, nets); });
    }
    const net = nets[chosen.network], [n, m] = net.shape;
    const sizes = `${n} actions, ${m} targets, ${net.n_edges.toLocaleString("en-GB")} edges${net.edges && net.events.length ? " at the start" : ""} (${shown(100 * net.density)} % of all pairs)`;
    root.appendChild(element("p", {}, nets.length > 1 ? sizes : `${net.name}: ${sizes}`));
    if (!net.edges) {
      root.appendChild(element("p", { class: "note" }, "The network is too large to be drawn here."));
      return;
    }
    detail(root, bar, net);
  }

  function detail(root, bar, net) {
    const known = facts(net), views = net.layout ? ["map", "matrix", "graph"] : ["matrix", "graph"];
    if (!views.includes(chosen.view)) chosen.view = views[0];
    const buttons = views.map((view) => {
      const button = bar.appendChild(element("button", { type: "button", class: `network-${view}` }, { map: "On the map", matrix: "Matrix", graph: "Graph" }[view]));
      button.addEventListener("click", () => { chosen.view = view; paint(); });
      return button;
    });
    const focus = bar.appendChild(element("label", {}, "Edges of ")).appendChild(element("select", { class: "network-focus" }));
    focus.appendChild(element("option", { value: "" }, "all"));
    for (const [kind, names] of [["action", net.actions], ["target", net.targets]]) {
      const group = focus.appendChild(element("optgroup", { label: `${kind}s` }));
      names.forEach((name, k) => group.appendChild(element("option", { value: `${kind}:${k}` }, name)));
    }
    let count = net.events.length, kept = null, hovered = null;
    if (net.events.length) {
      count = Math.min(chosen.time[net.name] ?? count, count);
      const time = root.appendChild(element("div", { class: "network-time" }));
      const label = time.appendChild(element("label", { for: "network-slider" }, "Training "));
      const slider = time.appendChild(element("input", { type: "range", id: "network-slider", min: 0, max: net.events.length, step: 1, value: count }));
      const said = time.appendChild(element("output", { class: "network-when", for: "network-slider" }));
      const tell = () => {
        const at = states(net, count), there = at.filter((s) => s === 1 || s === 2).length;
        const came = at.filter((s) => s === 2).length, went = at.filter((s) => s === 3).length;
        const step = count ? `step ${net.events[count - 1].step.toLocaleString("en-GB")}` : "at the start";
        said.textContent = `${step}: ${there} edges, ${came} added and ${went} dropped since the start`;
        slider.setAttribute("aria-valuetext", said.textContent);
      };
      slider.addEventListener("input", () => {
        count = Number(slider.value);
        if (count === net.events.length) delete chosen.time[net.name]; else chosen.time[net.name] = count;
        tell(); paint();
      });
      label.append("");
      tell();
    }
    const keys = root.appendChild(element("ul", { class: "network-key" }));
    const marks = [["present", "edge"]];
    if (net.events.length) marks.push(["came", "added in training"], ["went", "dropped in training"]);
    if (net.suspects.length) marks.push(["suspect", "suspected to be missing"]);
    for (const [mark, text] of marks) {
      const item = keys.appendChild(element("li"));
      item.appendChild(element("span", { class: `key-mark key-${mark}` }));
      item.append(text);
    }
    const body = root.appendChild(element("div", { class: "network-body" }));
    const view = body.appendChild(element("div", { class: "network-view", tabindex: 0, role: "region", "aria-label": `Drawing of ${net.name}` }));
    const info = body.appendChild(element("div", { class: "network-info", tabindex: 0, role: "region", "aria-label": "What is selected" }));

    const touches = (at, k) => at[k] > 0 || known.suspects.has(k);

    const about = () => `Evidence: ${net.evidence.method}; ${net.evidence.unit ? `effect: ${net.evidence.unit}.` : ""}`;

    // Every edge of an action or a target, as a list.
    function list(what, at) {
      info.replaceChildren();
      if (!what) {
        const text = net.evidence ? `${about()} ` : "";
        info.appendChild(element("p", {}, `${text}Choose an action or a target above, or move over the drawing.`));
        if (net.suspects.length) {
          info.appendChild(element("p", {}, `${net.suspects.length} edges are suspected to be missing:`));
          const items = info.appendChild(element("ul", { class: "network-suspects" }));
          for (const [i, j, p] of net.suspects.slice(0, LISTED)) {
            items.appendChild(element("li", {}, `${net.actions[i]} → ${net.targets[j]} (p = ${shown(p)})`));
          }
        }
        return;
      }
      if (what.i !== null && what.j !== null) {
        info.appendChild(element("p", {}, "")).append(element("strong", {}, `${net.actions[what.i]} → ${net.targets[what.j]}`));
        info.appendChild(element("p", {}, describe(net, known, at, what.i, what.j)));
        if (net.evidence) info.appendChild(element("p", { class: "quiet" }, about()));
        return;
      }
      const isAction = what.i !== null, name = isAction ? net.actions[what.i] : net.targets[what.j];
      const others = isAction ? net.targets : net.actions, lines = [];
      others.forEach((other, k) => {
        const [i, j] = isAction ? [what.i, k] : [k, what.j], state = at[pair(net, i, j)];
        if (!touches(at, pair(net, i, j))) return;
        const text = `${isAction ? "→" : "←"} ${other}: ${describe(net, known, at, i, j)}`;
        lines.push({ text, present: state === 1 || state === 2 });
      });
      const present = lines.filter((line) => line.present).length;
      info.appendChild(element("p", {}, "")).append(element("strong", {}, name), ` ${isAction ? "influences" : "is influenced by"} ${present} of ${others.length}`);
      const items = info.appendChild(element("ul"));
      lines.sort((a, b) => b.present - a.present);
      lines.slice(0, LISTED).forEach((line) => items.appendChild(element("li", {}, line.text)));
      if (net.evidence) info.appendChild(element("p", { class: "quiet" }, about()));
      if (lines.length > LISTED) info.appendChild(element("p", {}, `and ${lines.length - LISTED} more`));
    }

    let highlight = () => {};
    function select(what, keep) {
      hovered = what;
      if (keep) kept = what;
      const now = hovered || kept;
      list(now, states(net, count));
      highlight(now);
      focus.value = now && (now.i === null || now.j === null) ? (now.i !== null ? `action:${now.i}` : `target:${now.j}`) : "";
    }
    focus.addEventListener("change", () => {
      const [kind, k] = focus.value.split(":");
      select(kind ? { i: kind === "action" ? Number(k) : null, j: kind === "target" ? Number(k) : null } : null, true);
    });

    function paint() {
      buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(views[k] === chosen.view)));
      const at = states(net, count);
      view.replaceChildren();
      const drawing = { matrix, graph, map }[chosen.view];
      highlight = drawing(view, net, known, at, select);
      list(kept, at);
      highlight(kept);
    }
    let wide = 0;
    new ResizeObserver(() => {
      if (!view.isConnected || Math.abs(view.clientWidth - wide) < 2) return;
      wide = view.clientWidth;
      paint();
    }).observe(view);
    dark.addEventListener("change", () => { if (view.isConnected) paint(); });
    wide = view.clientWidth;
    paint();
  }

  function matrix(view, net, known, at, select) {
    const [n, m] = net.shape, longest = Math.max(...net.actions.map((name) => name.length));
    const left = Math.min(110, 10 + 7 * Math.min(14, longest)), top = 76, room = Math.max(120, view.clientWidth - 16 - left);
    const cell = Math.max(3, Math.min(26, Math.floor(room / m)));
    const width = left + cell * m + 4, height = top + cell * n + 4, ratio = window.devicePixelRatio || 1;
    const canvas = view.appendChild(element("canvas", { role: "img", class: "network-canvas", "aria-label": `Matrix of ${n} actions and ${m} targets` }));
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    const ink = { 1: css("--present"), 2: css("--came"), 3: css("--went") };
    function redraw(what) {
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = "12px system-ui, sans-serif";
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < m; j++) {
          const k = pair(net, i, j), x = left + j * cell, y = top + i * cell, gap = cell > 5 ? 1 : 0;
          const lit = !what || (what.i === null || what.i === i) && (what.j === null || what.j === j);
          const near = what && (what.i === i || what.j === j);
          pen.globalAlpha = lit ? 1 : near ? 0.75 : 0.35;
          if (at[k] === 1 || at[k] === 2) {
            pen.globalAlpha *= known.strengths.has(k) ? 0.25 + 0.75 * known.strengths.get(k) : 1;
            pen.fillStyle = ink[at[k]];
            pen.fillRect(x, y, cell - gap, cell - gap);
          } else {
            pen.fillStyle = css("--absent");
            pen.fillRect(x, y, cell - gap, cell - gap);
            if (at[k] === 3) { pen.strokeStyle = ink[3]; pen.lineWidth = 2; pen.strokeRect(x + 1.5, y + 1.5, cell - 4, cell - 4); }
          }
          if (known.suspects.has(k)) {
            pen.strokeStyle = css("--suspect"); pen.lineWidth = 2; pen.setLineDash([2, 2]);
            pen.strokeRect(x + 1, y + 1, cell - 3, cell - 3); pen.setLineDash([]);
          }
        }
      }
      pen.fillStyle = css("--text");
      const rows = Math.max(1, Math.ceil(13 / cell)), columns = Math.max(1, Math.ceil(14 / cell));
      for (let i = 0; i < n; i++) {
        if (i % rows && !(what && what.i === i)) continue;
        pen.globalAlpha = !what || what.i === null || what.i === i ? 1 : 0.35;
        pen.textAlign = "right"; pen.textBaseline = "middle";
        pen.fillText(clipped(net.actions[i], 14), left - 5, top + (i + 0.5) * cell, left - 6);
      }
      for (let j = 0; j < m; j++) {
        if (j % columns && !(what && what.j === j)) continue;
        pen.globalAlpha = !what || what.j === null || what.j === j ? 1 : 0.35;
        pen.save(); pen.translate(left + (j + 0.5) * cell, top - 5); pen.rotate(-Math.PI / 2);
        pen.textAlign = "left"; pen.textBaseline = "middle";
        pen.fillText(clipped(net.targets[j], 12), 0, 0, top - 8);
        pen.restore();
      }
      pen.globalAlpha = 1;
    }
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / cell), i = Math.floor((event.clientY - box.top - top) / cell);
      const row = i >= 0 && i < n ? i : null, column = j >= 0 && j < m ? j : null;
      return row === null && column === null ? null : { i: row, j: column };
    };
    canvas.addEventListener("mousemove", (event) => select(place(event), false));
    canvas.addEventListener("mouseleave", () => select(null, false));
    canvas.addEventListener("click", (event) => select(place(event), true));
    return redraw;
  }

  function nodes(svg, net, select) {
    return (mark, what) => {
      mark.addEventListener("mouseenter", () => select(what, false));
      mark.addEventListener("mouseleave", () => select(null, false));
      mark.addEventListener("click", () => select(what, true));
      mark.style.cursor = "pointer";
      return mark;
    };
  }

  function graph(view, net, known, at, select) {
    const [n, m] = net.shape, tall = Math.max(n, m), row = tall > 80 ? 9 : 22, width = 560, height = row * tall + 16;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "network-svg", "aria-label": `Graph of ${n} actions and ${m} targets` }, view);
    const place = (k, size) => 8 + (k + 0.5) * (height - 16) / size, live = nodes(svg, net, select), edges = [];
    const ink = { 1: "--present", 2: "--came", 3: "--went" };
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < m; j++) {
        const k = pair(net, i, j);
        if (!at[k] && !known.suspects.has(k)) continue;
        const line = shape("line", { x1: 170, y1: place(i, n), x2: 390, y2: place(j, m) }, svg);
        line.style.stroke = css(at[k] ? ink[at[k]] : "--suspect");
        line.style.strokeDasharray = at[k] === 3 || !at[k] ? "4 3" : "none";
        line.style.strokeWidth = String(0.6 + 1.2 * (known.strengths.get(k) ?? 1));
        edges.push({ line, i, j });
      }
    }
    const marks = [];
    for (const [kind, names, x, anchor, at_x] of [["i", net.actions, 170, "end", 160], ["j", net.targets, 390, "start", 400]]) {
      names.forEach((name, k) => {
        const what = { i: kind === "i" ? k : null, j: kind === "j" ? k : null }, y = place(k, names.length);
        const group = live(shape("g", { class: `node-${kind}` }, svg), what);
        shape("title", {}, group, name);
        shape("rect", { x: kind === "i" ? 0 : x - 8, y: y - row / 2, width: 178, height: row, fill: "transparent" }, group);
        const dot = shape("circle", { cx: x, cy: y, r: row > 10 ? 5 : 3.5 }, group);
        dot.style.fill = css("--text");
        if (row > 10) {
          const text = shape("text", { x: at_x, y: y + 4, "text-anchor": anchor, "font-size": 12 }, group, clipped(name, 22));
          text.style.fill = css("--text");
        }
        marks.push({ group, what });
      });
    }
    return (what) => {
      const lit = (i, j) => !what || (what.i === null || what.i === i) && (what.j === null || what.j === j);
      for (const { line, i, j } of edges) line.style.opacity = lit(i, j) ? (what ? "1" : "0.55") : "0.06";
      const linked = new Set(what ? edges.filter(({ i, j }) => lit(i, j)).flatMap(({ i, j }) => [`i${i}`, `j${j}`]) : []);
      for (const { group, what: own } of marks) {
        const key = own.i !== null ? `i${own.i}` : `j${own.j}`;
        group.style.opacity = !what || linked.has(key) || (own.i === what.i && own.j === what.j) ? "1" : "0.25";
      }
    };
  }

  // Actions and targets where their family puts them: targets that an action influences, or actions that influence a target.
  function map(view, net, known, at, select) {
    const points = [...net.layout.actions, ...net.layout.targets.flat()], edge = 45;
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const box = [Math.min(...xs) - edge, Math.min(...ys) - edge];
    const size = [Math.max(...xs) + edge - box[0], Math.max(...ys) + edge - box[1]];
    const svg = shape("svg", { viewBox: [...box, ...size].join(" "), role: "img", class: "network-svg network-onmap", "aria-label": "Actions and targets on the map" }, view);
    const live = nodes(svg, net, select), scale = Math.max(...size) / 560;
    const lines = net.layout.targets.map(([from, to], j) => {
      const group = live(shape("g", { class: "node-j" }, svg), { i: null, j });
      const line = shape("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], "stroke-width": 6 * scale }, group);
      const wide = shape("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], "stroke-width": 14 * scale, stroke: "transparent" }, group);
      shape("title", {}, wide, net.targets[j]);
      return line;
    });
    const dots = net.layout.actions.map(([x, y], i) => {
      const group = live(shape("g", { class: "node-i" }, svg), { i, j: null });
      const dot = shape("circle", { cx: x, cy: y, r: 10 * scale }, group);
      shape("title", {}, dot, net.actions[i]);
      return dot;
    });
    return (what) => {
      const state = (i, j) => at[pair(net, i, j)], suspect = (i, j) => known.suspects.has(pair(net, i, j));
      const tint = (s, suspected) => (suspected ? "--suspect" : { 1: "--present", 2: "--came", 3: "--went" }[s] || "--absent");
      lines.forEach((line, j) => {
        let name = "--line";
        if (what && what.i !== null) name = tint(state(what.i, j), suspect(what.i, j));
        else if (what && what.j === j) name = "--text";
        else if (what) name = "--absent";
        line.style.stroke = css(name);
        const strength = what && what.i !== null ? known.strengths.get(pair(net, what.i, j)) : undefined;
        line.style.opacity = strength === undefined ? "1" : String(0.3 + 0.7 * strength);
      });
      dots.forEach((dot, i) => {
        let name = "--quiet";
        if (what && what.i === i) name = "--text";
        else if (what && what.i === null && what.j !== null) name = tint(state(i, what.j), suspect(i, what.j));
        dot.style.fill = css(name);
      });
    };
  }

  window.factoraxNetworks = show;
})();
