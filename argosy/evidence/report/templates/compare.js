"use strict";
// Sorting, filtering, hovering, and the two parts that are built when they are looked at. The numbers are in the page.
const data = JSON.parse(document.getElementById("data").textContent);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
};
const letter = n => n < 26 ? String.fromCharCode(65 + n) : String(n + 1);
const chip = n => make("i", {class: `chip e${n % 8}`}, letter(n));
const words = text => text.toLowerCase().split(/\s+/).filter(Boolean);
const matches = (text, wanted) => wanted.every(word => text.includes(word));
for (const controls of document.querySelectorAll(".controls")) controls.hidden = false;

{ // every metric
  const table = document.getElementById("table"), find = document.getElementById("find");
  const verdicts = document.getElementById("verdicts"), shown = document.getElementById("shown");
  const bodies = [...table.tBodies], home = bodies.map(body => [...body.rows]);
  const rows = home.flat().filter(row => row.dataset.name);
  const wanted = row => {
    const has = row.dataset.verdicts.split(" ");
    if (verdicts.value === "beyond") return has.some(v => ["better", "worse", "changed"].includes(v));
    return !verdicts.value || has.includes(verdicts.value);
  };
  const show = () => {
    const asked = words(find.value);
    for (const row of rows) row.hidden = !(matches(row.dataset.name, asked) && wanted(row));
    bodies.forEach((body, n) => { home[n][0].hidden = home[n].slice(1).every(row => row.hidden); });
    shown.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} metrics`;
  };
  find.addEventListener("input", show);
  verdicts.addEventListener("input", show);
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    table.classList.toggle("sorted", column > 0);
    if (!column) { bodies.forEach((body, n) => body.append(...home[n])); return; }
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.v === undefined ? null : Number(row.cells[column].dataset.v);
    const sorted = [...rows].sort((a, b) => {
      if (key(a) === null || key(b) === null) return (key(a) === null) - (key(b) === null);
      return (down ? -1 : 1) * (key(a) - key(b));
    });
    bodies[0].append(...sorted);
  }));
  for (const row of rows) { // its family, for when the groups are gone
    const head = row.closest("tbody").rows[0].textContent.trim();
    row.cells[0].prepend(make("small", {class: "fam"}, `${head} `));
  }
  show();
}

{ // curves
  const find = document.getElementById("findcurve");
  find?.addEventListener("input", () => {
    const asked = words(find.value);
    for (const group of document.querySelectorAll(".group")) {
      const figures = [...group.querySelectorAll(".curve")];
      for (const figure of figures) figure.hidden = !matches(figure.dataset.name, asked);
      group.hidden = figures.every(figure => figure.hidden);
    }
  });
  for (const figure of document.querySelectorAll(".curve")) {
    const svg = figure.querySelector("svg"), tip = figure.querySelector(".tip"), cursor = svg.querySelector(".cursor");
    let lines = null;
    const move = event => {
      lines ??= JSON.parse(figure.dataset.lines);
      const entries = JSON.parse(figure.dataset.entries);
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale;
      const near = (line, to) => line.reduce((a, b) => Math.abs(b[0] - to) < Math.abs(a[0] - to) ? b : a);
      const at = lines.map(line => near(line, x)).reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      cursor.setAttribute("x1", at[0]); cursor.setAttribute("x2", at[0]); cursor.style.opacity = 1;
      tip.replaceChildren(make("b", {}, at[1]));
      lines.forEach((line, n) => {
        const point = near(line, at[0]);
        if (Math.abs(point[0] - at[0]) < 8) tip.append(make("span", {}, chip(entries[n]), make("em", {}, point[2])));
      });
      tip.hidden = false;
      const left = at[0] / scale;
      tip.style.left = `${Math.max(0, Math.min(box.width - tip.offsetWidth, left > box.width / 2 ? left - tip.offsetWidth - 10 : left + 10))}px`;
      tip.style.top = "24px";
    };
    const leave = () => { tip.hidden = true; cursor.style.opacity = 0; };
    svg.addEventListener("pointermove", move); svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  }
}

const whenSeen = (node, build) => {
  if (!node) return;
  const look = new IntersectionObserver(found => {
    if (found.some(each => each.isIntersecting)) { look.disconnect(); build(node); }
  }, {rootMargin: "600px"});
  look.observe(node);
  addEventListener("beforeprint", () => { look.disconnect(); if (!node.dataset.built) build(node); });
};

whenSeen(document.getElementById("drill"), drill => { // questions that differ
  drill.dataset.built = "1";
  const STEP = 12;
  const options = (pairs, all) => [make("option", {value: ""}, all), ...pairs.map(([value, text]) => make("option", {value}, text))];
  const unique = values => [...new Set(values)].sort();
  const select = (label, choices) => make("select", {"aria-label": label}, ...choices);
  const pairs = unique(data.totals.map(total => total[0]));
  const pair = select("Compared", pairs.map(n => make("option", {value: n}, `${letter(n)} ${data.labels[n]} against A`)));
  const task = select("Benchmark", options(unique(data.totals.map(t => data.groups[t[1]][0])).map(v => [v, v]), "every benchmark"));
  const form = select("Form", options(unique(data.totals.map(t => data.groups[t[1]][1])).map(v => [v, v.replaceAll("_", " ")]), "every form"));
  const way = select("Way", options([], "either way"));
  const lang = select("Language", options(unique(data.items.map(i => i.l)).map(v => [v, v || "none"]), "every language"));
  const search = make("input", {type: "search", placeholder: "Find in the text", "aria-label": "Find in the text"});
  const count = make("span", {class: "soft", "aria-live": "polite"}), list = make("div"), more = make("button", {class: "more"}, "Show more");
  let limit = STEP;
  const ways = () => {
    const kept = way.value;
    way.replaceChildren(...options([["1", `only ${letter(+pair.value)} is right`], ["0", "only A is right"]], "either way"));
    way.value = kept;
  };
  const differs = item => item.r[0] !== null && item.r[+pair.value] !== null && item.r[0] !== item.r[+pair.value];
  const text = item => [item.i, item.p ?? "", ...(item.o ?? [])].join("\n").toLowerCase();
  const chosen = () => {
    const asked = words(search.value);
    return data.items.filter(item => differs(item) &&
      (!task.value || data.groups[item.g][0] === task.value) && (!form.value || data.groups[item.g][1] === form.value) &&
      (!way.value || item.r[+pair.value] === +way.value) && (!lang.value || item.l === lang.value) &&
      (!asked.length || matches(text(item), asked)));
  };
  const total = () => data.totals.filter(t => t[0] === +pair.value && (!task.value || data.groups[t[1]][0] === task.value) &&
    (!form.value || data.groups[t[1]][1] === form.value)).reduce((sum, t) => sum + (way.value !== "0" ? t[2] : 0) + (way.value !== "1" ? t[3] : 0), 0);
  const show = () => {
    const found = chosen(), all = total(), narrowed = lang.value || search.value;
    count.textContent = `${found.length} shown here of ${all} that differ${narrowed ? " in any language or text" : ""}`;
    list.replaceChildren(...found.slice(0, limit).map(card));
    more.hidden = found.length <= limit;
    more.textContent = `Show ${Math.min(STEP, found.length - limit)} more`;
  };
  for (const control of [pair, task, form, way, lang, search]) {
    control.addEventListener("input", () => { limit = STEP; if (control === pair) ways(); show(); });
  }
  more.addEventListener("click", () => { limit += STEP; show(); });
  drill.replaceChildren(make("div", {class: "filters"}, ...[pair, task, form, way, ...(lang.options.length > 2 ? [lang] : []), search, count]), list, more);
  ways(); show();
});

function card(item) {
  const [task, form] = data.groups[item.g], who = data.labels.map((label, n) => n).filter(n => item.r[n] !== null);
  const head = make("p", {class: "hint"}, make("b", {}, task), ` ${form.replaceAll("_", " ")}, ${item.i}${item.l ? `, ${item.l}` : ""}: `,
    ...who.flatMap(n => [chip(n), make("span", {class: item.r[n] ? "ok" : "no"}, item.r[n] ? " right " : " wrong ")]));
  const prompt = item.p ? make("pre", {lang: item.l || null, dir: "auto", tabindex: "0"}, item.p) : make("p", {class: "hint"}, "The question's text is not at hand.");
  const grid = make("div", {class: "options", style: `--n:${who.length}`}, make("span"), ...who.map(n => make("small", {}, chip(n), ` ${data.labels[n]}`)));
  const texts = item.o ?? (item.s?.find(Boolean) ?? []).map((_, n) => `option ${n + 1}`);
  const gold = n => Array.isArray(item.y) ? item.y.includes(n) : item.y === n;
  texts.forEach((option, n) => {
    grid.append(make("span", {class: gold(n) ? "gold" : null, lang: item.l || null, dir: "auto"}, option + (gold(n) ? " ✓" : "")));
    for (const entry of who) {
      const share = item.s[entry]?.[n], picked = Array.isArray(item.c[entry]) ? item.c[entry].includes(n) : item.c[entry] === n;
      if (share === undefined) { grid.append(make("small", {}, "–")); continue; }
      grid.append(make("span", {class: `bar${picked ? " chosen" : ""}${gold(n) ? " right" : ""}`, title: `${share / 10} %`},
        make("i", {style: `width:${share / 10}%`}), make("em", {}, String(Math.round(share / 10)))));
    }
  });
  const written = item.t ? make("div", {class: "written"}, ...who.map(n => make("div", {}, make("p", {class: "hint"}, chip(n), ` ${data.labels[n]} wrote`, item.x[n] ? make("span", {}, ", taken as ", make("b", {}, item.x[n])) : null),
    make("pre", {lang: item.l || null, dir: "auto", tabindex: "0"}, item.t[n] || "(nothing)")))) : null;
  return make("article", {class: "card"}, head, prompt, item.t ? written : texts.length ? grid : null);
}

whenSeen(document.getElementById("overview"), place => { // every checkpoint
  place.dataset.built = "1";
  const first = n => !n || data.columns[n][0] !== data.columns[n - 1][0];
  const spans = [];
  data.columns.forEach(([entry], n) => first(n) ? spans.push([entry, 1]) : spans[spans.length - 1][1]++);
  const lines = make("tr", {}, make("th"), ...spans.map(([entry, n]) => make("th", {colspan: n, class: "line first"}, chip(entry), ` ${data.labels[entry]}`)));
  const heads = data.columns.map(([, label, at], n) => make("th", {class: first(n) ? "first" : null, title: label}, make("button", {}, at)));
  const body = make("tbody"), table = make("table", {class: "over"}, make("thead", {}, lines, make("tr", {}, make("th", {}, make("button", {}, "metric")), ...heads)), body);
  const heat = metric => {
    const values = metric.v.filter(Boolean).map(v => v[0]), low = Math.min(...values), high = Math.max(...values);
    return value => !metric.b || high === low ? 0 : (metric.b > 0 ? value - low : high - value) / (high - low);
  };
  const rows = data.metrics.map(metric => {
    const shade = heat(metric);
    const row = make("tr", {}, make("th", {scope: "row", title: metric.n}, make("small", {}, `${metric.f} `), metric.s.replaceAll("_", " "), make("small", {}, ` ${metric.u}${metric.b < 0 ? " ↓" : ""}`)));
    metric.v.forEach((value, n) => row.append(value
      ? make("td", {class: [value[2] ? "noise" : "", first(n) ? "first" : "", data.columns[n][3] ? "here" : ""].join(" ").trim() || null, style: `--s:${shade(value[0]).toFixed(2)}`}, value[1])
      : make("td", {class: first(n) ? "first" : null}, "–")));
    return {row, shades: metric.v.map(value => value ? shade(value[0]) : -1)};
  });
  body.append(...rows.map(each => each.row));
  table.tHead.rows[1].cells[0].querySelector("button").addEventListener("click", () => body.append(...rows.map(each => each.row)));
  heads.forEach((head, n) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") === "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...[...rows].sort((a, b) => (up ? 1 : -1) * (a.shades[n] - b.shades[n])).map(each => each.row));
  }));
  place.replaceChildren(make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Every checkpoint"}, table));
});
