// The decision boundary of two-dimensional data: regions, the line p = 0.5, and the training points, on a canvas.

const classColor = (place) => (place < 0 ? color("baseline") : place < 2 ? color(`class-${place}`) : PALETTE[(place + 2) % PALETTE.length]);

function rgb(css) {
  const hex = css.replace("#", "");
  return [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

function shading(probs) {
  const [height, width] = [probs.length, probs[0].length];
  const image = new ImageData(width, height);
  const sides = [rgb(classColor(0)), rgb(classColor(1))];
  probs.forEach((values, line) => values.forEach((p, column) => {
    const place = 4 * ((height - 1 - line) * width + column); // the first line of the grid is the lowest
    image.data.set([...sides[p >= 500 ? 1 : 0], Math.round(20 + Math.abs(p - 500) * 0.09)], place);
  }));
  const small = element("canvas");
  [small.width, small.height] = [width, height];
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

// Marching squares: where the edges of each cell of the grid cross one half, joined by straight lines.
function contour(probs, draw) {
  const cross = (a, b) => ((a < 500) !== (b < 500) ? (500 - a) / (b - a) : null);
  for (let i = 0; i + 1 < probs.length; i++) {
    for (let j = 0; j + 1 < probs[i].length; j++) {
      const [a, b, c, d] = [probs[i][j], probs[i][j + 1], probs[i + 1][j + 1], probs[i + 1][j]];
      const sides = [[cross(a, b), (t) => [j + t, i]], [cross(b, c), (t) => [j + 1, i + t]], [cross(d, c), (t) => [j + t, i + 1]], [cross(a, d), (t) => [j, i + t]]];
      const ends = sides.filter(([t]) => t !== null).map(([t, place]) => place(t));
      for (let k = 0; k + 1 < ends.length; k += 2) draw(ends[k], ends[k + 1]);
    }
  }
}

function triangle(context, x, y, size) {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + 0.9 * size, y + 0.7 * size);
  context.lineTo(x - 0.9 * size, y + 0.7 * size);
  context.closePath();
}

function drawBoundary(canvas) {
  const panel = data.boundary.panels[Number(canvas.dataset.panel)];
  const { x, y, probs } = panel;
  const width = canvas.clientWidth;
  if (!width) return;
  const height = Math.round(width * Math.min(1, Math.max(0.5, (y[1] - y[0]) / (x[1] - x[0]))));
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const toX = (value) => ((value - x[0]) / (x[1] - x[0])) * width;
  const toY = (value) => height - ((value - y[0]) / (y[1] - y[0])) * height;
  context.drawImage(shading(probs), 0, 0, width, height);
  for (const [px, py, truth, labeled] of data.boundary.dots) {
    if (labeled) continue;
    context.fillStyle = classColor(truth);
    context.globalAlpha = 0.75;
    context.beginPath();
    context.arc(toX(px), toY(py), 2, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  context.strokeStyle = color("text");
  context.lineWidth = 2;
  context.beginPath();
  const [columns, lines] = [probs[0].length - 1, probs.length - 1];
  contour(probs, ([x0, y0], [x1, y1]) => {
    context.moveTo((x0 / columns) * width, height - (y0 / lines) * height);
    context.lineTo((x1 / columns) * width, height - (y1 / lines) * height);
  });
  context.stroke();
  for (const [px, py, truth, labeled] of data.boundary.dots) {
    if (!labeled) continue;
    triangle(context, toX(px), toY(py), 9);
    context.fillStyle = classColor(truth);
    context.fill();
    context.stroke();
  }
}

const drawBoundaries = () => document.querySelectorAll("canvas.boundary").forEach(drawBoundary);

function prepareBoundary() {
  const legend = find("boundary-legend");
  if (!legend) return;
  const entries = data.classes.map((name, place) => [name, "", classColorName(place)]);
  if (data.boundary.dots.some((dot) => dot[2] < 0)) entries.push(["class not known", "", "var(--baseline)"]);
  entries.push(["labelled", "triangle", ""], ["boundary, p = 0.5", "line", "var(--text)"]);
  for (const [label, kind, css] of entries) {
    const item = element("span", label);
    const mark = element("i", "", kind);
    if (css) mark.style.setProperty("--color", css);
    item.prepend(mark);
    legend.append(item);
  }
  const watcher = new ResizeObserver((changes) => changes.forEach(({ target }) => {
    if (target.drawnWidth !== target.clientWidth) drawBoundary(target);
    target.drawnWidth = target.clientWidth;
  }));
  document.querySelectorAll("canvas.boundary").forEach((canvas) => watcher.observe(canvas));
}

const classColorName = (place) => (place < 2 ? `var(--class-${place})` : classColor(place));
