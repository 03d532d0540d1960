// The lanes of a version, one below the other: its spectrogram, its waveform, its difference to the reference.

const REFERENCE = "#2a87c4";
const OTHERS = "#d55e00"; // both are seen on light and dark

// `paint` is given a pen, the size of the canvas in pixels, what is visible, and the colour of the text.
const lane = (kind, label, about, paint) => {
  const canvas = make("canvas", { role: "img", "aria-label": label });
  const node = make("div", { className: `knb-lane knb-lane-${kind}` }, [canvas]);
  if (about) canvas.before(make("span", { className: "knb-about", textContent: about, "aria-hidden": "true" }));
  return { canvas, node, paint };
};

const spectrogramLane = ({ image }, rate, hop) => {
  const made = lane("spectrogram", image.alt, null, (pen, size, view) => paintSpectrogram(pen, size, view, image, hop));
  made.node.append(...frequencies(rate));
  return made;
};

// Frequencies where they lie on Slaney's mel scale: linear up to 1 kHz, logarithmic beyond.
const frequencies = (rate) => {
  const mel = (hertz) => (hertz < 1000 ? (3 * hertz) / 200 : 15 + (27 * Math.log(hertz / 1000)) / Math.log(6.4));
  const shown = [1000, 4000].filter((hertz) => hertz < 0.4 * rate);
  return shown.map((hertz) => {
    const label = make("span", { className: "knb-hertz", textContent: `${hertz / 1000} kHz`, "aria-hidden": "true" });
    label.style.top = `${100 * (1 - mel(hertz) / mel(rate / 2))}%`;
    return label;
  });
};

// A curve that `node` tells of, filling its lane at the value `full`; without a colour it has that of the text.
const curveLane = (kind, name, node, curve, full, colour) => {
  const [what] = node.textContent.split(/: (?!.*: )/);
  const blocks = curve.block > 1 ? `, extremes of every ${curve.block} samples` : "";
  const about = full ? `${what}, scale ±${small(full)}${blocks}` : node.textContent;
  return lane(kind, `${name}. ${about}`, about, (pen, size, view, ink) => {
    paintCurve(pen, size, view, curve, full * curve.gain, colour ?? ink);
  });
};

// What is played was multiplied by `gain`, and is drawn at the scale of the loudest; what cannot be, at its own.
const waveformLane = ({ name, wave, buffer, peak, difference }, loudest, gain) => {
  const samples = buffer?.getChannelData(0);
  const curve = samples ? { low: samples, high: samples, block: 1, gain } : envelope(wave);
  return curveLane("waveform", name, wave, curve, samples ? loudest : peak, difference ? OTHERS : REFERENCE);
};

const differenceLane = ({ name, difference }) =>
  curveLane("difference", name, difference, envelope(difference), Number(difference.dataset.peak));

const lanesOf = (version, { rate, hop, gain, loudest }) => [
  spectrogramLane(version, rate, hop),
  waveformLane(version, loudest, gain),
  ...(version.difference ? [differenceLane(version)] : []),
];
