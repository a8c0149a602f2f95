"""Draws report.png and summary.png from the sample results: `python docs/images/make.py`.

Needs chromium and cmark-gfm. GitHub draws the charts of a summary with Mermaid; give a copy of
`mermaid.min.js` as the argument to have them in the picture, else they are left out.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tbh_action.comparison.baseline import find_baseline
from tbh_action.comparison.compare import Criteria
from tbh_action.comparison.gate import Policy
from tbh_action.comparison.judge import Judgement, judged
from tbh_action.report import markdown, page

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests" / "data"
# The sample's 20 unscored tasks lie below the default floor of 90 %, which would be no verdict.
FLOOR = 0.7
STYLE = """
body { margin: 0; padding: 28px 36px; width: 980px; background: #fff; color: #1f2328;
  font: 16px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
h2 { font-size: 1.5em; padding-bottom: .3em; border-bottom: 1px solid #d1d9e0; margin: 0 0 16px; }
h3 { font-size: 1.25em; margin: 24px 0 16px; }
table { border-collapse: collapse; margin: 0 0 16px; display: block; overflow: auto; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; }
tr:nth-child(2n) td { background: #f6f8fa; }
code { padding: .2em .4em; background: #818b981f; border-radius: 6px; white-space: break-spaces;
  font: 85% ui-monospace, Menlo, "Liberation Mono", monospace; }
blockquote { margin: 0 0 16px; padding: 8px 16px; border-left: 4px solid; color: inherit; }
blockquote .head { font-weight: 500; margin: 0 0 4px; }
blockquote p { margin: 0; }
.WARNING { border-color: #9a6700; } .WARNING .head { color: #9a6700; }
.CAUTION { border-color: #cf222e; } .CAUTION .head { color: #cf222e; }
sub { font-size: 12px; vertical-align: baseline; color: #59636e; }
details { margin-bottom: 12px; }
.mermaid { display: inline-block; width: 440px; vertical-align: middle; }
"""


def sample() -> dict[str, object]:
    results = json.loads((DATA / "results-sample.json").read_text(encoding="utf-8"))
    baseline = find_baseline(str(DATA / "results-sample-baseline.json"), results)
    judgement = Judgement(
        criteria=Criteria(coverage_floor=FLOOR), policy=Policy(coverage_floor=FLOOR)
    )
    return judged(results, baseline, judgement)


def summary_html(text: str, mermaid: Path | None) -> str:
    """The summary as GitHub shows it: alerts and charts are its own additions to cmark-gfm."""
    done = subprocess.run(
        [str(shutil.which("cmark-gfm")), "--unsafe", "-e", "table", "--github-pre-lang"],
        input=text.encode("utf-8"),
        capture_output=True,
        check=True,
    )
    body = re.sub(
        r"<blockquote>\s*<p>\[!(\w+)\]\s*",
        lambda found: f'<blockquote class="{found[1]}"><p class="head">{found[1].title()}</p><p>',
        done.stdout.decode("utf-8"),
    )
    chart = r'<pre lang="mermaid"><code>(.*?)</code></pre>'
    body = re.sub(chart, r'<div class="mermaid">\1</div>' if mermaid else "", body, flags=re.DOTALL)
    script = f"<script src='{mermaid.as_uri()}'></script>" if mermaid else ""
    start = "<script>mermaid.initialize({startOnLoad: true})</script>" if mermaid else ""
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{body}{script}{start}"


def main() -> None:
    mermaid = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    results = sample()
    work = HERE / "work.html"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            view = browser.new_page(viewport={"width": 1180, "height": 1180})
            work.write_text(page.render(results), encoding="utf-8")
            view.goto(work.as_uri())
            view.screenshot(path=HERE / "report.png")
            view.set_viewport_size({"width": 1052, "height": 1180})
            work.write_text(summary_html(markdown.render_summary(results), mermaid), "utf-8")
            view.goto(work.as_uri())
            view.wait_for_timeout(1500 if mermaid else 0)
            view.screenshot(path=HERE / "summary.png")
        finally:
            browser.close()
            work.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
