// The page of a studio: what the server knows, shown; what the person does, sent. File names are text, never markup.

import { Grid } from "/grid.js";
import { Plane } from "/plane.js";
import { card, node, see } from "/see.js";
import { ask, dropped, send } from "/server.js";

const NONE = "none of these";
const $ = (id) => document.getElementById(id);
const state = { epoch: "", version: 0, photos: new Map(), classes: [], learned: -1, found: {}, maybe: new Map() };
const chosen = new Set();
let order = [];
let at = 0; // the place of the cursor in `order`
let anchor = 0;
let list = null; // numbers that another view asked to see
let upcoming = [];
let mapped = -1;

const colour = (label) =>
  label === NONE ? "#8a8f98" : `hsl(${(state.classes.indexOf(label) * 137.5 + 200) % 360} 62% 50%)`;

// What is shown, and in which order.

function matching() {
  const all = [...state.photos.values()];
  const kind = $("filter").value;
  const suggested = () => all.filter((p) => !p.label && state.maybe.has(p.number));
  const sure = (p) => state.maybe.get(p.number).probability;
  if (kind === "list") return list || [];
  if (kind === "next") return upcoming;
  if (kind === "sure") return suggested().sort((a, b) => sure(b) - sure(a)).map((p) => p.number);
  if (kind === "unsure") return suggested().sort((a, b) => sure(a) - sure(b)).map((p) => p.number);
  const test = {
    all: () => true,
    free: (p) => !p.label && p.state !== "broken",
    broken: (p) => p.state === "broken",
    twins: (p) => p.twin !== null,
  }[kind] || ((p) => p.label === kind.slice(2));
  return all.filter(test).map((p) => p.number);
}

function refresh(keep = true) {
  const here = order[at];
  order = matching();
  const found = keep ? order.indexOf(here) : 0;
  at = found >= 0 ? found : Math.min(at, Math.max(0, order.length - 1));
  $("count").textContent = `${order.length.toLocaleString("en")} photos${chosen.size > 1 ? `, ${chosen.size} selected` : ""}`;
  grid.show(order);
}

function fill(cell, number) {
  const photo = state.photos.get(number);
  const maybe = state.maybe.get(number);
  cell.id = `photo-${number}`;
  cell.number = number;
  const source = photo.state === "broken" ? "" : `/thumb/${number}?v=${photo.stamp}`;
  if (cell.source !== source) {
    cell.source = source;
    if (source) cell.picture.src = source;
    else cell.picture.removeAttribute("src");
  }
  cell.picture.alt = photo.state === "broken" ? "" : photo.name;
  const name = photo.name.split("/").pop();
  if (cell.name.textContent !== name) cell.name.textContent = name;
  cell.title = photo.name;
  const label = photo.label || (maybe && !maybe.refused ? maybe.label : maybe ? NONE : "");
  const sureness = maybe && !maybe.refused ? ` ${Math.round(100 * maybe.probability)}%` : "";
  cell.tag.className = photo.label ? "tag" : "maybe";
  cell.tag.textContent =
    photo.state === "broken" ? photo.reason : photo.label || (label ? `${label}${sureness}?` : photo.state === "waiting" ? "…" : " ");
  cell.tag.style.setProperty("--colour", label ? colour(label) : "transparent");
  cell.classList.toggle("broken", photo.state === "broken");
  cell.classList.toggle("at", number === order[at]);
  cell.setAttribute("aria-selected", chosen.has(number));
}

const grid = new Grid($("grid"), $("sheet"), fill);
const plane = new Plane($("plane"), (numbers, adding) => {
  if (!adding) chosen.clear();
  numbers.forEach((n) => chosen.add(n));
  $("lassoed").textContent = `${chosen.size} selected.`;
  refresh();
  plane.draw();
});

// What the server says.

function complain(sentence) {
  $("trouble").hidden = !sentence;
  $("trouble").textContent = sentence;
}

