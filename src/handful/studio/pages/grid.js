// A list of any length as a grid: only the rows in sight are in the document.

const ROOM = 58; // below the picture: name, label
export class Grid {
  constructor(box, sheet, fill) {
    this.box = box;
    this.sheet = sheet;
    this.fill = fill;
    this.items = [];
    this.cells = new Map();
    this.free = [];
    this.asked = false;
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.measure()).observe(box);
  }

  measure() {
    const width = this.box.clientWidth;
    if (!width) return;
    this.columns = Math.max(2, Math.floor(width / 138));
    this.wide = width / this.columns;
    this.high = this.wide + ROOM - 10;
    this.sheet.style.height = `${Math.ceil(this.items.length / this.columns) * this.high}px`;
    this.draw();
  }

  show(items) {
    this.items = items;
    this.measure();
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.render();
    });
  }

  render() {
    if (!this.columns) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.high) - 1) * this.columns;
    const rows = Math.ceil(this.box.clientHeight / this.high) + 3;
    const last = Math.min(this.items.length, first + rows * this.columns);
    const wanted = new Set(this.items.slice(first, last));
    for (const [item, cell] of this.cells) {
      if (wanted.has(item)) continue;
      this.cells.delete(item);
      cell.remove();
      this.free.push(cell);
    }
    for (let i = first; i < last; i++) {
      const item = this.items[i];
      let cell = this.cells.get(item);
      if (!cell) {
        cell = this.free.pop() || this.make();
        this.cells.set(item, cell);
        this.sheet.append(cell);
      }
      cell.style.width = `${this.wide}px`;
      cell.style.height = `${this.high}px`;
      cell.style.transform = `translate(${(i % this.columns) * this.wide}px, ${Math.floor(i / this.columns) * this.high}px)`;
      cell.setAttribute("aria-posinset", i + 1);
      cell.setAttribute("aria-setsize", this.items.length);
      this.fill(cell, item);
    }
    this.free.length = Math.min(this.free.length, 60);
  }

  make() {
    const cell = document.createElement("div");
    cell.className = "cell";
    cell.setAttribute("role", "option");
    const parts = { picture: "img", name: "b", tag: "span" };
    for (const [name, kind] of Object.entries(parts)) cell.append((cell[name] = document.createElement(kind)));
    cell.picture.draggable = false;
    cell.picture.decoding = "async";
    return cell;
  }

  // Bring an item into sight.
  reach(index) {
    const top = Math.floor(index / this.columns) * this.high;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.high > this.box.scrollTop + this.box.clientHeight)
      this.box.scrollTop = top + this.high - this.box.clientHeight;
    this.render();
  }
}
