"""Take the pictures of docs/guides/report.md: a report in headless Chromium, section by section.

    python docs/report_screenshots.py traffic.html queues.html    # into docs/images/report

The two reports are those whose commands the page shows. Needs the extra `browser` and Chromium.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parent / "images" / "report"


def opened(browser: Browser, report: Path, **options) -> Page:
    page = browser.new_page(**{"viewport": {"width": 1000, "height": 900}} | options)
    page.goto(report.resolve().as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    return page


def picture(page: Page, selector: str | None, name: str) -> None:
    """A section, or the window; with 256 colours, which take half the space."""
    data = page.screenshot() if selector is None else page.locator(selector).first.screenshot()
    image = Image.open(io.BytesIO(data)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    image.save(FOLDER / f"{name}.png", optimize=True)


def main(traffic: Path, queues: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = opened(browser, traffic)
        picture(page, "#verdict", "verdict")
        page.locator("#curves .chart-stage").hover(position={"x": 620, "y": 120})
        picture(page, "#curves", "curves")
        page.locator(".network-map").click()
        page.locator("#network circle").nth(4).click()
        page.mouse.move(0, 0)  # what was clicked stays
        picture(page, "#network", "network-map")
        picture(page, "#credit .credit", "credit")
        picture(page, "#targets .targets", "targets")
        page.locator(".film-time").fill("100")
        picture(page, "#acting", "acting")
        picture(page, "#reproduce .reproduce", "reproduce")
        page = opened(browser, queues)
        page.locator(".network-matrix").click()
        page.locator(".network-focus").select_option("action:4")
        picture(page, "#network", "network-matrix")
        phone = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "device_scale_factor": 1.5}
        page = opened(browser, queues, **phone)
        picture(page, None, "phone")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
