// One version: what the page says of it, and what is added to that.

const readVersion = async (row, rate) => {
  const audio = soundOf(row);
  const wave = row.querySelector(".knb-waveform");
  const image = row.querySelector(".knb-spectrogram");
  await image.decode();
  return {
    row,
    name: row.querySelector(".knb-name b").textContent,
    image,
    buffer: audio && (await decoded(audio, rate)),
    peak: Number(wave.dataset.peak),
    wave,
    difference: row.querySelector(".knb-difference"),
  };
};

// Add the choice and the key of a version, its lanes, and the head over them.
const extendVersion = (version, index, group, lanes) => {
  const title = version.row.querySelector(".knb-name b");
  const radio = make("input", { type: "radio", name: group, disabled: !version.buffer });
  const key = index < 9 ? [make("kbd", { textContent: index + 1, "aria-hidden": "true" }), " "] : [];
  const label = make("label", {});
  title.replaceWith(label);
  label.append(radio, " ", ...key, title);
  const head = make("span", { className: "knb-head" });
  const track = make("div", { className: "knb-track" }, [...lanes.map(({ node }) => node), head]);
  version.row.append(track);
  Object.assign(version, { radio, lanes, head, track });
};
