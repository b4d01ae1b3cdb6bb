"use strict";
// Starts a report: charts, networks, films, the download, and loading it again while training runs.
(() => {
  const { draw, element, choices } = window.factoraxCharts;
  const data = JSON.parse(document.getElementById("report-data").textContent);

  function start() {
    for (const root of document.querySelectorAll("[data-chart]")) draw(root, data.charts[root.dataset.chart]);
    const networks = document.getElementById("networks");
    if (networks) window.factoraxNetworks(networks, data.networks);
    for (const root of document.querySelectorAll("[data-film]")) window.factoraxPlayers[root.dataset.player](root, data.films[Number(root.dataset.film)]);
    document.getElementById("download").addEventListener("click", download);
    document.documentElement.dataset.ready = "yes";
  }

  function cell(value) {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (/^[=+@\t\r]/.test(text) || /^-[^\d.]/.test(text)) text = `'${text}`; // a spreadsheet would compute it
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  // One row for every point of every series: the columns of its chart's axes are filled, the others empty.
  function rows() {
    const axes = [...new Set(Object.values(data.charts).flatMap((chart) => Object.keys(chart.axes)))];
    const lines = [["section", "chart", "series", ...axes, "value", "low", "high"]];
    for (const chart of Object.values(data.charts)) {
      for (const each of chart.series) {
        each.y.forEach((value, k) => {
          const places = axes.map((axis) => (axis in each.x ? (chart.labels ? chart.labels[each.x[axis][k]] : each.x[axis][k]) : null));
          lines.push([chart.section, chart.title, each.name, ...places, value, each.low ? each.low[k] : null, each.high ? each.high[k] : null]);
        });
        (each.runs || []).forEach((run, number) => run.forEach((value, k) => {
          const places = axes.map((axis) => (axis in each.x ? each.x[axis][k] : null));
          lines.push([chart.section, chart.title, `${each.name}, run ${number + 1}`, ...places, value, null, null]);
        }));
      }
    }
    return lines;
  }

  function download() {
    const text = rows().map((line) => line.map(cell).join(",")).join("\n") + "\n";
    const link = element("a", { download: "factorax-report.csv" });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // While training runs, the file is written again and again: load it, and keep what the reader has chosen.
  function reload() {
    if (document.hidden) { document.addEventListener("visibilitychange", reload, { once: true }); return; }
    const open = [...document.querySelectorAll("details")].map((each) => each.open);
    const off = Object.entries(choices).map(([key, chosen]) => [key, { ...chosen, off: [...chosen.off] }]);
    keep({ open, height: window.scrollY, charts: off, network: window.factoraxNetworkChoice });
    history.scrollRestoration = "manual"; // the browser would scroll before the charts are drawn
    location.reload();
  }

  // Some browsers keep nothing for pages that are files.
  function keep(state) {
    try { sessionStorage.setItem(location.pathname, JSON.stringify(state)); } catch { /* starts at the top again */ }
  }

  function kept() {
    try { return JSON.parse(sessionStorage.getItem(location.pathname)); } catch { return null; }
  }

  const before = data.refresh ? kept() : null;
  for (const [key, chosen] of before?.charts ?? []) choices[key] = { ...chosen, off: new Set(chosen.off) };
  Object.assign(window.factoraxNetworkChoice, before?.network);
  start();
  if (before) {
    document.querySelectorAll("details").forEach((each, k) => { each.open = before.open[k] ?? false; });
    // Once charts have been drawn for the width that the scroll bar leaves them.
    requestAnimationFrame(() => requestAnimationFrame(() => window.scrollTo(0, before.height)));
  }
  if (data.refresh) setTimeout(reload, 1000 * data.refresh);
})();
