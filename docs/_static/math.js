// Renders every formula of a page with the bundled KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".math.notranslate")) {
    katex.render(element.textContent, element, { displayMode: element.tagName === "DIV", throwOnError: true });
  }
});
