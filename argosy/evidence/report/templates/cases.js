"use strict";
// The questions of the page: prompts put together, filters, a list that draws what is in sight, marks, and their suite.

// Text as it may be shown: control and direction marks as their codes.
const visible = text => text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}]/gu, c => "\n\t\u200c\u200d".includes(c) ? c :
  `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// A text in double quotes that YAML reads back as it is.
const quoted = text => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
  c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const list = texts => `[${texts.map(quoted).join(", ")}]`;

function restored(items) { // each prompt goes on from the one before
  let before = "";
  for (const item of items) if (item.p !== undefined) {
    // Python counts code points
    before = item.p = (item.k === before.length ? before : [...before].slice(0, item.k).join("")) + item.p;
  }
  return items;
}

function probe(item) { // the kind of probe that asks a question, and its line; null where there is no text to ask
  if (item.p === undefined) return null;
  const note = `  # ${quoted(item.i)}`;
  if (item.s === undefined)
    return item.b + item.w ? ["next_token", `{prefix: ${quoted(item.p)}, text: ${quoted(item.b + item.w)}}${note}`] : null;
  const right = item.o.filter((_, n) => item.y.includes(n)), wrong = item.o.filter((_, n) => !item.y.includes(n));
  if (!wrong.length || item.o.some(text => !(item.b + text))) return null;
  if (!item.q.length) {
    const [text, against] = [right, wrong].map(texts => list(texts.map(option => item.b + option)));
    return ["next_token", `{prefix: ${quoted(item.p)}, text: ${text}, against: ${against}}${note}`];
  }
  const good = item.q[item.y[0]], after = item.b + item.o[item.y[0]];
  return ["contrastive", item.q.filter((_, n) => !item.y.includes(n)).map(bad =>
    `{good: ${quoted(good)}, bad: ${quoted(bad)}, after: ${quoted(after)}}${note}`).join("\n  - ")];
}

function suite(items, groups, labels) { // YAML of a suite whose probes ask these questions
  const found = new Map();
  for (const item of items) {
    const made = probe(item);
    if (made === null) continue;
    const key = `${groups[item.g].join("_")}${made[0] === "contrastive" ? "_pairs" : ""}`;
    if (!found.has(key)) found.set(key, [made[0], []]);
    found.get(key)[1].push(made[1]);
  }
  const probes = [...found].map(([name, [kind, lines]]) => [`- name: ${quoted(name)}`, `  kind: ${kind}`,
    ...(kind === "next_token" ? ["  chat: true", "  cases:"] : ["  pairs:"]), ...lines.map(line => `  - ${line}`)].join("\n"));
  return [`# Questions that were marked in the page of: argosy cases ${labels.map(visible).join(" ")}`.replace(/\s+/g, " "),
    "# argosy evaluate CHECKPOINT --suite THIS_FILE", "probes:", ...probes, ""].join("\n");
}

