// Photos in, answers out; everything that is needed is in this file.

const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const doubles = (text) => new Float64Array(bytes(text).buffer);
async function unpacked(id) {
  const stream = new Blob([bytes($(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  $(id).remove();
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const head = Object.fromEntries(Object.entries(facts.tensors).map(([name, text]) => [name, doubles(text)]));
const towards = facts.directions && doubles(facts.directions);
const [C, D] = [facts.classes.length, facts.width];
let session, ort;

async function ready() {
  const code = URL.createObjectURL(new Blob([await unpacked("code")], { type: "text/javascript" }));
  ort = await import(code);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await unpacked("machine")).buffer;
  session = await ort.InferenceSession.create(await unpacked("net"));
}

// The pixels of a file as they are stored: turned as the camera says, not converted to the screen's colours.
async function decoded(file) {
  const picture = await createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none" });
  const { width, height } = picture;
  if (width * height > 1e8) throw new Error("has more than 100 million pixels");
  const canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  pen.drawImage(picture, 0, 0);
  return { pixels: pen.getImageData(0, 0, width, height).data, width, height };
}

async function answer(file) {
  const start = new Uint8Array(await file.slice(0, 3).arrayBuffer());
  const jpeg = start[0] === 0xff && start[1] === 0xd8;
  const { pixels, width, height } = await decoded(file);
  const square = squareOf(pixels, width, height, facts.square, jpeg);
  const side = facts.side;
  const fitted = side === facts.square ? square : resample(square, facts.square, facts.square, 3, [0, 0, facts.square, facts.square], side, true);
  const x = new Float32Array(3 * side * side);
  for (let c = 0; c < 3; c++) {
    const [mean, std] = [facts.mean[c % facts.mean.length], facts.std[c % facts.std.length]];
    for (let i = 0; i < side * side; i++) x[c * side * side + i] = (fitted[i * 3 + c] / 255 - mean) / std;
  }
  const { features } = await session.run({ x: new ort.Tensor("float32", x, [1, 3, side, side]) });
  const places = features.data.length / D;
  const v = new Float64Array(D);
  for (let d = 0; d < D; d++) for (let p = 0; p < places; p++) v[d] += features.data[d * places + p] / places;
  const length = Math.max(Math.hypot(...v), 1e-12);
  for (let d = 0; d < D; d++) v[d] /= length;
  const found = scored(v);
  return { ...found, square, warmth: warmth(features, places, found.best) };
}

function scored(v) {
  const far = new Float64Array(C);
  const scores = new Float64Array(C);
  for (let k = 0; k < C; k++) {
    for (let d = 0; d < D; d++) far[k] += (v[d] - head.means[k * D + d]) ** 2;
    far[k] -= head.inflation[k];
    if (facts.head !== "linear") scores[k] = -far[k];
    else {
      scores[k] = head.bias[k];
      for (let d = 0; d < D; d++) scores[k] += v[d] * head.weight[d * C + k];
    }
  }
  const near = far.map((f) => Math.max(f, 1e-12));
  const strange = Math.min(...near) / (near.reduce((a, b) => a + b) / C);
  const most = Math.max(...scores);
  const raised = scores.map((s) => Math.exp((s - most) / facts.temperature));
  const sum = raised.reduce((a, b) => a + b);
  const probabilities = Array.from(raised, (r) => r / sum);
  const best = probabilities.indexOf(Math.max(...probabilities));
  return { probabilities, best, refused: facts.threshold !== null && strange > facts.threshold };
}

// Each place's share in the score of the answer (class activation mapping), from 0 to 1.
function warmth(features, places, best) {
  if (!towards || places < 2) return null;
  const share = new Float64Array(places);
  for (let d = 0; d < D; d++) for (let p = 0; p < places; p++) share[p] += features.data[d * places + p] * towards[d * C + best];
  const most = Math.max(...share, 1e-12);
  return { across: features.dims[3], values: share.map((s) => Math.max(0, s / most)) };
}

function canvas(pixels, size, channels) {
  const made = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const data = new ImageData(size, size);
  for (let i = 0; i < size * size; i++) for (let c = 0; c < 4; c++) data.data[i * 4 + c] = c < channels ? pixels[i * channels + c] : 255;
  made.getContext("2d").putImageData(data, 0, 0);
  return made;
}

const element = (kind, text = "") => Object.assign(document.createElement(kind), { textContent: text });
const percent = (p) => `${Math.round(100 * p)}%`;
const answers = [];

function shown(file, found) {
  const box = Object.assign(element("div"), { className: "photo" });
  answers.push({ photo: file.name, ...found, square: undefined, warmth: undefined });
  if (found.error) {
    box.append(element("b", file.name), element("span", found.error));
    return $("answers").prepend(box);
  }
  const picture = Object.assign(element("div"), { className: "picture" });
  const plain = canvas(found.square, facts.square, 3);
  plain.setAttribute("role", "img");
  plain.setAttribute("aria-label", file.name);
  picture.append(plain);
  if (found.warmth) {
    const { across, values } = found.warmth;
    const warm = new Uint8Array(across * across * 4);
    values.forEach((v, i) => warm.set([255, 60, 0, Math.round(190 * v)], i * 4));
    picture.append(canvas(warm, across, 4));
    $("heat-line").hidden = false;
  }
  const order = found.probabilities.map((_, k) => k).sort((a, b) => found.probabilities[b] - found.probabilities[a]);
  const said = found.refused ? facts.none : facts.classes[found.best];
  const words = order.slice(0, 2).map((k) => `${facts.classes[k]} ${percent(found.probabilities[k])}`);
  const why = found.refused ? `farther from every class than the photos it was taught; the nearest is ${facts.classes[found.best]}` : words.join(", ");
  box.append(picture, element("b", said), element("span", `${why} · ${file.name}`));
  $("answers").prepend(box);
}

let queue = Promise.resolve();
function take(files) {
  queue = queue.then(async () => {
    for (const [i, file] of [...files].entries()) {
      $("status").textContent = `${i} of ${files.length} photos`;
      let found;
      try {
        found = await answer(file);
      } catch (error) {
        found = { error: error.name === "InvalidStateError" ? "cannot be read by this browser; save it as JPEG or PNG" : `${error.message || error}` };
      }
      shown(file, found);
      $("save").hidden = false;
    }
    $("status").textContent = `${answers.length} photos answered.`;
  });
}

function save() {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [["photo", "answer", "nearest", "probability", ...facts.classes.map((c) => `p(${c})`)]];
  for (const a of answers) {
    if (a.error) continue;
    const nearest = facts.classes[a.best];
    rows.push([a.photo, a.refused ? facts.none : nearest, nearest, a.probabilities[a.best], ...a.probabilities]);
  }
  const text = rows.map((row) => row.map((v) => quoted(String(v))).join(",")).join("\n");
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" })), download: "answers.csv" });
  link.click();
}

$("save").addEventListener("click", save);
$("heat").addEventListener("change", () => $("answers").classList.toggle("warm", $("heat").checked));
$("files").addEventListener("change", () => take([...$("files").files]));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
document.addEventListener("dragleave", () => $("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  take([...event.dataTransfer.files]);
});

window.handful = { facts, answers, answer, resample, squareOf };
try {
  await ready();
  $("status").textContent = "Ready.";
} catch (error) {
  $("status").textContent = `This browser cannot run it (${error.message || error}); use a newer one.`;
}
