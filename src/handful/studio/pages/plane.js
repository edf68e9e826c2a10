// The map: a dot for each photo, a line drawn around some selects them.

export class Plane {
  constructor(canvas, picked) {
    this.canvas = canvas;
    this.picked = picked;
    this.numbers = [];
    this.xy = [];
    this.line = [];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.line = [[event.offsetX, event.offsetY]];
      this.adding = event.shiftKey;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.line.length) return;
      this.line.push([event.offsetX, event.offsetY]);
      this.draw();
    });
    canvas.addEventListener("pointerup", () => this.close());
    canvas.addEventListener("pointercancel", () => this.close());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  place(i) {
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    return [14 + this.xy[i][0] * (w - 28), 14 + (1 - this.xy[i][1]) * (h - 28)];
  }

  close() {
    const line = this.line;
    this.line = [];
    if (line.length > 2) this.picked(this.numbers.filter((_, i) => inside(this.place(i), line)), this.adding);
    this.draw();
  }

  show(numbers, xy, look) {
    this.numbers = numbers;
    this.xy = xy;
    this.look = look;
    this.canvas.dataset.photos = numbers.length;
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (!w || !this.look) return;
    const scale = devicePixelRatio || 1;
    canvas.width = w * scale;
    canvas.height = h * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const ink = getComputedStyle(canvas).getPropertyValue("--ink");
    const size = this.numbers.length > 2000 ? 2.5 : 5;
    this.numbers.forEach((number, i) => {
      const { colour, filled, chosen } = this.look(number);
      const [x, y] = this.place(i);
      pen.beginPath();
      pen.arc(x, y, size, 0, 7);
      pen.fillStyle = pen.strokeStyle = colour;
      pen.lineWidth = 1.5;
      if (filled) pen.fill();
      else pen.stroke();
      if (!chosen) return;
      pen.beginPath();
      pen.arc(x, y, size + 2.5, 0, 7);
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.stroke();
    });
    if (this.line.length < 2) return;
    pen.beginPath();
    this.line.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.strokeStyle = ink;
    pen.setLineDash([5, 4]);
    pen.stroke();
  }
}

export function inside([x, y], line) {
  let within = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [[ax, ay], [bx, by]] = [line[i], line[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
  }
  return within;
}
