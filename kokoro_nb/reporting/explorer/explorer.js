const CHUNK = 120; // rows that are drawn at once; the next ones when the last come into sight
const PATIENCE = 4000; // milliseconds until a kernel that does not answer is spoken of
const NAMES = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const VERDICTS = ["fail", "unknown", "pass", ""];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function figure(value) {
  // as kokoro_nb.markup.number has it
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "-∞" : "∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value.toLocaleString("en-US");
  if (size >= 1e-3 && size < 1e6) {
    return size < 9999.5 ? String(Number(value.toPrecision(4))) : Math.round(value).toLocaleString("en-US");
  }
  const [mantissa, exponent] = value.toExponential(3).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

function decoded(cell, column) {
  return column.figures && typeof cell === "string" ? NAMES[cell] : cell;
}

function rank(value, column) {
  if (column.head === "verdict") return VERDICTS.indexOf(value);
  if (!column.figures) return value;
  if (value === null) return null;
  return Number.isNaN(value) ? Infinity : value; // what is no number is worse than any
}

function compare(one, other, column, direction) {
  const [a, b] = [rank(one, column), rank(other, column)];
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1; // what was not captured stays below
  return (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b) * direction;
}

function place(names, head) {
  return names.findIndex((column) => column.head === head);
}

function cellOf(value, column) {
  if (column.head === "verdict") {
    return element("td", {}, ...(value ? [element("span", { class: `knb-chip knb-${value}` }, value)] : []));
  }
  const text = value === null ? "" : column.figures ? figure(value) : value;
  const cell = element("td", column.figures ? { class: "knb-number" } : {}, text);
  const bad = column.figures && value !== null && (!Number.isFinite(value) || (column.head === "finite %" && value < 100));
  if (bad) cell.classList.add("knb-bad");
  return cell;
}

function render({ model, el }) {
  const { summary, columns, rows: coded } = model.get("operators");
  const rows = coded.map((row) => row.map((cell, index) => decoded(cell, columns[index])));
  const [name, finite, verdict] = ["operator", "finite %", "verdict"].map((head) => place(columns, head));
  const choices = {
    "all operators": () => true,
    "wrong by themselves": (row) => verdict >= 0 && row[verdict] === "fail",
    "not finite": (row) => row[finite] !== null && !(row[finite] === 100),
    "not captured": (row) => finite < 0 || row[finite] === null,
  };
  let [sorted, direction, shown, chosen, drawn] = [0, 1, rows, null, 0];

  const search = element("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", class: "knb-search" });
  const which = element("select", { "aria-label": "Which operators" }, ...Object.keys(choices).map((text) => element("option", {}, text)));
  const count = element("span", { class: "knb-count", role: "status" });
  const body = element("tbody");
  const heads = columns.map((column, index) => {
    const button = element("button", { type: "button", title: column.title }, column.head);
    button.addEventListener("click", () => {
      direction = sorted === index ? -direction : column.figures && index > 0 ? -1 : 1;
      sorted = index;
      update();
    });
    return element("th", { scope: "col", ...(column.figures ? { class: "knb-number" } : {}) }, button);
  });
  const table = element("table", { class: "knb-table" }, element("thead", {}, element("tr", {}, ...heads)), body);
  const scroller = element("div", { class: "knb-rows", tabindex: "0", role: "region", "aria-label": "Operators" }, table);
  const pane = element("section", { class: "knb-detail", tabindex: "-1", "aria-label": "Operator" }, element("p", { class: "knb-about" }, "Choose an operator to see its channels, its values and its neighbours."));

  function draw() {
    for (const row of shown.slice(drawn, drawn + CHUNK)) {
      const line = element("tr", { "data-row": row[name] }, ...row.map((value, index) => cellOf(value, columns[index])));
      const button = element("button", { type: "button", class: "knb-go", title: row[name] }, row[name]);
      line.children[name].replaceChildren(button);
      if (row[name] === chosen) mark(line);
      body.append(line);
    }
    drawn = Math.min(drawn + CHUNK, shown.length);
  }

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = choices[which.value];
    shown = rows.filter((row) => wanted(row) && words.every((word) => row[name].toLowerCase().includes(word)));
    shown.sort((one, other) => compare(one[sorted], other[sorted], columns[sorted], direction) || one[0] - other[0]);
    heads.forEach((head, index) => {
      if (index === sorted) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    count.textContent = `${figure(shown.length)} of ${figure(rows.length)} shown`;
    body.replaceChildren();
    drawn = 0;
    scroller.scrollTop = 0;
    draw();
  }

  function mark(line) {
    body.querySelector("[aria-current]")?.removeAttribute("aria-current");
    line?.setAttribute("aria-current", "true");
  }

  function lineOf(operator) {
    return [...body.children].find((line) => line.dataset.row === operator);
  }

  function choose(operator) {
    chosen = operator;
    while (!lineOf(operator) && drawn < shown.length) draw();
    mark(lineOf(operator));
    lineOf(operator)?.scrollIntoView({ block: "nearest" });
    const waiting = element("p", { class: "knb-about", role: "status" }, "…");
    pane.replaceChildren(waiting);
    setTimeout(() => {
      if (waiting.isConnected) {
        waiting.textContent = "The kernel has not answered: it is busy, or it has ended; then run the cell again.";
      }
    }, PATIENCE);
    model.send({ name: operator });
  }

  function answered({ question, html }) {
    if (question?.name !== chosen) return; // another one was chosen since
    pane.innerHTML = html; // made by the kernel, which has escaped every name
  }

  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line) choose(line.dataset.row);
  });
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && event.target.closest("tr")?.[step]?.querySelector("button");
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  scroller.addEventListener("scroll", () => {
    if (drawn < shown.length && scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 400) draw();
  });
  pane.addEventListener("click", (event) => {
    const operator = event.target.closest("button")?.dataset.operator;
    if (!operator) return;
    choose(operator);
    pane.focus({ preventScroll: true }); // what was pressed is about to go
  });
  search.addEventListener("input", update);
  which.addEventListener("change", update);
  model.on("msg:custom", answered);

  update();
  el.replaceChildren(
    element(
      "div",
      { class: "knb knb-explorer knb-live" },
      element("p", { class: "knb-summary" }, summary),
      element("div", { class: "knb-tools" }, search, which, count),
      scroller,
      pane,
    ),
  );
  return () => model.off("msg:custom", answered);
}

export default { render };
