// The bar above the versions: play, seek, repeat, what is shown, zoom.

class Bar {
  constructor(player) {
    this.player = player;
    this.button = make("button", { type: "button", className: "knb-play", onclick: () => player.toggle() });
    this.seek = make("input", {
      type: "range", className: "knb-seek", min: 0, max: player.view.length, step: 1, value: 0,
      "aria-label": "Position",
    });
    this.seek.oninput = () => player.go(Number(this.seek.value));
    this.time = make("span", { className: "knb-time" });
    this.heard = make("span", { className: "knb-heard", role: "status" });
    this.repeat = make("input", { type: "checkbox" });
    this.repeat.onchange = () => player.again();
    const repeat = make("label", {}, [this.repeat, " Repeat"]);
    this.node = make("div", { className: "knb-bar" }, [
      make("div", { className: "knb-row" }, [this.button, this.seek, this.time, repeat]),
      make("div", { className: "knb-row" }, [this.heard, this.lanes(), this.zoom()]),
    ]);
  }

  lanes() {
    const { player } = this;
    const toggle = (text, kind) => {
      const box = make("input", { type: "checkbox", checked: true });
      box.onchange = () => { player.figure.classList.toggle(`knb-no-${kind}`, !box.checked); player.draw(); };
      return make("label", {}, [box, ` ${text}`]);
    };
    return make("span", { className: "knb-group", role: "group", "aria-label": "Show" }, [
      toggle("Spectrogram", "spectrogram"), toggle("Waveform", "waveform"),
      ...(player.versions.length > 1 ? [toggle("Difference", "difference")] : []),
    ]);
  }

  zoom() {
    const { player } = this;
    const button = (text, label, action) =>
      make("button", { type: "button", textContent: text, "aria-label": label, onclick: action });
    return make("span", { className: "knb-group", role: "group", "aria-label": "Zoom" }, [
      button("−", "Zoom out", () => player.zoom(0.5)),
      button("+", "Zoom in", () => player.zoom(2)),
      button("All", "Show all", () => player.look(0, player.view.length)),
    ]);
  }

  // Where there is nothing to play.
  disable() { this.button.disabled = this.seek.disabled = this.repeat.disabled = true; }

  show(playing) {
    this.button.textContent = playing ? "Pause" : "Play";
    this.button.classList.toggle("knb-playing", playing);
  }

  place(position, rate) {
    const sample = `sample ${counted(position)}`;
    this.seek.value = position;
    this.time.textContent = `${(position / rate).toFixed(3)} s · ${sample}`;
    this.seek.setAttribute("aria-valuetext", `${(position / rate).toFixed(2)} seconds, ${sample}`);
  }
}