let said = "";
async function poll() {
  try {
    const news = await ask(`/api/changes?since=${state.version}&epoch=${state.epoch}`);
    if (news.epoch !== state.epoch) {
      state.photos.clear();
      state.learned = -1;
    }
    state.epoch = news.epoch;
    state.version = news.version;
    for (const [number, name, label, kind, reason, twin, stamp] of news.photos)
      state.photos.set(number, { number, name, label, state: kind, reason, twin, stamp });
    if (said) complain((said = ""));
    if (news.progress.trouble) complain(news.progress.trouble);
    else if (news.notes.length) complain(news.notes.join(" "));
    head(news);
    if (news.learned !== state.learned) await learn();
    else if (news.photos.length) changed();
  } catch (error) {
    said = error instanceof TypeError ? "The studio has stopped. All labels are safe in labels.csv; start it again and open the address it prints." : error.message;
    complain(said);
  }
}

let waiting = null;
function soon() {
  waiting ??= poll().finally(() => (waiting = null));
  return waiting;
}

async function learn() {
  state.found = await ask("/api/findings");
  state.learned = state.found.learned;
  state.maybe = new Map(
    (state.found.suggestions || []).map(([n, label, probability, refused]) => [n, { label, probability, refused }]),
  );
  if ($("filter").value === "next") await look();
  changed();
}

async function look() {
  const found = await ask(`/api/next?count=60&strategy=${$("strategy").value}`);
  upcoming = found.photos;
}

function head(news) {
  $("folder").textContent = news.folder;
  const { photos, done, broken } = news.progress;
  const free = [...state.photos.values()].filter((p) => !p.label && p.state !== "broken").length;
  $("progress").textContent =
    done < photos ? `${done.toLocaleString("en")} of ${photos.toLocaleString("en")} photos looked at` : `${photos.toLocaleString("en")} photos, ${free.toLocaleString("en")} without a label${broken ? `, ${broken} cannot be read` : ""}`;
  $("bar").hidden = done >= photos;
  $("bar").max = Math.max(1, photos);
  $("bar").value = done;
  $("undo").disabled = !news.undoable;
  if (news.classes.join("\n") !== state.classes.join("\n") || !$("classes").children.length) {
    state.classes = news.classes;
    classes();
  }
}

function classes() {
  const counts = new Map();
  for (const p of state.photos.values()) if (p.label) counts.set(p.label, (counts.get(p.label) || 0) + 1);
  const held = document.activeElement?.dataset?.label;
  const buttons = [...state.classes, NONE].map((name, i) => {
    const press = node("button", "", { type: "button" });
    press.dataset.label = name;
    const dot = node("span", "", { className: "dot" });
    dot.style.setProperty("--colour", colour(name));
    const key = name === NONE ? "0" : i < 9 ? String(i + 1) : "";
    press.append(dot, node("span", name), node("span", String(counts.get(name) || 0), { className: "small" }));
    if (key) press.append(node("kbd", key));
    press.addEventListener("click", () => label(name));
    return press;
  });
  $("classes").replaceChildren(...buttons);
  buttons.find((b) => b.dataset.label === held)?.focus();
  const filter = $("filter");
  const value = filter.value;
  for (const old of [...filter.options]) if (old.value.startsWith("= ") || (old.value === "list" && !list)) old.remove();
  for (const name of [...state.classes, NONE]) filter.append(node("option", `labelled ${name}`, { value: `= ${name}` }));
  if ([...filter.options].some((o) => o.value === value)) filter.value = value;
}

function changed() {
  classes();
  const sure = $("sure").value / 100;
  const ready = acceptable(sure);
  $("sure-shown").textContent = `${$("sure").value}%`;
  $("suggesting").hidden = !state.maybe.size;
  $("accept").textContent = `Accept ${ready.length.toLocaleString("en")}`;
  $("accept").disabled = !ready.length;
  $("advice").textContent = state.found.advice || (state.found.curve ? state.found.curve.sentence : "");
  $("promise").textContent = state.found.expected ? state.found.expected.sentence : state.found.advice || "";
  refresh();
  const tab = document.querySelector("[role=tab][aria-selected=true]").id;
  if (tab === "tab-see") see($("see"), state, { label: (numbers, name) => put(numbers, name), list: listed });
  if (tab === "tab-map") draw();
}

const acceptable = (sure) =>
  [...state.maybe].filter(([n, m]) => !m.refused && m.probability >= sure && !state.photos.get(n)?.label);

