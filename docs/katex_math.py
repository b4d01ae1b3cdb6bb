"""Sphinx extension: render maths in the browser with KaTeX, which is bundled in `_static/katex`.

Pages keep the TeX source as text, and `_static/math.js` replaces it. Nothing is loaded from another host, so formulas
also show on an intranet and in pages opened from disk. KaTeX 0.19.1 is MIT-licensed (`_static/katex/LICENSE`).
"""

from typing import Any

from docutils import nodes


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula as a span."""
    translator.body.append(translator.starttag(node, "span", "", CLASS="math notranslate"))
    translator.body.append(translator.encode(node.astext()) + "</span>")
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula as a block; several lines are aligned, unless the author wrote an environment."""
    tex = node.astext().strip()
    if r"\\" in tex and r"\begin{" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate"))
    translator.body.append(translator.encode(tex) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer, and load KaTeX on every page."""
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_block, None))
    app.add_css_file("katex/katex.min.css")
    app.add_js_file("katex/katex.min.js", loading_method="defer")
    app.add_js_file("math.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
