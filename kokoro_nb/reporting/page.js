(() => {
  const all = [...document.querySelectorAll("details.code")];
  const eyebrow = document.querySelector(".eyebrow");
  if (!all.length || !eyebrow) return;
  const button = document.createElement("button");
  button.type = "button";
  const label = () => { button.textContent = all.every((cell) => cell.open) ? "Hide code" : "Show all code"; };
  button.addEventListener("click", () => {
    const open = !all.every((cell) => cell.open);
    all.forEach((cell) => { cell.open = open; });
    label();
  });
  label();
  eyebrow.append(button);
})();
