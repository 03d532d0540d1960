// How the visible part of a picture or a curve is painted; `pen` is the context of a canvas, sizes are in its pixels.

const BROKEN = -128;
const STRIPES = ["#bff2ff", "#00647f"];

// The values of a curve: smallest and largest of each block, NaN where something is not finite.
const envelope = (node) => {
  const peak = Number(node.dataset.peak);
  const values = new Int8Array(bytesOf(node.dataset.values || "AAA=").buffer);
  const value = (one) => (one === BROKEN ? NaN : (one * peak) / 127);
  const at = (offset) => Float32Array.from({ length: values.length >> 1 }, (_, n) => value(values[2 * n + offset]));
  return { low: at(0), high: at(1), block: Number(node.dataset.block) || Infinity, gain: 1 };
};

const paintSpectrogram = (pen, [width, height], view, image, hop) => {
  const [left, right] = [view.from, view.to].map((sample) => sample / hop + 0.5); // frame t is centred at t * hop
  pen.imageSmoothingEnabled = right - left > width;
  pen.drawImage(image, left, 0, right - left, image.naturalHeight, 0, 0, width, height);
};

const paintCurve = (pen, [width, height], view, curve, scale, ink) => {
  const middle = height / 2;
  const y = (value) => middle - (scale ? (value / scale) * (middle - 2 * devicePixelRatio) : 0);
  pen.fillStyle = pen.strokeStyle = ink;
  pen.globalAlpha = 0.35;
  pen.fillRect(0, middle, width, 1);
  pen.globalAlpha = 1;
  if (curve.block === 1 && view.width < width) paintSamples(pen, width, view, curve.low, y);
  else paintExtremes(pen, [width, height], view, curve, y, ink);
};

const paintSamples = (pen, width, view, values, y) => {
  const x = (n) => view.share(n) * width;
  const [first, last] = [Math.max(0, Math.floor(view.from)), Math.min(values.length - 1, Math.ceil(view.to))];
  const dot = 4 * devicePixelRatio;
  const dots = x(1) - x(0) > 1.5 * dot;
  pen.lineWidth = 1.3 * devicePixelRatio;
  pen.beginPath();
  for (let n = first; n <= last; n += 1) {
    pen.lineTo(x(n), y(values[n]));
    if (dots) pen.fillRect(x(n) - dot / 2, y(values[n]) - dot / 2, dot, dot);
  }
  pen.stroke();
};

const paintExtremes = (pen, [width, height], view, curve, y, ink) => {
  const perPixel = view.width / width;
  for (let x = 0; x < width; x += 1) {
    const [least, most, broken] = extremes(curve, view.from + x * perPixel, view.from + (x + 1) * perPixel);
    if (broken) paintStripe(pen, x, height);
    pen.fillStyle = ink;
    if (!broken && most >= least) pen.fillRect(x, y(most), 1, Math.max(devicePixelRatio, y(least) - y(most)));
  }
};

// Smallest and largest value between two samples, and whether any there is not finite.
const extremes = ({ low, high, block }, from, to) => {
  const first = Math.floor(from / block);
  const last = Math.max(first, Math.ceil(to / block) - 1);
  let [least, most, broken] = [Infinity, -Infinity, false];
  // single samples are joined to the one before
  for (let n = block === 1 ? Math.max(0, first - 1) : first; n <= last && n < low.length; n += 1) {
    broken ||= Number.isNaN(low[n]);
    least = Math.min(least, low[n]);
    most = Math.max(most, high[n]);
  }
  return [least, most, broken];
};

const paintStripe = (pen, x, height) => {
  const [light, dark] = STRIPES;
  const width = 8 * devicePixelRatio;
  for (let top = -(x % width); top < height; top += width) {
    pen.fillStyle = light;
    pen.fillRect(x, top, 1, width);
    pen.fillStyle = dark;
    pen.fillRect(x, top, 1, width / 4);
  }
};
