// What the other parts use: elements of the page, figures in words, bytes.

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

const counted = (value) => Math.round(value).toLocaleString("en");

const small = (value) => {
  if (value && (value < 1e-3 || value >= 1e4)) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(3)));
};

const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
