// The ruler below the versions: ticks, which part is visible, a slider that moves it, and the keys.

const KEYS =
  "Space plays, ← → seek, 1 to 9 or ↑ ↓ switch, + − 0 zoom, Shift + ← → moves; Ctrl + wheel zooms, dragging moves. " +
  "Repeat plays the visible part.";

class Ruler {
  constructor(player) {
    this.view = player.view;
    this.axis = make("div", { className: "knb-ticks", "aria-hidden": "true" });
    this.pan = make("input", {
      type: "range", className: "knb-pan", min: 0, step: 1, "aria-label": "Move the visible part",
    });
    this.pan.oninput = () => player.look(Number(this.pan.value), Number(this.pan.value) + this.view.width);
    this.range = make("span", { className: "knb-range" });
    this.node = make("div", { className: "knb-below" }, [
      this.axis,
      make("div", { className: "knb-row" }, [this.range, this.pan]),
      make("p", { className: "knb-note knb-keys", textContent: KEYS }),
    ]);
  }

  draw() {
    const { view, pan } = this;
    this.axis.replaceChildren(...view.ticks(this.axis.clientWidth).map((at) => this.tick(at)));
    pan.max = view.length - view.width;
    pan.value = view.from;
    pan.disabled = view.width >= view.length;
    const seconds = `${view.seconds(view.from)} to ${view.seconds(view.to)} s`;
    this.range.textContent = `Visible: ${seconds} (samples ${counted(view.from)} to ${counted(view.to)})`;
  }

  tick(at) {
    const seconds = make("b", { textContent: `${this.view.seconds(at)} s` });
    const mark = make("span", {}, [seconds, make("i", { textContent: counted(at) })]);
    mark.style.left = `${100 * this.view.share(at)}%`;
    return mark;
  }
}