async function draw() {
  if (mapped !== state.learned) {
    mapped = state.learned;
    const { numbers, xy } = await ask("/api/map");
    plane.show(numbers, xy, (number) => {
      const photo = state.photos.get(number);
      const name = photo?.label || (state.maybe.has(number) ? state.maybe.get(number).label : "");
      return { colour: name ? colour(name) : "#8a8f98", filled: !!photo?.label, chosen: chosen.has(number) };
    });
  }
  plane.draw();
}

// What the person does.

async function put(numbers, name) {
  const before = numbers.map((n) => state.photos.get(n).label);
  for (const n of numbers) state.photos.get(n).label = name;
  try {
    await ask("/api/label", { photos: numbers, label: name });
    await soon();
  } catch (error) {
    numbers.forEach((n, i) => (state.photos.get(n).label = before[i]));
    complain((said = error.message));
    changed();
  }
}

function label(name) {
  const numbers = chosen.size ? [...chosen] : order.length ? [order[at]] : [];
  if (!numbers.length) return;
  const single = numbers.length === 1 && numbers[0] === order[at];
  const after = order[at + 1];
  const done = put(numbers, name);
  chosen.clear();
  refresh();
  // On to the next at once: who labels fast must not find the cursor moved by an answer to an earlier key.
  if (single && $("map").hidden) {
    const next = order.indexOf(after);
    if (order.length) move(next >= 0 ? next : at, false);
  }
  return done;
}

async function accept(pairs) {
  const labels = Object.fromEntries(pairs.map(([n, m]) => [n, m.refused ? NONE : m.label]));
  if (!pairs.length) return;
  try {
    await ask("/api/labels", { labels });
    await soon();
  } catch (error) {
    complain((said = error.message));
  }
}

async function undo() {
  try {
    await ask("/api/undo", {});
    await soon();
  } catch (error) {
    complain((said = error.message));
  }
}

function move(to, extend) {
  if (!order.length) return;
  at = Math.max(0, Math.min(order.length - 1, to));
  if (extend) {
    chosen.clear();
    const [a, b] = [Math.min(anchor, at), Math.max(anchor, at)];
    for (const n of order.slice(a, b + 1)) chosen.add(n);
  } else {
    anchor = at;
    chosen.clear();
    chosen.add(order[at]);
  }
  $("grid").setAttribute("aria-activedescendant", `photo-${order[at]}`);
  $("count").textContent = `${order.length.toLocaleString("en")} photos${chosen.size > 1 ? `, ${chosen.size} selected` : ""}`;
  grid.reach(at);
  detail(order[at]);
}

let looked = 0;
async function detail(number) {
  const mine = ++looked;
  const photo = state.photos.get(number);
  $("detail").hidden = !photo || photo.state === "broken";
  if (!photo || photo.state === "broken") return;
  $("large").src = `/photo/${number}`;
  $("large").alt = photo.name;
  $("large-name").textContent = photo.name;
  $("heat").hidden = !$("show-heat").checked;
  if ($("show-heat").checked) $("heat").src = `/heat/${number}?v=${state.learned}`;
  const { answers, near, refused } = await ask(`/api/why/${number}`).catch(() => ({ answers: [], near: [] }));
  if (mine !== looked) return;
  const lines = answers.map(([name, p]) => node("li", `${name} ${Math.round(100 * p)}%`));
  if (refused) lines.unshift(node("li", "farther from every class than the photos it was taught: none of these?"));
  $("answers").replaceChildren(...lines);
  $("near-title").hidden = !near.length;
  $("near").replaceChildren(
    ...near.map(([n]) => {
      const other = state.photos.get(n);
      const figure = node("figure");
      figure.append(node("img", "", { src: `/thumb/${n}?v=${other.stamp}`, alt: other.name }), node("figcaption", other.label || ""));
      return figure;
    }),
  );
}

function listed(numbers) {
  list = numbers;
  const filter = $("filter");
  if (![...filter.options].some((o) => o.value === "list")) filter.append(node("option", "photos of the cell", { value: "list" }));
  filter.value = "list";
  open("photos");
  refresh(false);
}

function open(name) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !on;
  }
  $("labelling").hidden = name === "see" || name === "carry";
  changed();
  if (name === "photos") grid.measure();
}

