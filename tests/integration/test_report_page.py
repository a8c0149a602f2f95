"""The page in a real Chromium: what it asks for, what it runs, whether everybody can use it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tbh_action.report import page as report_page
from tests import report_sample

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "seed_final": report_sample.seed_final,
    "regression": report_sample.regression,
    "incomplete": report_sample.incomplete,
    "hostile": report_sample.hostile,
    "attempts": lambda: report_sample.large(20, 5, log=400),
    "empty": lambda: report_sample.results([]),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    assert executable, "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root, which is what containers are.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page that has been opened, and everything it said and asked for."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.url = path.as_uri()
        self.page.goto(self.url)

    def names(self) -> list[str]:
        """The tasks that can be seen, in their order."""
        rows = self.page.locator("#task-table tbody tr:not(.detail):visible th")
        return rows.all_inner_texts()

    def assert_quiet(self) -> None:
        assert self.problems == []
        assert [url for url in self.requests if not url.startswith("data:")] == [self.url]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def open_it(results: dict[str, Any], **options: Any) -> Opened:
        path = tmp_path / "index.html"
        path.write_text(report_page.render(results), encoding="utf-8")
        opened.append(Opened(browser, path, **options))
        return opened[-1]

    yield open_it
    for item in opened:
        item.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_page__quiet_and_accessible(
    open_page: Callable[..., Opened], sample: str, scheme: str
) -> None:
    opened = open_page(SAMPLES[sample](), color_scheme=scheme)
    buttons = opened.page.locator("#task-table tbody th button")
    for number in range(min(3, buttons.count())):
        buttons.nth(number).click()
    for details in opened.page.locator("details").all():
        details.evaluate("element => { element.open = true }")
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    opened.assert_quiet()


def test_page__fits_a_phone(open_page: Callable[..., Opened]) -> None:
    for sample in ("seed_final", "hostile"):
        opened = open_page(
            SAMPLES[sample](), viewport={"width": 360, "height": 740}, has_touch=True
        )
        opened.page.locator("#task-table tbody th button").first.tap()
        wide = opened.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360
        opened.assert_quiet()


def test_page__sorts_both_ways_with_the_keyboard(open_page: Callable[..., Opened]) -> None:
    results = report_sample.seed_final()
    opened = open_page(results)
    seconds = {row["task"]: row["agent_seconds"] for row in results["tasks"]}
    head = opened.page.get_by_role("button", name="Time", exact=True)
    head.focus()
    opened.page.keyboard.press("Enter")
    rising = [seconds[name] for name in opened.names()]
    assert rising == sorted(rising)
    opened.page.keyboard.press("Space")
    falling = [seconds[name] for name in opened.names()]
    assert falling == sorted(falling, reverse=True)
    columns = opened.page.locator("#task-table thead th[aria-sort]")
    assert columns.all_inner_texts() == ["Time"]
    assert columns.get_attribute("aria-sort") == "descending"


def test_page__unknown_comes_last_both_ways(open_page: Callable[..., Opened]) -> None:
    results = report_sample.seed_final()
    unknown = {row["task"] for row in results["tasks"] if row["tokens"] is None}
    opened = open_page(results)
    for _ in range(2):
        opened.page.get_by_role("button", name="Tokens out").click()
        assert set(opened.names()[-len(unknown) :]) == unknown


def test_page__filters(open_page: Callable[..., Opened]) -> None:
    results = report_sample.seed_final()
    opened = open_page(results)
    status = opened.page.get_by_role("status")
    expect(status).to_have_text("89 of 89 tasks")
    opened.page.locator("#f-outcome").select_option("timeout")
    expect(status).to_have_text("16 of 89 tasks")
    timeouts = {row["task"] for row in results["tasks"] if row["class"] == "timeout"}
    assert set(opened.names()) == timeouts
    opened.page.locator("#f-change").select_option("newly_unscored")
    assert len(opened.names()) == 3
    opened.page.get_by_role("button", name="Show all").click()
    expect(status).to_have_text("89 of 89 tasks")
    opened.page.get_by_label("Search").fill("GIT fix")
    expect(status).to_have_text("1 of 89 tasks")
    assert opened.names() == ["terminal-bench/fix-git"]
    opened.page.get_by_label("Search").fill("nothing like it")
    assert opened.names() == []
    opened.assert_quiet()


def test_page__a_task_opens_its_attempts(open_page: Callable[..., Opened]) -> None:
    results = report_sample.seed_final()
    row = next(row for row in results["tasks"] if row["superseded"] and row["status"] == "failed")
    opened = open_page(results)
    button = opened.page.get_by_role("button", name=row["task"], exact=True)
    button.focus()
    opened.page.keyboard.press("Enter")
    detail = opened.page.locator("tr.detail")
    expect(button).to_have_attribute("aria-expanded", "true")
    for text in (
        row["trial"],
        "FAILED tests/test_outputs.py::test_output - AssertionError",
        row["superseded_trials"][0]["trial"],
        f"--include-task {row['task']}",
    ):
        expect(detail).to_contain_text(text)
    opened.page.keyboard.press("Enter")
    expect(detail).to_have_count(0)


def test_page__a_change_leads_to_its_task(open_page: Callable[..., Opened]) -> None:
    opened = open_page(report_sample.regression())
    link = opened.page.locator(".flips a").first
    name = link.inner_text()
    opened.page.get_by_label("Search").fill("nothing like it")
    link.click()
    expect(opened.page.locator("tr.detail")).to_have_count(1)
    assert opened.page.evaluate("document.activeElement.textContent") == name


def test_page__hostile_text_is_only_text(open_page: Callable[..., Opened]) -> None:
    opened = open_page(report_sample.hostile())
    for button in opened.page.locator("#task-table tbody th button").all():
        button.click()
    assert opened.page.evaluate("window.hacked") is None
    # The inert data block and the page's own script; no picture, no link but to rows.
    assert opened.page.locator("script").count() == 2
    assert opened.page.locator("img").count() == 0
    hrefs = opened.page.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert all(href.startswith("#t") for href in hrefs)
    names = [name.replace("\u202e", "\ufffd") for name in report_sample.HOSTILE_NAMES]
    assert opened.names() == [" ".join(name.split()) for name in names]
    opened.assert_quiet()


def test_page__policy_stops_what_escaping_missed(open_page: Callable[..., Opened]) -> None:
    opened = open_page(report_sample.seed_final())
    opened.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            const image = document.createElement("img");
            image.src = "http://127.0.0.1:9/x.png";
            document.body.append(script, image);
        }"""
    )
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in problem for problem in opened.problems)


