// Jobs over time. The numbers come with the panel; the drawing lives on and is given new ones.
(() => {
  const charts = new Map(); // container -> { chart, series }
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const options = (box) => {
    const grid = { stroke: token("--s-line"), width: 1 };
    const axis = { stroke: token("--s-mute"), grid, ticks: { show: false }, font: "12px system-ui" };
    const narrow = box.clientWidth < 480;
    return {
      width: box.clientWidth, height: box.clientHeight,
      tzDate: (t) => sluice.setting("zone") === "utc" ? uPlot.tzDate(new Date(t * 1000), "UTC") : new Date(t * 1000),
      legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } }, padding: [8, 18, 0, 0],
      scales: { y: { range: (_u, _low, high) => [0, Math.max(high * 1.15, 4)] } },
      axes: [
        { ...axis, values: [[86400, "{D} {MMM}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", null, null, null, null, null, null, 1]], space: narrow ? 70 : 60, size: 28 },
        { ...axis, size: 44, values: (_u, ticks) => ticks.map((n) => Number.isInteger(n) ? n.toLocaleString("en-GB") : "") },
      ],
      series: [
        {},
        { stroke: token("--s-complete-fill"), width: 2, fill: token("--s-complete-fill") + "26", points: { show: false } },
        { stroke: token("--s-failed-fill"), fill: token("--s-failed-fill"), width: 0, paths: uPlot.paths.bars({ size: [0.7, 8] }), points: { show: false } },
      ],
    };
  };

  const seriesOf = (box) => document.getElementById(box.dataset.chart)?.dataset.series;

  const draw = (box) => {
    const series = seriesOf(box);
    if (!series || !box.clientWidth) return;
    box.replaceChildren();
    charts.get(box)?.chart.destroy();
    charts.set(box, { chart: new uPlot(options(box), JSON.parse(series), box), series });
    resized.observe(box);
  };

  const refresh = () => {
    for (const box of charts.keys()) if (!box.isConnected) { charts.get(box).chart.destroy(); charts.delete(box); }
    for (const box of document.querySelectorAll("[data-chart]")) {
      const drawn = charts.get(box), series = seriesOf(box);
      if (!drawn) draw(box);
      else if (series && series !== drawn.series) { drawn.chart.setData(JSON.parse(series)); drawn.series = series; }
    }
  };

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = charts.get(target)?.chart;
      if (chart && target.clientWidth && chart.width !== target.clientWidth) {
        chart.setSize({ width: target.clientWidth, height: target.clientHeight });
      }
    }
  });

  document.addEventListener("DOMContentLoaded", refresh);
  document.addEventListener("htmx:after:swap", refresh);
  document.addEventListener("sluice:theme", () => [...charts.keys()].forEach(draw));
})();
