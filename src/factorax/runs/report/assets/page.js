"use strict";
// Starts a report: charts, networks, films, the download, and news in a live view.
(() => {
  const { draw, element } = window.factoraxCharts;
  const PAUSE = 2000; // milliseconds between two questions for news
  let data = JSON.parse(document.getElementById("report-data").textContent);

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

  async function news() {
    const said = document.getElementById("live");
    try {
      const answer = await fetch(`update?since=${encodeURIComponent(data.version ?? "")}`, { cache: "no-store" });
      if (answer.status === 200) {
        const update = await answer.json();
        const open = [...document.querySelectorAll("details")].map((each) => each.open), height = window.scrollY;
        document.getElementById("main").innerHTML = update.sections; // escaped where it was made
        data = update.data;
        data.version = update.version;
        start();
        [...document.querySelectorAll("details")].forEach((each, k) => { each.open = open[k] ?? false; });
        window.scrollTo(0, height);
        said.textContent = `Live view: updated at ${new Date().toLocaleTimeString("en-GB")}`;
      } else if (answer.status !== 204) {
        said.textContent = `Live view: ${await answer.text()}`;
      }
    } catch {
      said.textContent = "Live view: the server has ended";
    }
    setTimeout(news, PAUSE);
  }

  start();
  if (data.live) setTimeout(news, 200);
})();
