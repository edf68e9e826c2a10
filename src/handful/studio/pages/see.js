// What is known of the classifier: expected accuracy, gain of more labels, doubts, who is confused with whom.

export const node = (kind, text = "", more = {}) => Object.assign(document.createElement(kind), { textContent: text }, more);
const percent = (share) => `${Math.round(100 * share)}%`;

export function see(box, state, act) {
  const { found, photos } = state;
  box.replaceChildren();
  const add = (...nodes) => box.append(...nodes);
  if (!found.classes) {
    add(node("p", found.advice || ""));
    return broken(add, photos);
  }
  add(node("h2", "What to expect"), node("p", found.expected.sentence));
  add(node("p", found.curve ? found.curve.sentence : "A dozen labels, and it says here what ten more would bring."));
  if (found.curve) {
    const rows = found.curve.labels.map((n, i) => [String(n), percent(found.curve.accuracy[i])]);
    add(table(["labels learned from", "right of the others"], rows));
  }
  add(node("h2", `Look mislabelled (${found.suspects.length})`));
  if (!found.suspects.length) add(node("p", "No label looks wrong."));
  const doubts = node("div", "", { className: "photos", id: "suspects" });
  for (const { photo, label, like, probability } of found.suspects) {
    const cell = card(photos.get(photo), `labelled ${label}; looks like ${like} (${percent(probability)})`);
    const change = node("button", `It is ${like}`, { type: "button" });
    change.addEventListener("click", () => act.label([photo], like));
    cell.append(change);
    doubts.append(cell);
  }
  add(doubts, node("h2", "Who is taken for whom"));
  add(node("p", "Each photo asked of a classifier of the others. Press a number to see the photos.", { className: "small" }));
  const shown = found.classes.length <= 25 ? found.classes : [];
  const cells = new Map(found.confusion.map((c) => [`${c.truth} ${c.said}`, c]));
  const rows = shown.map((name, t) => [
    name,
    ...shown.map((_, s) => {
      const cell = cells.get(`${t} ${s}`);
      if (!cell) return "";
      const press = node("button", String(cell.n), { type: "button", ariaLabel: `${cell.n} of ${name} taken for ${shown[s]}` });
      press.addEventListener("click", () => act.list(cell.photos));
      return press;
    }),
  ]);
  add(rows.length ? table(["is \\ taken for", ...shown], rows) : wrong(found, act));
  add(node("h2", "Are the probabilities right?"));
  add(table(["photos", "said, on average", "were right"], found.calibration.map((c) => [String(c.photos), percent(c.said), percent(c.right)])));
  const across = found.copies.filter((c) => photos.get(c.first) && photos.get(c.second));
  if (across.length) {
    add(node("h2", `Copies (${across.length})`));
    const list = node("ul");
    for (const c of across.slice(0, 30)) {
      const [a, b] = [photos.get(c.first), photos.get(c.second)];
      list.append(node("li", `${a.name} (${a.label}) is ${c.exact ? "a" : "nearly a"} copy of ${b.name} (${b.label})`));
    }
    add(list);
  }
  broken(add, photos);
}

function wrong(found, act) {
  const rows = found.confusion
    .filter((c) => c.truth !== c.said)
    .sort((a, b) => b.n - a.n)
    .slice(0, 30)
    .map((c) => {
      const press = node("button", String(c.n), { type: "button" });
      press.addEventListener("click", () => act.list(c.photos));
      return [found.classes[c.truth], found.classes[c.said], press];
    });
  return table(["is", "taken for", "photos"], rows);
}

function broken(add, photos) {
  const bad = [...photos.values()].filter((p) => p.state === "broken");
  if (!bad.length) return;
  add(node("h2", `Cannot be read (${bad.length})`));
  const list = node("ul", "", { id: "broken" });
  for (const p of bad.slice(0, 200)) list.append(node("li", `${p.name} ${p.reason}`));
  add(list);
}

export function card(photo, words) {
  const cell = node("div", "", { className: "photo" });
  cell.append(
    node("img", "", { src: `/thumb/${photo.number}?v=${photo.stamp}`, alt: photo.name, width: 112, height: 112, loading: "lazy" }),
    node("b", photo.name.split("/").pop()),
    node("span", words),
  );
  return cell;
}

export function table(head, rows) {
  const made = node("table");
  const top = made.createTHead().insertRow();
  for (const text of head) top.append(node("th", text, { scope: "col" }));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().append(value);
  }
  const box = node("div", "", { className: "scroll" });
  box.append(made);
  return box;
}