def test_page__without_scripts_all_tasks_are_there(open_page: Callable[..., Opened]) -> None:
    opened = open_page(report_sample.seed_final(), java_script_enabled=False)
    assert len(opened.names()) == 89
    assert opened.page.locator("form.filters").is_hidden()


def test_page__two_thousand_tasks_stay_usable(open_page: Callable[..., Opened]) -> None:
    results = report_sample.large(2000, 5)
    started = perf_counter()
    size = len(report_page.render(results).encode("utf-8"))
    assert perf_counter() - started < 10
    assert size < 16_000_000
    started = perf_counter()
    opened = open_page(results)
    opened.page.get_by_label("Search").fill("task-01999")
    expect(opened.page.get_by_role("status")).to_have_text("1 of 2000 tasks")
    assert perf_counter() - started < 20
    for action in ("filter", "sort"):
        spent = opened.page.evaluate(
            """action => {
                const start = performance.now();
                if (action === "sort") document.querySelector("#task-table thead button").click();
                else {
                    const box = document.getElementById("f-text");
                    box.value = "";
                    box.dispatchEvent(new Event("input", { bubbles: true }));
                }
                document.body.offsetHeight;
                return performance.now() - start;
            }""",
            action,
        )
        assert spent < 3000, f"{action} took {spent:.0f} ms"
    assert opened.page.locator("#task-table tbody tr").count() == 2000
    opened.assert_quiet()
