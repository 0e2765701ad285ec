"use strict";
// Draws the figures with the colours of the page's theme, and again when the theme changes.
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const names = ["text", "muted", "grid", "accent", "second", "band", "panel"];
  const config = { responsive: true, displaylogo: false, showSendToCloud: false,
                   modeBarButtonsToRemove: ["select2d", "lasso2d"] };

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

  function draw(fixedWidth) {
    const palette = colours();
    for (const [name, figure] of Object.entries(figures)) {
      const place = document.getElementById("fig-" + name);
      const made = themed(figure, palette);
      if (fixedWidth) made.layout.width = place.closest(".side") ? fixedWidth / 2 - 10 : fixedWidth;
      Plotly.react(place, made.data, made.layout, config);
    }
    document.documentElement.dataset.drawn = fixedWidth ? "print" : "screen";
  }

  draw(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(0));
  // A sheet of paper is about 680 px wide between its margins.
  matchMedia("print").addEventListener("change", (event) => draw(event.matches ? 680 : 0));
  addEventListener("beforeprint", () => draw(680));
  addEventListener("afterprint", () => draw(0));
})();
