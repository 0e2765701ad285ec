"use strict";
// Unpacks Plotly and the figures, draws them in the colours of the page's theme, draws them again
// when the theme changes, and lets the slider move what depends on the penalty.
(async function () {
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;.=>?@^_`{|}~";
  const names = ["text", "muted", "grid", "accent", "second", "band", "band2", "panel", "good", "bad"];
  const config = { responsive: true, displaylogo: false, showSendToCloud: false,
                   modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  // Base 85: five characters are four bytes; the last group may be cut short.
  function bytes(text) {
    const value = new Uint8Array(128);
    for (let i = 0; i < 85; i++) value[alphabet.charCodeAt(i)] = i;
    const missing = (5 - text.length % 5) % 5;
    const groups = (text.length + missing) / 5;
    const out = new Uint8Array(groups * 4);
    for (let g = 0, at = 0; g < groups; g++) {
      let word = 0;
      for (let j = 0; j < 5; j++, at++) {
        word = word * 85 + (at < text.length ? value[text.charCodeAt(at)] : 84);
      }
      out[4 * g] = word >>> 24; out[4 * g + 1] = word >>> 16;
      out[4 * g + 2] = word >>> 8; out[4 * g + 3] = word;
    }
    return out.subarray(0, out.length - missing);
  }

  async function unpacked(id) {
    const packed = bytes(document.getElementById(id).textContent);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  if (typeof DecompressionStream === "undefined") {
    document.getElementById("old").hidden = false;
    return;
  }
  const { figures, slider: linked } = JSON.parse(await unpacked("data"));
  const script = document.createElement("script");
  script.textContent = await unpacked("plotly");
  document.body.append(script);
  script.remove();

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(names.map((n) => ["@" + n, style.getPropertyValue("--" + n).trim()]));
  }

  function themed(value, palette) {
    if (typeof value === "string") return palette[value] || value;
    if (Array.isArray(value)) return value.map((v) => themed(v, palette));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, palette)]));
    }
    return value;
  }

  // --- the slider: each step is whole numbers less those of the step before ----------------------

  function steps() {
    const sums = [];
    for (const row of linked.differences || []) {
      const before = sums[sums.length - 1];
      sums.push(row.map((d, i) => d + (before ? before[i] : 0)));
    }
    return sums.map((row) => row.map((k) => linked.low + k * linked.step));
  }

  const predictions = linked ? steps() : [];
  const exact = figures.actual ? figures.actual.data[0].y : [];
  const inUse = figures.groups ? figures.groups.data[0].x : [];
  const slider = document.getElementById("slider");
  let shown = linked ? linked.chosen : 0;

  function place(i) {
    const curve = figures.curve.data;
    Object.assign(curve[curve.length - 1], { x: [linked.alphas[i]], y: [linked.score[i]] });
    if (predictions.length && figures.actual) {
      const p = i === linked.chosen ? exact : predictions[i];
      figures.actual.data[0].y = p;
      figures.residuals.data[0].x = p;
      figures.residuals.data[0].y = linked.y.map((y, k) => y - p[k]);
    }
    if (figures.groups && linked.groups[i].length) {
      const bars = figures.groups.data[0];
      const errors = linked.groups[i].slice(0, bars.y.length);
      bars.x = i === linked.chosen ? inUse : errors;
      // Intervals belong to the penalty in use.
      bars.error_x.visible = i === linked.chosen;
    }
    for (const table of document.querySelectorAll("table[data-moves]")) {
      const cells = linked[table.dataset.moves];
      if (!cells) continue;
      table.querySelectorAll("tbody tr").forEach((row, a) =>
        row.querySelectorAll("td").forEach((cell, b) => {
          cell.textContent = cells[i][a][b].toLocaleString("en");
        }));
    }
  }

  function move(i) {
    shown = i;
    place(i);
    draw(0, ["curve", "actual", "residuals", "groups"]);
    document.querySelector(".slider output").textContent = linked.told[i];
    document.getElementById("back").disabled = i === linked.chosen;
    slider.value = i;
    slider.setAttribute("aria-valuetext", linked.told[i]);
  }

  function draw(fixedWidth, only) {
    const palette = colours();
    for (const [name, figure] of Object.entries(figures)) {
      if (only && !only.includes(name)) continue;
      const spot = document.getElementById("fig-" + name);
      if (!spot.checkVisibility()) continue;  // in a fold; drawn when that opens
      const made = themed(figure, palette);
      if (fixedWidth) made.layout.width = spot.closest(".side") ? fixedWidth / 2 - 10 : fixedWidth;
      if (innerWidth < 560) made.layout.margin.l = 44;
      Plotly.react(spot, made.data, made.layout, config);
    }
    document.documentElement.dataset.drawn = fixedWidth ? "print" : "screen";
  }

  for (const fold of document.querySelectorAll("details.fold")) {
    const inside = [...fold.querySelectorAll(".plot")].map((spot) => spot.id.slice(4));
    fold.addEventListener("toggle", () => { if (fold.open) draw(0, inside); });
  }
  // A link to a section in a fold opens it.
  function unfold() {
    const spot = document.getElementById(location.hash.slice(1));
    const fold = spot && spot.closest("details.fold");
    if (fold) fold.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();

  if (slider) {
    slider.addEventListener("input", () => move(Number(slider.value)));
    document.getElementById("back").addEventListener("click", () => move(linked.chosen));
    document.querySelector(".slider output").textContent = linked.told[shown];
    slider.setAttribute("aria-valuetext", linked.told[shown]);
  }
  draw(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(0));
  // A sheet of paper is about 680 px wide between its margins.
  matchMedia("print").addEventListener("change", (event) => draw(event.matches ? 680 : 0));
  addEventListener("beforeprint", () => draw(680));
  addEventListener("afterprint", () => draw(0));
})();
