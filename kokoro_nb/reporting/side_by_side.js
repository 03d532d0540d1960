(() => {
  "use strict";
  const FADE = 0.005; // seconds from one version to the next: no click, and nothing is missed
  const LEAST = 24; // samples in view when nothing can be enlarged further
  const BROKEN = -128;
  const contexts = new Map();

  const make = (tag, properties = {}, children = []) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const limit = (value, low, high) => Math.min(Math.max(value, low), high);
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const counted = (value) => Math.round(value).toLocaleString("en");
  const small = (value) => (value && (value < 1e-3 || value >= 1e4) ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(3))));

  // A page embeds a sound once: a version that sounds like an earlier one has a link to it.
  const soundOf = (row) => {
    const own = row.querySelector("audio");
    const link = row.querySelector(".again a");
    if (own || !link) return own;
    const there = document.getElementById(link.getAttribute("href").slice(1));
    return there && (there.matches("audio") ? there : there.querySelector("audio"));
  };

  const decoded = async (audio, rate) => {
    const source = audio.getAttribute("src");
    const bytes = bytesOf(source.slice(source.indexOf(",") + 1));
    return new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes.buffer); // at this rate nothing is resampled
  };

  // The values of a curve: smallest and largest of each block, NaN where something is not finite.
  const envelope = (node) => {
    const peak = Number(node.dataset.peak);
    const values = new Int8Array(bytesOf(node.dataset.values || "AAA=").buffer);
    const at = (offset) => Float32Array.from({ length: values.length >> 1 }, (_, n) => (values[2 * n + offset] === BROKEN ? NaN : (values[2 * n + offset] * peak) / 127));
    return { low: at(0), high: at(1), block: Number(node.dataset.block) || Infinity };
  };

  class Player {
    constructor(figure) {
      this.figure = figure;
      this.rate = Number(figure.dataset.rate);
      this.length = Number(figure.dataset.samples);
      this.hop = Number(figure.dataset.hop);
      this.gain = Number(figure.dataset.gain);
      this.from = 0;
      this.to = this.length;
      this.position = 0;
      this.sources = null;
    }

    async build() {
      const rows = [...this.figure.querySelectorAll(".knb-version")];
      this.versions = await Promise.all(rows.map((row) => this.version(row)));
      const playable = this.versions.filter((version) => version.buffer);
      if (playable.some((version) => version.buffer.length !== this.length)) throw new Error("a sound has another length");
      this.scale = Math.max(...playable.map((version) => version.peak), 0);
      this.chosen = playable[0];
      this.bar();
      this.versions.forEach((version, index) => this.tracks(version, index));
      this.below();
      this.listen();
      this.figure.classList.add("knb-live");
      this.figure.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take the keys
      if (this.chosen) this.choose(this.chosen);
      this.draw();
      this.show();
    }

    async version(row) {
      const audio = soundOf(row);
      const wave = row.querySelector(".knb-waveform");
      const image = row.querySelector(".knb-spectrogram");
      await image.decode();
      return {
        row,
        name: row.querySelector(".knb-name b").textContent,
        image,
        buffer: audio && (await decoded(audio, this.rate)),
        peak: Number(wave.dataset.peak),
        wave,
        difference: row.querySelector(".knb-difference"),
      };
    }

    // -- what is added to the page

    bar() {
      const button = (text, label, action) => make("button", { type: "button", textContent: text, "aria-label": label, onclick: action });
      const toggle = (text, kind) => {
        const box = make("input", { type: "checkbox", checked: true });
        box.onchange = () => { this.figure.classList.toggle(`knb-no-${kind}`, !box.checked); this.draw(); };
        return make("label", {}, [box, ` ${text}`]);
      };
      this.button = make("button", { type: "button", className: "knb-play", onclick: () => this.toggle() });
      this.seek = make("input", { type: "range", className: "knb-seek", min: 0, max: this.length, step: 1, value: 0, "aria-label": "Position" });
      this.seek.oninput = () => this.go(Number(this.seek.value));
      this.time = make("span", { className: "knb-time" });
      this.heard = make("span", { className: "knb-heard", role: "status" });
      this.repeat = make("input", { type: "checkbox" });
      this.repeat.onchange = () => this.again();
      if (!this.chosen) this.button.disabled = this.seek.disabled = this.repeat.disabled = true;
      const zoom = make("span", { className: "knb-group", role: "group", "aria-label": "Zoom" }, [
        button("−", "Zoom out", () => this.zoom(0.5)),
        button("+", "Zoom in", () => this.zoom(2)),
        button("All", "Show all", () => this.look(0, this.length)),
      ]);
      const shown = make("span", { className: "knb-group", role: "group", "aria-label": "Show" }, [
        toggle("Spectrogram", "spectrogram"), toggle("Waveform", "waveform"), toggle("Difference", "difference"),
      ]);
      const first = make("div", { className: "knb-row" }, [this.button, this.seek, this.time, make("label", {}, [this.repeat, " Repeat"])]);
      const second = make("div", { className: "knb-row" }, [this.heard, shown, zoom]);
      this.figure.querySelector("figcaption").after(make("div", { className: "knb-bar" }, [first, second]));
    }

    tracks(version, index) {
      const { row, name } = version;
      const title = row.querySelector(".knb-name b");
      version.radio = make("input", { type: "radio", name: `knb-version-${Player.count}`, disabled: !version.buffer });
      version.radio.onchange = () => this.choose(version);
      const key = index < 9 ? [make("kbd", { textContent: index + 1, "aria-hidden": "true" }), " "] : [];
      const label = make("label", {});
      title.replaceWith(label);
      label.append(version.radio, " ", ...key, title);
      version.head = make("span", { className: "knb-head" });
      version.lanes = [this.lane("spectrogram", version.image.alt, null)];
      version.lanes[0].node.append(...this.hertz());
      version.lanes[0].paint = (pen, size) => this.spectrogram(pen, size, version.image);
      const scale = version.buffer ? this.scale : version.peak;
      const curves = [[version.wave, this.waveform(version), scale, "waveform"]];
      if (version.difference) curves.push([version.difference, envelope(version.difference), Number(version.difference.dataset.peak), "difference"]);
      for (const [node, values, full, kind] of curves) {
        const [what] = node.textContent.split(/: (?!.*: )/);
        const blocks = values.block > 1 ? `, extremes of every ${values.block} samples` : "";
        const about = full ? `${what}, scale ±${small(full)}${blocks}` : node.textContent;
        const lane = this.lane(kind, `${name}. ${about}`, about);
        const own = version.difference ? "#d55e00" : "#2a87c4"; // the reference is blue; both are seen on light and dark
        lane.paint = (pen, size, ink) => this.curve(pen, size, values, full * (values.gain || 1), kind === "difference" ? ink : own);
        version.lanes.push(lane);
      }
      const track = make("div", { className: "knb-track" }, [...version.lanes.map((lane) => lane.node), version.head]);
      version.track = track;
      row.append(track);
    }

    // Frequencies where they lie on Slaney's mel scale: linear up to 1 kHz, logarithmic beyond.
    hertz() {
      const mel = (hertz) => (hertz < 1000 ? (3 * hertz) / 200 : 15 + (27 * Math.log(hertz / 1000)) / Math.log(6.4));
      const shown = [1000, 4000].filter((hertz) => hertz < 0.4 * this.rate);
      return shown.map((hertz) => {
        const label = make("span", { className: "knb-hertz", textContent: `${hertz / 1000} kHz`, "aria-hidden": "true" });
        label.style.top = `${100 * (1 - mel(hertz) / mel(this.rate / 2))}%`;
        return label;
      });
    }

    waveform(version) {
      if (!version.buffer) return envelope(version.wave);
      const values = version.buffer.getChannelData(0);
      return { low: values, high: values, block: 1, gain: this.gain };
    }

    lane(kind, label, about) {
      const canvas = make("canvas", { role: "img", "aria-label": label });
      const node = make("div", { className: `knb-lane knb-lane-${kind}` }, [canvas]);
      if (about) canvas.before(make("span", { className: "knb-about", textContent: about, "aria-hidden": "true" }));
      return { canvas, node };
    }

    below() {
      this.axis = make("div", { className: "knb-ticks", "aria-hidden": "true" });
      this.pan = make("input", { type: "range", className: "knb-pan", min: 0, step: 1, "aria-label": "Move the visible part" });
      this.pan.oninput = () => this.look(Number(this.pan.value), Number(this.pan.value) + this.to - this.from);
      this.range = make("span", { className: "knb-range" });
      const keys = "Space plays, ← → seek, 1 to 9 or ↑ ↓ switch, + − 0 zoom, Shift + ← → moves; Ctrl + wheel zooms, dragging moves. Repeat plays the visible part.";
      const moved = make("div", { className: "knb-row" }, [this.range, this.pan]);
      this.figure.querySelector(".knb-list").after(make("div", { className: "knb-below" }, [this.axis, moved, make("p", { className: "knb-note knb-keys", textContent: keys })]));
    }

    listen() {
      const { figure } = this;
      const list = figure.querySelector(".knb-list");
      list.setAttribute("role", "radiogroup");
      list.setAttribute("aria-label", "Version that is heard");
      figure.addEventListener("keydown", (event) => this.key(event));
      this.versions.forEach(({ track }) => this.pointer(track));
      document.addEventListener("knb-play", (event) => { if (event.detail !== figure) this.stop(); });
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      new ResizeObserver(() => this.draw()).observe(figure);
    }

    // -- hearing

    get context() {
      // at the sound's own rate: what resamples then is the device, and better than a source node does
      if (!contexts.has(this.rate)) contexts.set(this.rate, new AudioContext({ sampleRate: this.rate }));
      return contexts.get(this.rate);
    }

    span() { return this.repeat.checked ? [this.from, this.to] : [0, this.length]; }

    play() {
      if (!this.chosen || this.sources) return;
      document.dispatchEvent(new CustomEvent("knb-play", { detail: this.figure }));
      const { context } = this;
      context.resume();
      const [start, end] = this.span();
      if (this.position < start || this.position >= end - 1) this.position = start;
      this.when = context.currentTime + 0.02;
      this.begun = this.position;
      // every version runs, in step to the sample, and one of them is let through
      this.sources = this.versions.filter((version) => version.buffer).map((version) => {
        const source = context.createBufferSource();
        version.volume = context.createGain();
        version.volume.gain.value = version === this.chosen ? 1 : 0;
        source.buffer = version.buffer;
        source.loop = this.repeat.checked;
        [source.loopStart, source.loopEnd] = [start / this.rate, end / this.rate];
        source.connect(version.volume).connect(context.destination);
        source.start(this.when, this.position / this.rate);
        return source;
      });
      this.tick();
      this.show();
    }

    stop() {
      if (!this.sources) return;
      this.position = this.now();
      this.sources.forEach((source) => { source.stop(); source.disconnect(); });
      this.sources = null;
      this.show();
    }

    toggle() {
      if (this.sources) this.stop();
      else this.play();
    }

    again() {
      if (!this.sources) return;
      this.stop();
      this.play();
    }

    now() {
      if (!this.sources) return this.position;
      const { context } = this;
      const [start, end] = this.span();
      const at = this.begun + Math.max(0, context.currentTime - this.when - (context.outputLatency || 0)) * this.rate;
      return this.repeat.checked && at >= end ? start + ((at - start) % (end - start)) : Math.min(at, this.length);
    }

    tick() {
      if (!this.sources) return;
      this.position = this.now();
      if (this.position >= this.length) this.stop();
      else {
        if (this.position >= this.to && !this.repeat.checked) this.look(this.position, this.position + this.to - this.from);
        requestAnimationFrame(() => this.tick());
      }
      this.place();
    }

    choose(version) {
      if (!version || !version.buffer) return;
      this.chosen = version;
      if (this.sources) {
        const time = this.context.currentTime;
        this.versions.filter(({ volume }) => volume).forEach((one) => {
          one.volume.gain.setValueAtTime(one.volume.gain.value, time);
          one.volume.gain.linearRampToValueAtTime(one === version ? 1 : 0, time + FADE);
        });
      }
      this.versions.forEach((one) => one.row.classList.toggle("knb-chosen", one === version));
      version.radio.checked = true;
      this.heard.textContent = `Version ${this.versions.indexOf(version) + 1} of ${this.versions.length}: ${version.name}`;
    }

    go(position) {
      const playing = Boolean(this.sources);
      this.stop();
      this.position = limit(position, 0, this.length);
      if (this.position < this.from || this.position > this.to) this.look(this.position - (this.to - this.from) / 2, this.position + (this.to - this.from) / 2);
      if (playing) this.play();
      this.place();
    }

    // -- seeing

    look(from, to) {
      const repeating = this.sources && this.repeat.checked;
      if (repeating) this.stop();
      const width = limit(to - from, Math.min(LEAST, this.length), this.length);
      this.from = limit(from, 0, this.length - width);
      this.to = this.from + width;
      this.draw();
      if (repeating) this.play();
    }

    zoom(factor, at) {
      const inside = this.position > this.from && this.position < this.to;
      const still = at ?? (inside ? this.position : (this.from + this.to) / 2);
      this.look(still - (still - this.from) / factor, still + (this.to - still) / factor);
    }

    move(share) {
      const step = share * (this.to - this.from);
      this.look(this.from + step, this.to + step);
    }

    draw() {
      const ink = getComputedStyle(this.figure).color;
      for (const { canvas, paint } of this.versions.flatMap((version) => version.lanes)) {
        const size = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * devicePixelRatio));
        if (!size[0] || !size[1]) continue;
        [canvas.width, canvas.height] = size; // which clears it
        paint(canvas.getContext("2d"), size, ink);
      }
      this.ticks();
      this.pan.max = this.length - (this.to - this.from);
      this.pan.value = this.from;
      this.pan.disabled = this.to - this.from >= this.length;
      this.range.textContent = `Visible: ${this.seconds(this.from)} to ${this.seconds(this.to)} s (samples ${counted(this.from)} to ${counted(this.to)})`;
      this.place();
    }

    spectrogram(pen, [width, height], image) {
      const [left, right] = [this.from, this.to].map((sample) => sample / this.hop + 0.5); // frame t is centred at t * hop
      pen.imageSmoothingEnabled = right - left > width;
      pen.drawImage(image, left, 0, right - left, image.naturalHeight, 0, 0, width, height);
    }

    curve(pen, [width, height], { low, high, block }, scale, ink) {
      const middle = height / 2;
      const y = (value) => middle - (scale ? (value / scale) * (middle - 2 * devicePixelRatio) : 0);
      const perPixel = (this.to - this.from) / width;
      pen.fillStyle = pen.strokeStyle = ink;
      pen.globalAlpha = 0.35;
      pen.fillRect(0, middle, width, 1);
      pen.globalAlpha = 1;
      if (block === 1 && perPixel < 1) return this.samples(pen, width, low, y);
      for (let x = 0; x < width; x += 1) {
        const first = Math.floor((this.from + x * perPixel) / block);
        const last = Math.max(first, Math.ceil((this.from + (x + 1) * perPixel) / block) - 1);
        let [least, most, broken] = [Infinity, -Infinity, false];
        for (let n = block === 1 ? Math.max(0, first - 1) : first; n <= last && n < low.length; n += 1) {
          broken ||= Number.isNaN(low[n]);
          least = Math.min(least, low[n]);
          most = Math.max(most, high[n]);
        }
        if (broken) this.stripe(pen, x, height);
        pen.fillStyle = ink;
        if (!broken && most >= least) pen.fillRect(x, y(most), 1, Math.max(devicePixelRatio, y(least) - y(most)));
      }
      return undefined;
    }

    samples(pen, width, values, y) {
      const x = (n) => ((n - this.from) / (this.to - this.from)) * width;
      const [first, last] = [Math.max(0, Math.floor(this.from)), Math.min(values.length - 1, Math.ceil(this.to))];
      const dots = x(1) - x(0) > 6 * devicePixelRatio;
      pen.lineWidth = 1.3 * devicePixelRatio;
      pen.beginPath();
      for (let n = first; n <= last; n += 1) {
        pen.lineTo(x(n), y(values[n]));
        if (dots) pen.fillRect(x(n) - 2 * devicePixelRatio, y(values[n]) - 2 * devicePixelRatio, 4 * devicePixelRatio, 4 * devicePixelRatio);
      }
      pen.stroke();
    }

    stripe(pen, x, height) {
      const [light, dark, width] = ["#bff2ff", "#00647f", 8 * devicePixelRatio];
      for (let top = -(x % width); top < height; top += width) {
        pen.fillStyle = light;
        pen.fillRect(x, top, 1, width);
        pen.fillStyle = dark;
        pen.fillRect(x, top, 1, width / 4);
      }
    }

    seconds(sample) {
      const digits = limit(Math.ceil(Math.log10((10 * this.rate) / (this.to - this.from))) + 1, 2, 5);
      return (sample / this.rate).toFixed(digits);
    }

    // Ticks at round seconds that are whole samples; closer together, at round numbers of samples.
    ticks() {
      const wanted = (this.to - this.from) / Math.max(2, this.axis.clientWidth / 110);
      const round = [0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
      const steps = [...round.map((one) => (one * this.rate) / 1e4).filter(Number.isInteger), ...round.filter((one) => one < this.rate / 1e3)];
      const step = Math.min(...steps.filter((one) => one >= wanted), this.length);
      const marks = [];
      const end = this.to - (70 / this.axis.clientWidth) * (this.to - this.from); // where a label still fits
      for (let at = Math.ceil(this.from / step) * step; at <= end; at += step) {
        const mark = make("span", {}, [make("b", { textContent: `${this.seconds(at)} s` }), make("i", { textContent: counted(at) })]);
        mark.style.left = `${(100 * (at - this.from)) / (this.to - this.from)}%`;
        marks.push(mark);
      }
      this.axis.replaceChildren(...marks);
    }

    place() {
      const share = (this.position - this.from) / (this.to - this.from);
      this.versions.forEach(({ head }) => { head.hidden = share < 0 || share > 1; head.style.left = `${100 * share}%`; });
      this.seek.value = this.position;
      this.time.textContent = `${(this.position / this.rate).toFixed(3)} s · sample ${counted(this.position)}`;
      this.seek.setAttribute("aria-valuetext", `${(this.position / this.rate).toFixed(2)} seconds, sample ${counted(this.position)}`);
    }

    show() {
      this.button.textContent = this.sources ? "Pause" : "Play";
      this.button.classList.toggle("knb-playing", Boolean(this.sources));
      this.place();
    }

    // -- keys and pointers

    key(event) {
      const { key, target } = event;
      const pans = target === this.pan;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = (this.to - this.from) / 40;
      const actions = {
        " ": () => this.toggle(),
        ArrowLeft: () => (event.shiftKey ? this.move(-0.25) : this.go(this.now() - step)),
        ArrowRight: () => (event.shiftKey ? this.move(0.25) : this.go(this.now() + step)),
        ArrowUp: () => this.next(-1),
        ArrowDown: () => this.next(1),
        Home: () => this.go(0),
        End: () => this.go(this.length),
        "+": () => this.zoom(2),
        "=": () => this.zoom(2),
        "-": () => this.zoom(0.5),
        0: () => this.look(0, this.length),
      };
      const action = /^[1-9]$/.test(key) ? () => this.choose(this.versions[key - 1]) : actions[key];
      const own = key === " " && target.matches("button, input[type=checkbox], summary, a");
      if (!action || own || (pans && key !== " " && !/^[0-9+=-]$/.test(key))) return;
      event.preventDefault();
      action();
    }

    next(step) {
      const playable = this.versions.filter((version) => version.buffer);
      const version = playable[(playable.indexOf(this.chosen) + step + playable.length) % playable.length];
      this.choose(version);
      if (version && document.activeElement?.type === "radio") version.radio.focus();
    }

    pointer(track) {
      const sample = (event) => {
        const box = track.getBoundingClientRect();
        return this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
      };
      let held = null;
      track.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        held = { x: event.clientX, from: this.from, moved: false };
        track.setPointerCapture(event.pointerId);
      });
      track.addEventListener("pointermove", (event) => {
        if (!held) return;
        held.moved ||= Math.abs(event.clientX - held.x) > 4;
        const from = held.from - ((event.clientX - held.x) / track.clientWidth) * (this.to - this.from);
        if (held.moved) this.look(from, from + this.to - this.from);
      });
      track.addEventListener("pointerup", (event) => {
        if (held && !held.moved) this.go(sample(event));
        this.chosen?.radio.focus({ preventScroll: true }); // for the keys
        held = null;
      });
      track.addEventListener("pointercancel", () => { held = null; });
      track.addEventListener("wheel", (event) => {
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
        if (!event.ctrlKey && Math.abs(sideways) <= (event.shiftKey ? 0 : Math.abs(event.deltaY))) return; // the page scrolls
        event.preventDefault();
        if (event.ctrlKey) this.zoom(2 ** (-event.deltaY / 200), sample(event));
        else this.move(sideways / track.clientWidth);
      }, { passive: false });
    }
  }

  Player.count = Math.floor(Math.random() * 1e9); // in JupyterLab this script runs once per figure

  const begin = async (figure) => {
    Player.count += 1;
    try {
      await new Player(figure).build();
      figure.dataset.live = "yes";
    } catch (error) {
      figure.dataset.live = "no"; // what is there without this script stays
      console.warn(error);
    }
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) { seen.unobserve(target); begin(target); }
    }
  }, { rootMargin: "600px" });
  for (const figure of document.querySelectorAll("figure.knb-versions:not([data-live])")) {
    figure.dataset.live = "waiting";
    seen.observe(figure);
  }
})();