async function bring(files) {
  if (!files.length) return;
  const refused = await send(files, (done, all) => ($("progress").textContent = `${done} of ${all} files copied`));
  said = refused.length ? `${refused.slice(0, 5).join("; ")}${refused.length > 5 ? `; and ${refused.length - 5} more` : ""}` : "";
  await soon();
  complain(said);
}

$("grid").addEventListener("pointerdown", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell || event.button) return;
  const index = order.indexOf(cell.number);
  if (event.ctrlKey || event.metaKey) {
    at = index;
    chosen.has(cell.number) ? chosen.delete(cell.number) : chosen.add(cell.number);
    grid.render();
    detail(cell.number);
  } else move(index, event.shiftKey);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=range]):not([type=checkbox]), select, textarea");
  const map = !$("map").hidden;
  if (typing || (!map && $("photos").hidden) || event.altKey) return;
  const inGrid = event.target === $("grid") || event.target === document.body || event.target === $("plane");
  const key = event.key;
  if (event.ctrlKey || event.metaKey) {
    if (key === "z") undo();
    else if (key === "a" && inGrid) order.forEach((n) => chosen.add(n));
    else return;
    grid.render();
    return event.preventDefault();
  }
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, Home: -order.length, End: order.length };
  if (/^[1-9]$/.test(key) && state.classes[key - 1]) label(state.classes[key - 1]);
  else if (key === "0" || key === "n") label(NONE);
  else if (key === "u") undo();
  else if (key === "Delete" || key === "Backspace") label(null);
  else if (!inGrid || map) return;
  else if (key in steps) move(at + steps[key], event.shiftKey);
  else if (key === " " && order.length) {
    const n = order[at];
    chosen.has(n) ? chosen.delete(n) : chosen.add(n);
    grid.render();
  } else if (key === "Enter") {
    const numbers = chosen.size ? [...chosen] : [order[at]];
    accept(numbers.filter((n) => state.maybe.has(n) && !state.photos.get(n).label).map((n) => [n, state.maybe.get(n)]));
  } else return;
  event.preventDefault();
});

$("new-class").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("class-name").value.trim();
  if (!name) return;
  try {
    await ask("/api/class", { name });
    $("class-name").value = "";
    await soon();
    $("grid").focus();
  } catch (error) {
    complain((said = error.message));
  }
});
$("undo").addEventListener("click", undo);
$("accept").addEventListener("click", () => accept(acceptable($("sure").value / 100)));
$("sure").addEventListener("input", changed);
$("filter").addEventListener("change", async () => {
  const next = $("filter").value === "next";
  $("strategy").hidden = $("strategy-label").hidden = !next;
  if (next) await look();
  chosen.clear();
  refresh(false);
  $("grid").scrollTop = 0;
});
$("strategy").addEventListener("change", async () => {
  await look();
  refresh(false);
});
$("show-heat").addEventListener("change", () => detail(order[at]));
$("heat").addEventListener("error", () => ($("heat").hidden = true));
for (const id of ["files", "directory"])
  $(id).addEventListener("change", async () => {
    await bring([...$(id).files].map((file) => [file.webkitRelativePath || file.name, file]));
    $(id).value = "";
  });
const tabs = [...document.querySelectorAll("[role=tab]")];
for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const other = tabs[(i + step + tabs.length) % tabs.length];
    open(other.id.slice(4));
    other.focus();
  });
}
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  $("dropping").hidden = false;
});
document.addEventListener("dragleave", (event) => ($("dropping").hidden = !!event.relatedTarget));
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  $("dropping").hidden = true;
  bring(await dropped(event.dataTransfer));
});

for (const link of document.querySelectorAll("#carry a"))
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    $("carry-trouble").hidden = true;
    link.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(link.getAttribute("href"));
      if (!answer.ok) throw new Error((await answer.json()).error);
      const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition"))[1];
      node("a", "", { href: URL.createObjectURL(await answer.blob()), download: name }).click();
    } catch (error) {
      $("carry-trouble").textContent = error.message;
      $("carry-trouble").hidden = false;
    }
    link.removeAttribute("aria-busy");
  });

await soon();
setInterval(soon, 900);
