// Every figure of the page becomes a player when it comes near to what is seen.

const begin = async (figure) => {
  try {
    const rows = [...figure.querySelectorAll(".knb-version")];
    const versions = await Promise.all(rows.map((row) => readVersion(row, Number(figure.dataset.rate))));
    new Player(figure, versions);
    figure.dataset.live = "yes";
  } catch (error) {
    figure.dataset.live = "no"; // what is there without this script stays
    console.warn(error);
  }
};

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) { near.unobserve(target); begin(target); }
  }
}, { rootMargin: "600px" });

for (const figure of document.querySelectorAll("figure.knb-versions:not([data-live])")) {
  figure.dataset.live = "waiting";
  near.observe(figure);
}
