"""What tests in a browser look at: how much is drawn on a canvas, and what went wrong on a page."""

import pytest

_COLOURS = """canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, found = new Set();
  for (let i = 0; i < pixels.length; i += 4)
    found.add((pixels[i] << 24) + (pixels[i + 1] << 16) + (pixels[i + 2] << 8) + pixels[i + 3]);
  return found.size;
}"""


def colours(page, selector):
    """The number of colours on the first canvas that a selector finds; 1 if nothing is drawn."""
    return page.locator(selector).first.evaluate(_COLOURS)


def serious_violations(page):
    """What axe-core finds serious or critical: for each rule, an element that breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    violations = axe.Axe().run(page).response["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    return {each["id"]: each["nodes"][0]["html"][:200] for each in serious}


def watched(page):
    """A list that fills with what goes wrong: errors, messages of the console, and requests that leave this machine."""
    problems = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    local = ("file:", "data:", "blob:", "http://127.0.0.1:")
    page.on("request", lambda request: None if request.url.startswith(local) else problems.append(request.url))
    return problems