function show(data) {
  const get = id => document.getElementById(id);
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
  };
  const HEIGHT = 48, TEN = 10;
  const items = restored(data.items), store = `argosy cases ${data.labels} ${items.length}`;
  const marks = new Set(), of = item => data.groups[item.g];
  try { for (const n of JSON.parse(localStorage.getItem(store) ?? "[]")) marks.add(n); } catch { /* no storage here */ }
  const points = item => `${item.d > 0 ? "+" : ""}${(item.d / 10).toFixed(item.d % 10 ? 1 : 0)}`;
  const unique = values => [...new Set(values)].sort();
  const text = item => item.text ??= [item.i, item.p ?? "", ...(item.q ?? []), ...(item.o ?? []), ...(item.t ?? [])].join("\n").toLowerCase();
  const RIGHT = {"01": "only B is right", "10": "only A is right", "11": "both are right", "00": "neither is right"};
  const select = (label, pairs) => make("select", {"aria-label": label}, make("option", {value: ""}, label),
    ...pairs.map(([value, name]) => make("option", {value}, name)));
  const every = (label, values) => select(label, unique(values).map(v => [v, v.replaceAll("_", " ") || "none"]));
  const task = every("every benchmark", items.map(item => of(item)[0])), form = every("every form", items.map(item => of(item)[1]));
  const lang = every("every language", items.map(item => item.l));
  const right = select("whoever is right", Object.entries(RIGHT));
  const way = select("either way", [["1", "towards the right answer"], ["-1", "away from it"]]);
  const order = select("largest change first", [["name", "by benchmark and name"], ["up", "towards right first"], ["down", "away first"]]);
  const controls = [task, form, ...(lang.options.length > 2 ? [lang] : []), right, way, order];
  get("filters").append(...controls);
  const find = get("find"), least = get("least"), marked = get("marked"), rows = get("rows"), pane = get("list");
  const orders = {"": (a, b) => Math.abs(b.d) - Math.abs(a.d), name: () => 0, up: (a, b) => b.d - a.d, down: (a, b) => a.d - b.d};
  items.forEach((item, n) => { item.n = n; });
  let shown = [], at = 0, words = [];

  const filter = () => {
    const kept = shown[at];
    words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = items.filter(item => (!task.value || of(item)[0] === task.value) && (!form.value || of(item)[1] === form.value) &&
      (!lang.value || item.l === lang.value) && (!right.value || item.r.join("") === right.value) &&
      (!way.value || Math.sign(item.d) === +way.value) && Math.abs(item.d) >= 10 * (+least.value || 0) &&
      (!marked.checked || marks.has(item.n)) && words.every(word => text(item).includes(word)));
    shown.sort(orders[order.value]);
    go(Math.max(0, shown.indexOf(kept)));
  };
  const draw = () => { // the rows that are in sight alone
    const from = Math.max(0, Math.floor(pane.scrollTop / HEIGHT) - 4), many = Math.ceil(pane.clientHeight / HEIGHT) + 8;
    rows.style.height = `${shown.length * HEIGHT}px`;
    rows.replaceChildren(...shown.slice(from, from + many).map((item, n) => {
      const [first, second] = item.r.map(Boolean);
      const row = make("div", {class: `row${from + n === at ? " here" : ""}${marks.has(item.n) ? " marked" : ""}`, role: "option",
        "aria-selected": String(from + n === at), style: `top:${(from + n) * HEIGHT}px`},
        make("b", {class: item.d > 0 ? "ok" : item.d < 0 ? "no" : null}, points(item)),
        make("span", {lang: item.l || null, dir: "auto"}, visible(head(item))),
        make("small", {}, `${of(item)[0]}, ${of(item)[1].replaceAll("_", " ")}: A ${first ? "✓" : "✗"} B ${second ? "✓" : "✗"}`));
      row.addEventListener("click", () => { go(from + n); pane.focus(); });
      return row;
    }));
    const own = shown.filter(item => marks.has(item.n)).length;
    get("count").textContent = `${shown.length ? at + 1 : 0} of ${shown.length}; ${marks.size} marked${own < marks.size ? `, ${own} of them here` : ""}`;
    get("download").disabled = get("clear").disabled = !marks.size;
  };
  const head = item => { // the question's line: from the end the first that is no cue ("Answer:") and no option
    const lines = (item.p ?? item.i).trimEnd().split("\n").filter(line => line.trim());
    const other = line => line.length < 12 && /[:：]$/.test(line) || /^\W?(?:[A-Z]|[a-z]|\d+|[\p{So}\p{Lo}])[.、．)] ?/u.test(line);
    return lines.findLast(line => !other(line)) ?? lines[0] ?? item.i;
  };
  const go = to => {
    at = Math.max(0, Math.min(shown.length - 1, to));
    const top = at * HEIGHT;
    if (top < pane.scrollTop) pane.scrollTop = top;
    if (top + HEIGHT > pane.scrollTop + pane.clientHeight) pane.scrollTop = top + HEIGHT - pane.clientHeight;
    draw();
    const place = get("case");
    place.replaceChildren(...(shown.length ? card(shown[at]) : [make("p", {class: "hint"}, "Nothing is like this.")]));
    place.scrollTop = 0;
  };
  const mark = () => {
    if (!shown.length) return;
    const {n} = shown[at];
    if (!marks.delete(n)) marks.add(n);
    keep();
  };
  const keep = () => {
    try { localStorage.setItem(store, JSON.stringify([...marks])); } catch { /* the page lives without it */ }
    go(at);
  };
  const found = value => { // the text with what was searched for marked in it
    const shownText = visible(value);
    if (!words.length) return [shownText];
    const pattern = new RegExp(`(${words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
    return shownText.split(pattern).map((part, n) => n % 2 ? make("mark", {}, part) : part);
  };
  const prose = (value, item) => make("pre", {lang: item.l || null, dir: "auto"}, ...found(value));
  const card = item => {
    const [first, second] = item.r.map(r => r ? make("span", {class: "ok"}, " right ") : make("span", {class: "no"}, " wrong "));
    const parts = [make("h2", {}, `${of(item)[0]}, ${of(item)[1].replaceAll("_", " ")}: `, ...found(item.i)),
      make("p", {class: "hint"}, make("i", {class: "chip e0"}, "A"), first, make("i", {class: "chip e1"}, "B"), second,
        `change ${points(item)} points${item.l ? `, ${item.l}` : ""}${marks.has(item.n) ? ", marked" : ""}`)];
    if (item.p === undefined) parts.push(make("p", {class: "hint"}, "The question's text is not at hand."));
    else if (item.q.length) parts.push(...item.q.map(each => prose(each, item)));
    else { // worked examples are folded
      const cut = item.p.length > 1200 ? item.p.lastIndexOf("\n\n") : -1;
      if (cut > 0) parts.push(make("details", {}, make("summary", {}, `${cut.toLocaleString("en")} characters before`), prose(item.p.slice(0, cut), item)));
      parts.push(prose(item.p.slice(cut + 1).trimStart(), item));
    }
    if (item.s) parts.push(options(item));
    if (item.t) parts.push(make("p", {class: "hint"}, item.w ? `Right: ${visible(item.w)}` : ""),
      make("div", {class: "written"}, ...item.t.map((each, n) => make("div", {}, make("p", {class: "hint"},
        make("i", {class: `chip e${n}`}, "AB"[n]), ` ${visible(data.labels[n])} wrote${item.x[n] ? `, read as ${visible(item.x[n])}` : ""}`),
        prose(each || "(nothing)", item)))));
    return parts;
  };
  const options = item => {
    const grid = make("div", {class: "options"}, make("span", {}), ...data.labels.map((label, n) =>
      make("small", {}, make("i", {class: `chip e${n}`}, "AB"[n]), ` ${visible(label)}`)));
    (item.s[0] ?? item.s[1] ?? []).forEach((_, n) => {
      const gold = item.y.includes(n), name = item.o?.[n] ?? `option ${n + 1}`;
      grid.append(make("span", {class: gold ? "gold" : null, lang: item.l || null, dir: "auto"}, ...found(name), gold ? " ✓" : ""));
      for (const who of [0, 1]) {
        const share = item.s[who]?.[n];
        grid.append(share === undefined ? make("small", {}, "–") : make("span", {class: `bar${item.c[who] === n ? " chosen" : ""}${gold ? " right" : ""}`},
          make("i", {style: `width:${share / 10}%`}), make("em", {}, `${share / 10} %`)));
      }
    });
    return grid;
  };
  const download = () => {
    const body = new Blob([suite(items.filter(item => marks.has(item.n)), data.groups, data.labels)], {type: "application/yaml"});
    const link = make("a", {href: URL.createObjectURL(body), download: "marked.yaml"});
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const keys = {ArrowDown: () => go(at + 1), j: () => go(at + 1), ArrowUp: () => go(at - 1), k: () => go(at - 1),
    PageDown: () => go(at + TEN), PageUp: () => go(at - TEN), Home: () => go(0), End: () => go(shown.length - 1), m: mark,
    "/": () => find.focus()};
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = ["INPUT", "SELECT"].includes(event.target.tagName);
    if (event.key === "Escape" && typing) { event.target.blur(); pane.focus(); }
    if (typing || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  let waiting = 0;
  find.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  for (const control of [...controls, least, marked]) control.addEventListener("input", filter);
  pane.addEventListener("scroll", draw);
  addEventListener("resize", draw);
  get("mark").addEventListener("click", mark);
  get("download").addEventListener("click", download);
  get("clear").addEventListener("click", () => { marks.clear(); keep(); });
  get("app").hidden = false;
  filter();
}

if (typeof document !== "undefined") show(JSON.parse(document.getElementById("data").textContent));
