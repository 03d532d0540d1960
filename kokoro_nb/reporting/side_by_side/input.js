// What keys and pointers do.

const actionOf = (player, key, shift) => {
  const { view } = player;
  const step = view.width / 40;
  const actions = {
    " ": () => player.toggle(),
    ArrowLeft: () => (shift ? player.move(-0.25) : player.go(player.sound.now() - step)),
    ArrowRight: () => (shift ? player.move(0.25) : player.go(player.sound.now() + step)),
    ArrowUp: () => player.next(-1),
    ArrowDown: () => player.next(1),
    Home: () => player.go(0),
    End: () => player.go(view.length),
    "+": () => player.zoom(2),
    "=": () => player.zoom(2),
    "-": () => player.zoom(0.5),
    0: () => player.look(0, view.length),
  };
  return /^[1-9]$/.test(key) ? () => player.choose(player.versions[key - 1]) : actions[key];
};

const onKeys = (player) => {
  player.figure.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actionOf(player, key, event.shiftKey);
    const pressed = key === " " && target.matches("button, input[type=checkbox], summary, a");
    const panned = target === player.ruler.pan && key !== " " && !/^[0-9+=-]$/.test(key);
    if (!action || pressed || panned) return;
    event.preventDefault();
    action();
  });
};

// A click seeks, dragging moves what is visible, the wheel zooms or moves it.
const onPointer = (player, track) => {
  const { view } = player;
  let held = null;
  track.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    held = { x: event.clientX, from: view.from, moved: false };
    track.setPointerCapture(event.pointerId);
  });
  track.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.moved ||= Math.abs(event.clientX - held.x) > 4;
    const from = held.from - ((event.clientX - held.x) / track.clientWidth) * view.width;
    if (held.moved) player.look(from, from + view.width);
  });
  track.addEventListener("pointerup", (event) => {
    if (held && !held.moved) player.go(sampleAt(event, track, view));
    player.sound.chosen?.radio.focus({ preventScroll: true }); // for the keys
    held = null;
  });
  track.addEventListener("pointercancel", () => { held = null; });
  track.addEventListener("wheel", (event) => onWheel(event, player, track), { passive: false });
};

const sampleAt = (event, track, view) => {
  const box = track.getBoundingClientRect();
  return view.from + ((event.clientX - box.left) / box.width) * view.width;
};

const onWheel = (event, player, track) => {
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  const upright = event.shiftKey ? 0 : Math.abs(event.deltaY);
  if (!event.ctrlKey && Math.abs(sideways) <= upright) return; // the page scrolls
  event.preventDefault();
  if (event.ctrlKey) player.zoom(2 ** (-event.deltaY / 200), sampleAt(event, track, player.view));
  else player.move(sideways / track.clientWidth);
};
