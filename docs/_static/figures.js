// A click on a figure, or Enter when it has the focus, opens it at full size; Escape or another click closes it.
document.addEventListener("DOMContentLoaded", () => {
  // Sphinx links scaled images to their file: those open enlarged, too. Images that link elsewhere do not.
  const linkOf = (image) => image.closest("a");
  const images = [...document.querySelectorAll(".bd-article img")].filter(
    (image) => !linkOf(image) || linkOf(image).classList.contains("image-reference"),
  );
  if (images.length === 0) return;

  const dialog = document.createElement("dialog");
  dialog.className = "enlarged-figure";
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  // The theme's search prevents what Escape does by default.
  document.addEventListener("keydown", (event) => event.key === "Escape" && dialog.close(), { capture: true });

  for (const image of images) {
    const open = (event) => {
      event.preventDefault();
      const enlarged = new Image();
      enlarged.src = image.currentSrc || image.src;
      enlarged.alt = image.alt;
      dialog.replaceChildren(enlarged);
      dialog.setAttribute("aria-label", image.alt);
      dialog.showModal();
    };
    const target = linkOf(image) || image;
    image.classList.add("can-enlarge");
    target.tabIndex = 0;
    target.title = "Click to enlarge";
    target.addEventListener("click", open);
    target.addEventListener("keydown", (event) => event.key === "Enter" && open(event));
  }
});
