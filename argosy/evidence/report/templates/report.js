"use strict";
// Sorting, filtering and hovering. Everything can be read without it.
for (const box of document.querySelectorAll(".data")) {
  const table = box.querySelector("table"), body = table.tBodies[0], rows = [...body.rows];
  const search = box.querySelector("input[type=search]"), groups = box.querySelector("select");
  const finals = box.querySelector("input[type=checkbox]");
  const show = () => {
    for (const row of rows) {
      row.hidden = !row.dataset.label.includes(search.value.toLowerCase()) ||
        (groups && groups.value !== "*" && row.dataset.group !== groups.value) || (finals.checked && !row.dataset.final);
    }
  };
  box.querySelector(".controls").hidden = false;
  for (const control of [search, groups, finals]) if (control) control.addEventListener("input", show);
  show();
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const key = row => row.cells[column].dataset.v ?? (column ? "" : row.dataset.order);
    const sort = () => {
      const down = head.getAttribute("aria-sort") === (column ? "descending" : "ascending") ? 1 : -1;
      const sign = column ? down : -down;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const empty = row => key(row) === "";
      body.append(...rows.sort((a, b) => empty(a) - empty(b) || sign * (key(a) - key(b))));
    };
    head.querySelector("button").addEventListener("click", sort);
  });
}
for (const figure of document.querySelectorAll("figure[data-series]")) {
  const svg = figure.querySelector("svg"), tip = figure.querySelector(".tip"), cursor = svg.querySelector(".cursor");
  const series = JSON.parse(figure.dataset.series);
  const move = event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    let near = null;
    for (const s of series) for (const p of s.p) if (!near || Math.abs(p[0] - x) < Math.abs(near[0] - x)) near = p;
    if (!near) return;
    cursor.setAttribute("x1", near[0]); cursor.setAttribute("x2", near[0]); cursor.style.opacity = 1;
    tip.replaceChildren(Object.assign(document.createElement("b"), {textContent: near[2]}));
    for (const s of series) {
      const at = s.p.reduce((a, b) => Math.abs(b[0] - near[0]) < Math.abs(a[0] - near[0]) ? b : a);
      if (Math.abs(at[0] - near[0]) > 12) continue;
      const line = document.createElement("span"), dot = document.createElement("i");
      dot.className = "c" + s.c;
      line.append(dot, s.n + " ", Object.assign(document.createElement("em"), {textContent: at[3]}));
      tip.append(line);
    }
    tip.hidden = false;
    const left = near[0] / svg.viewBox.baseVal.width * box.width;
    tip.style.left = Math.max(0, Math.min(box.width - tip.offsetWidth, left + (left > box.width / 2 ? -tip.offsetWidth - 12 : 12))) + "px";
  };
  const leave = () => { tip.hidden = true; cursor.style.opacity = 0; };
  svg.addEventListener("pointermove", move); svg.addEventListener("pointerdown", move);
  svg.addEventListener("pointerleave", leave);
}
