// A click on a figure, or Enter when it has the focus, opens it at full size; Escape or another click closes it.
document.addEventListener("DOMContentLoaded", () => {
  const images = [...document.querySelectorAll(".bd-article img")].filter((image) => !image.closest("a, .no-enlarge"));
  if (images.length === 0) return;

  const dialog = document.createElement("dialog");
  dialog.className = "enlarged-figure";
  const enlarged = document.createElement("img");
  dialog.append(enlarged);
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);

  for (const image of images) {
    const open = () => {
      enlarged.src = image.currentSrc || image.src;
      enlarged.alt = image.alt;
      dialog.setAttribute("aria-label", image.alt);
      dialog.showModal();
    };
    image.classList.add("can-enlarge");
    image.tabIndex = 0;
    image.title = "Click to enlarge";
    image.addEventListener("click", open);
    image.addEventListener("keydown", (event) => {
      if (event.key === "Enter") open();
    });
  }
});
