"""The documentation as a website: it builds without warnings, and every page works in a browser without a network."""

import json
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from printed import agrees, check_printed

pytestmark = pytest.mark.slow  # builds the site, whose figures are drawn by running pages

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import make_figures  # noqa: E402
import run_page  # noqa: E402

WIDTHS = (1400, 390)
HEIGHT = 300  # a larger window is more to draw, and shows nothing else
THEMES = ("dark", "light")

LOOK = """() => ({
  ids: [...document.querySelectorAll("[id], a[name]")].map((node) => node.id || node.name),
  links: [...document.querySelectorAll("a[href]")].map((node) => node.href),
  images: [...document.images].map((node) => ({
    source: node.src, loaded: node.complete && node.naturalWidth > 0, described: node.alt !== "",
  })),
  formulas: document.querySelectorAll(".math.notranslate").length,
  raw: [...document.querySelectorAll(".math.notranslate")].filter((node) => !node.querySelector(".katex")).length,
})"""
"""What a page holds: anchors, links, images, and formulas that were not rendered."""

OVERFLOW = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return null;
  const outside = (node) => node.getBoundingClientRect().right > root.clientWidth + 1;
  const wide = [...document.querySelectorAll("main *")].find(outside);
  return `${root.scrollWidth} > ${root.clientWidth}: ${wide ? wide.outerHTML.slice(0, 120) : "outside of main"}`;
}"""
"""What is wider than the window, or null."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each on the terminal."""

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """What Sphinx left, and the folder of the site; a warning is an error."""
    for package in ("sphinx", "myst_parser", "pydata_sphinx_theme", "sphinx_design", "sphinx_copybutton"):
        pytest.importorskip(package, reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(folder / "html")], capture_output=True, text=True)
    return done, folder / "html"


@pytest.fixture(scope="module")
def site(build):
    """The built site."""
    done, folder = build
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """The address of the site, on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def visits(site, address, browser):
    """What was seen on every page, by its path; and everything that is wrong, each with its page.

    Every page is seen with both themes at both widths. It opens with the theme and the width that the last page ended
    with, because changing them takes as long as loading a page.
    """
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": HEIGHT}, color_scheme=THEMES[0])
    page = context.new_page()
    wrong, place = [], [""]
    page.on("console", lambda message: message.type == "error" and wrong.append(f"{place[0]}: console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{place[0]}: {error}"))
    page.on(
        "request",
        lambda request: (
            urlsplit(request.url).hostname in ("127.0.0.1", None) or wrong.append(f"{place[0]}: requests {request.url}")
        ),
    )
    pages, themes, widths = {}, THEMES, WIDTHS
    for path in sorted(set(site.rglob("*.html")) - set((site / "_static").rglob("*"))):
        place[0] = path.relative_to(site).as_posix()
        page.goto(f"{address}/{place[0]}", wait_until="load")
        pages[place[0]] = page.evaluate(LOOK)
        for theme in themes:
            page.emulate_media(color_scheme=theme)
            try:
                page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
            except Exception:
                wrong.append(f"{place[0]}: does not show the theme that the browser prefers, {theme}")
            for width in widths:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                if too_wide := page.evaluate(OVERFLOW):
                    wrong.append(f"{place[0]}: overflows at {width} pixels, {theme}: {too_wide}")
            widths = widths[::-1]
        themes = themes[::-1]
    context.close()
    return pages, wrong


def test_the_site_builds_without_warnings(site):
    assert (site / "index.html").is_file()


@pytest.mark.parametrize("page", make_figures.PAGES)
def test_a_page_that_draws_figures_prints_what_it_shows(build, page):
    """As `test_docs.py` checks of the other pages, which do not run when the site is built."""
    assert make_figures.printed(page).exists(), build[0].stderr
    check_printed(ROOT / "docs" / page, json.loads(make_figures.printed(page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", make_figures.PARTS)
def test_a_part_that_another_continues_prints_what_it_shows(build, page):
    """All of its blocks are one cell of that notebook."""
    assert make_figures.printed(page).exists(), build[0].stderr
    blocks = run_page.blocks((ROOT / "docs" / page).read_text(encoding="utf-8"))
    shown = "".join(block.shown for block in blocks if block.shown is not None)
    assert len(shown.split()) > 20
    out = json.loads(make_figures.printed(page).read_text(encoding="utf-8"))
    assert agrees(out, shown), f"docs/{page} shows:\n{shown}\nprinted:\n{out}"


@pytest.mark.browser
def test_pages_open_without_errors_foreign_requests_or_overflow(visits):
    assert visits[1] == []


@pytest.mark.browser
def test_images_load_and_are_described_and_formulas_are_rendered(visits):
    pages, _ = visits
    for name, content in pages.items():
        assert [image["source"] for image in content["images"] if not image["loaded"]] == [], name
        assert [image["source"] for image in content["images"] if not image["described"]] == [], name
        assert content["raw"] == 0, name
    assert any(content["formulas"] for content in pages.values())


@pytest.mark.browser
def test_links_and_anchors_lead_somewhere(site, address, visits):
    pages, _ = visits
    broken = []
    for name, content in pages.items():
        for link in set(content["links"]):
            url, anchor = urldefrag(link)
            if not url.startswith(address):
                continue  # of other hosts, which no test may ask
            path = unquote(urlsplit(url).path).lstrip("/") or "index.html"
            if path in pages:
                if anchor and unquote(anchor) not in pages[path]["ids"]:
                    broken.append(f"{name}: no anchor {anchor!r} in {path}")
            elif not (site / path).is_file():
                broken.append(f"{name}: no page {path}")
    assert broken == []


@pytest.mark.browser
def test_search_copy_buttons_and_enlarged_figures(address, browser):
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    page = context.new_page()
    page.goto(f"{address}/search.html?q=minimum+factorisation")
    page.wait_for_selector("#search-results li a")
    titles = page.locator("#search-results li a").all_inner_texts()
    assert any("Structure" in title or "Glossary" in title or "factorisation" in title for title in titles)

    page.goto(f"{address}/index.html")
    assert page.locator("button.copybtn").count() > 0
    page.locator(".bd-article img.can-enlarge").first.click()
    assert page.locator("dialog.enlarged-figure").is_visible()
    page.keyboard.press("Escape")
    page.locator("dialog.enlarged-figure").wait_for(state="hidden")
    context.close()
