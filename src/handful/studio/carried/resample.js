// Pillow's resampling, to the bit: browsers shrink pictures each in their own way, and a network notices.
// Triangle filter with antialiasing; first across, then down; weights of 22 bits and rounded bytes in between, as
// Pillow's Resample.c computes pictures of 8 bits. With `exact`, floats throughout, as torch's antialiased interpolation does.

const BITS = 22;

function weights(size, from, to, count, exact) {
  const scale = (to - from) / count;
  const wide = Math.max(1, scale);
  const starts = new Int32Array(count);
  const rows = [];
  for (let i = 0; i < count; i++) {
    const centre = from + (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - wide + 0.5));
    const last = Math.min(size, Math.trunc(centre + wide + 0.5));
    const row = [];
    let sum = 0;
    for (let x = first; x < last; x++) {
      const w = Math.max(0, 1 - Math.abs((x - centre + 0.5) / wide));
      row.push(w);
      sum += w;
    }
    starts[i] = first;
    rows.push(exact ? Float64Array.from(row, (w) => w / sum) : Int32Array.from(row, (w) => Math.trunc(0.5 + (w / sum) * (1 << BITS))));
  }
  return { starts, rows };
}

const rounded = (sum) => Math.min(255, Math.max(0, sum >> BITS));

// `pixels` (h, w, step) to (h, side, 3), the columns from `from` to `to`.
function across(pixels, w, h, step, from, to, side, exact) {
  const { starts, rows } = weights(w, from, to, side, exact);
  const [half, end] = exact ? [0, (v) => v] : [1 << (BITS - 1), rounded];
  const out = new (exact ? Float64Array : Uint8Array)(h * side * 3);
  for (let y = 0; y < h; y++)
    for (let i = 0; i < side; i++) {
      const row = rows[i];
      let at = (y * w + starts[i]) * step;
      let [a, b, c] = [half, half, half];
      for (let k = 0; k < row.length; k++, at += step) {
        a += pixels[at] * row[k];
        b += pixels[at + 1] * row[k];
        c += pixels[at + 2] * row[k];
      }
      const place = (y * side + i) * 3;
      out[place] = end(a);
      out[place + 1] = end(b);
      out[place + 2] = end(c);
    }
  return out;
}

// `pixels` (h, w, step) to (side, w, 3), the rows from `from` to `to`.
function down(pixels, w, h, step, from, to, side, exact) {
  const { starts, rows } = weights(h, from, to, side, exact);
  const [half, end] = exact ? [0, (v) => v] : [1 << (BITS - 1), rounded];
  const out = new (exact ? Float64Array : Uint8Array)(side * w * 3);
  for (let i = 0; i < side; i++) {
    const row = rows[i];
    for (let x = 0; x < w; x++)
      for (let c = 0; c < 3; c++) {
        let sum = half;
        let at = (starts[i] * w + x) * step + c;
        for (let k = 0; k < row.length; k++, at += w * step) sum += pixels[at] * row[k];
        out[(i * w + x) * 3 + c] = end(sum);
      }
  }
  return out;
}

// `pixels` (h, w, step channels) to (side, side, 3); `box` is [left, top, right, bottom]. Pillow 13 begins with the rows where a
// picture is tall enough (found by trying which order gives its bytes, at 400 sizes); the order changes the rounding in between.
function resample(pixels, w, h, step, box, side, exact = false) {
  const [left, top, right, bottom] = box;
  if (!exact && h - w > Math.abs(w - side)) return across(down(pixels, w, h, step, top, bottom, side), w, side, 3, left, right, side);
  return down(across(pixels, w, h, step, left, right, side, exact), side, h, 3, top, bottom, side, exact);
}

// A JPEG that is much larger than needed is decoded at a half, a quarter or an eighth (libjpeg's own shrinking, nearly a mean).
function shrunk(pixels, w, h, by) {
  const [wide, high] = [Math.ceil(w / by), Math.ceil(h / by)];
  const out = new Uint8Array(wide * high * 4);
  for (let y = 0; y < high; y++)
    for (let x = 0; x < wide; x++) {
      const [right, low] = [Math.min(w, (x + 1) * by), Math.min(h, (y + 1) * by)];
      let [a, b, c, n] = [0, 0, 0, 0];
      for (let j = y * by; j < low; j++)
        for (let i = x * by; i < right; i++, n++) {
          const at = (j * w + i) * 4;
          a += pixels[at];
          b += pixels[at + 1];
          c += pixels[at + 2];
        }
      out.set([Math.round(a / n), Math.round(b / n), Math.round(c / n), 255], (y * wide + x) * 4);
    }
  return [out, wide, high];
}

// The centred square of a photo, (size, size, 3) bytes.
function squareOf(pixels, w, h, size, jpeg) {
  if (jpeg) {
    const most = Math.min(Math.floor(w / (2 * size)), Math.floor(h / (2 * size)));
    const by = [8, 4, 2].find((s) => most >= s);
    if (by) [pixels, w, h] = shrunk(pixels, w, h, by);
  }
  const side = Math.min(w, h);
  const [left, top] = [(w - side) / 2, (h - side) / 2];
  return resample(pixels, w, h, 4, [left, top, left + side, top + side], size);
}
