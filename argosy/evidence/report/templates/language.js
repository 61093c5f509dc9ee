// Chinese where the browser's language is Chinese or the reader asks for it; what the catalogue lacks stays English.
const catalogue = "CATALOGUE", exact = new Map(Object.entries(catalogue.exact));
const patterns = catalogue.patterns.map(([pattern, whole]) => [new RegExp(pattern, "s"), whole]);
const CUTS = [[/(?<=[.!?]) (?=[A-Za-z“▲])/, ""], [/; (?![^()]*\))/, "；"]]; // sentences, clauses
function translate(text) { // as argosy/core/language.py
  if (exact.has(text) || !/[A-Za-z]/.test(text)) return exact.get(text) ?? text;
  for (const [cut, joint] of CUTS) {
    const parts = text.split(cut), said = parts.length > 1 ? parts.map(translate) : parts;
    if (said.some((part, n) => part !== parts[n])) return said.join(joint);
  }
  const known = text.endsWith(".") ? translate(text.slice(0, -1)) : text;
  if (known !== text && `${known}.` !== text) return `${known}。`;
  for (const [pattern, whole] of patterns) {
    const found = pattern.exec(text);
    if (found) return whole.replace(/\{(\d)[nwl]?\}/g, (_, n) => translate(found[+n + 1]));
  }
  return text;
}
if (typeof document !== "undefined") { // texts of data (pre, code, [dir]) are left alone
  const PLACES = ["title", "aria-label", "placeholder"], DATA = "pre, code, script, style, [dir], [translate=no]";
  const memory = Object.fromEntries(["", ...PLACES].map(name => [name, new WeakMap()])); // node -> [English, as shown]
  let language = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
  try { language = localStorage.getItem("argosy-language") || language; } catch { /* no storage here */ }
  const speak = (node, name) => {
    const now = name ? node.getAttribute(name) : node.data, [english, shown] = memory[name].get(node) ?? [];
    const source = now === shown ? english : now, text = source.trim();
    const said = language === "zh" && text ? source.replace(text, () => translate(text.replace(/\s+/g, " "))) : source;
    if (said === now) return;
    memory[name].set(node, [source, said]);
    if (name) node.setAttribute(name, said); else node.data = said;
  };
  const isData = node => node.nodeType === 1 && node.matches(DATA) ? 2 : 1; // NodeFilter's REJECT, ACCEPT
  const visit = root => {
    if ((root.nodeType === 1 ? root : root.parentElement)?.closest(DATA)) return;
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, isData);
    for (let node = root; node; node = walk.nextNode()) {
      if (node.nodeType === 3) speak(node, "");
      else for (const name of PLACES) if (node.hasAttribute?.(name)) speak(node, name);
    }
  };
  const button = Object.assign(document.createElement("button"), {className: "language", translate: false});
  document.body.prepend(button);
  const show = () => {
    document.documentElement.lang = language;
    button.textContent = language === "zh" ? "English" : "中文";
    visit(document.documentElement);
  };
  button.addEventListener("click", () => {
    language = language === "zh" ? "en" : "zh";
    try { localStorage.setItem("argosy-language", language); } catch { /* kept while the page is open */ }
    show();
  });
  show();
  new MutationObserver(records => records.forEach(({type, target, addedNodes}) =>
    (type === "childList" ? addedNodes : [target]).forEach(visit)
  )).observe(document.body, {childList: true, subtree: true, characterData: true});
}
