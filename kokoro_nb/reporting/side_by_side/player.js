// One player of all versions of a figure: what is heard, what is visible, and the controls of both.

let players = Math.floor(Math.random() * 1e9); // in JupyterLab this script runs once per figure

class Player {
  constructor(figure, versions) {
    const [rate, length, hop, gain] = ["rate", "samples", "hop", "gain"].map((name) => Number(figure.dataset[name]));
    this.figure = figure;
    this.versions = versions;
    this.view = new View(length, rate);
    this.sound = new Sound(versions, length, rate, () => this.repeated());
    this.bar = new Bar(this);
    this.ruler = new Ruler(this);
    if (!this.sound.chosen) this.bar.disable();
    const loudest = Math.max(...this.sound.playable.map(({ peak }) => peak), 0);
    players += 1;
    versions.forEach((version, index) => {
      extendVersion(version, index, `knb-version-${players}`, lanesOf(version, { rate, hop, gain, loudest }));
    });
    this.extend();
    this.listen();
    this.choose(this.sound.chosen);
    this.draw();
    this.show();
  }

  extend() {
    const { figure } = this;
    const list = figure.querySelector(".knb-list");
    list.setAttribute("role", "radiogroup");
    list.setAttribute("aria-label", "Version that is heard");
    list.after(this.ruler.node);
    figure.querySelector("figcaption").after(this.bar.node);
    figure.classList.add("knb-live");
    figure.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take the keys
  }

  listen() {
    const { figure } = this;
    onKeys(this);
    for (const version of this.versions) {
      version.radio.onchange = () => this.choose(version);
      onPointer(this, version.track);
    }
    document.addEventListener("knb-play", (event) => { if (event.detail !== figure) this.stop(); });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  // -- hearing

  repeated() { return this.bar.repeat.checked ? [this.view.from, this.view.to] : null; }

  play() {
    if (!this.sound.chosen || this.sound.playing) return;
    document.dispatchEvent(new CustomEvent("knb-play", { detail: this.figure }));
    this.sound.play();
    this.tick();
    this.show();
  }

  stop() {
    if (!this.sound.playing) return;
    this.sound.stop();
    this.show();
  }

  toggle() {
    if (this.sound.playing) this.stop();
    else this.play();
  }

  again() {
    if (!this.sound.playing) return;
    this.stop();
    this.play();
  }

  tick() {
    const { sound, view } = this;
    if (!sound.playing) return;
    sound.position = sound.now();
    if (sound.position >= view.length) this.stop();
    else {
      if (sound.position >= view.to && !this.bar.repeat.checked) this.look(sound.position, sound.position + view.width);
      requestAnimationFrame(() => this.tick());
    }
    this.place();
  }

  choose(version) {
    if (!version?.buffer) return;
    this.sound.choose(version);
    this.versions.forEach((one) => one.row.classList.toggle("knb-chosen", one === version));
    version.radio.checked = true;
    const number = this.versions.indexOf(version) + 1;
    this.bar.heard.textContent = `Version ${number} of ${this.versions.length}: ${version.name}`;
  }

  next(step) {
    const { playable, chosen } = this.sound;
    const version = playable[(playable.indexOf(chosen) + step + playable.length) % playable.length];
    this.choose(version);
    if (version && document.activeElement?.type === "radio") version.radio.focus();
  }

  go(sample) {
    const { sound, view } = this;
    const { playing } = sound;
    this.stop();
    sound.position = limit(sample, 0, view.length);
    const hidden = sound.position < view.from || sound.position > view.to;
    if (hidden) this.look(sound.position - view.width / 2, sound.position + view.width / 2);
    if (playing) this.play();
    this.place();
  }

  // -- seeing

  look(from, to) {
    const repeating = this.sound.playing && this.bar.repeat.checked;
    if (repeating) this.stop(); // what is repeated is the visible part
    this.view.look(from, to);
    this.draw();
    if (repeating) this.play();
  }

  // Enlarge what is visible; the sample `at` stays where it is, by default the position, or else the middle.
  zoom(factor, at) {
    const { sound: { position }, view: { from, to } } = this;
    const inside = position > from && position < to;
    const still = at ?? (inside ? position : (from + to) / 2);
    this.look(still - (still - from) / factor, still + (to - still) / factor);
  }

  move(share) {
    const { from, to, width } = this.view;
    this.look(from + share * width, to + share * width);
  }

  draw() {
    const ink = getComputedStyle(this.figure).color;
    for (const { canvas, paint } of this.versions.flatMap((version) => version.lanes)) {
      const size = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * devicePixelRatio));
      if (!size[0] || !size[1]) continue;
      [canvas.width, canvas.height] = size; // which clears it
      paint(canvas.getContext("2d"), size, this.view, ink);
    }
    this.ruler.draw();
    this.place();
  }

  show() {
    this.bar.show(this.sound.playing);
    this.place();
  }

  place() {
    const { sound: { position }, view } = this;
    const share = view.share(position);
    this.versions.forEach(({ head }) => { head.hidden = share < 0 || share > 1; head.style.left = `${100 * share}%`; });
    this.bar.place(position, view.rate);
  }
}
