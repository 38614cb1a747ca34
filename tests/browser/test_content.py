"""Tests of what answers and files show: code, formulas, diagrams, tables, previews and charts."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.looks import PHONE
from tests.browser.talking import answers, begin, bubbles, rests, token_of
from tests.browser.whole_stack import OpenChat

CONTENT = """say Content

```python
def add(a, b):
    return a + b  # a sum
```

- [x] done
- [ ] open

Energy $E = mc^2$ costs $5 to $10, and $$\\int_0^1 x\\,dx = \\frac{1}{2}$$

```mermaid
graph LR
  A[Start] --> B[End]
```

```html
<h1 id="made">Made here</h1><script>document.body.dataset.ran = "1"</script>
```

```csv
month,boats
January,12
February,30
March,18
```
"""
UPLOAD = """async ([id, name, text, token]) => {
    const form = new FormData();
    form.append("file", new File([text], name));
    await fetch(`/api/v1/sessions/${id}/files/`,
        {method: "POST", body: form, headers: {"X-CSRFToken": token}});
}"""


def begin_content(page: Page) -> Page:
    begin(page, CONTENT, "Concierge")
    rests(page)
    return page


def test_code_formulas_tasks_and_diagrams_are_drawn(open_window: OpenChat):
    page = begin_content(open_window())
    answer = answers(page).last

    expect(answer.locator(".hljs-keyword").first).to_have_text("def")
    code = answer.locator(".code-box", has_text="a sum")
    code.get_by_role("button", name="Wrap").click()
    expect(code).to_have_attribute("data-wrapped", "")
    expect(answer.locator("li.is-task")).to_have_text(["☑ done", "☐ open"])
    expect(answer.locator(".formula .katex-html")).to_have_count(2)
    expect(answer).to_contain_text("costs $5 to $10")
    diagram = answer.locator("iframe[title=Diagram]")
    expect(diagram.content_frame.locator("svg")).to_contain_text("Start")
    answer.get_by_role("button", name="Show code").click()
    expect(answer.get_by_text("A[Start] --> B[End]")).to_be_visible()


def test_a_document_is_previewed_beside_the_chat_in_a_frame_that_reaches_nothing(
    open_window: OpenChat, complaints: list[str]
):
    page = begin_content(open_window())
    answers(page).locator(".code-box", has_text="Made here").get_by_role(
        "button", name="Preview"
    ).click()
    preview = page.get_by_role("region", name="Preview")
    frame = preview.locator("iframe").content_frame

    expect(frame.locator("body[data-ran] #made")).to_have_text("Made here")
    assert frame.locator("body").evaluate("() => origin") == "null"
    refused = frame.locator("body").evaluate(
        "() => fetch('/api/v1/me/').then(() => 'reached', () => 'refused')"
    )
    assert refused == "refused"
    assert all("Content Security Policy" in one for one in complaints), complaints
    complaints.clear()
    preview.press("Escape")
    expect(preview).to_have_count(0)
    answers(page).locator(".code-box", has_text="February").get_by_role(
        "button", name="Preview"
    ).click()
    expect(preview.get_by_role("img", name="Chart of boats")).to_be_visible()
    expect(preview.get_by_role("cell", name="February")).to_be_visible()


def test_files_of_the_session_are_browsed_and_previewed(open_window: OpenChat):
    page = begin(open_window(), "say hello", "Concierge")
    rests(page)
    session_id = page.url.rstrip("/").rsplit("/", 1)[1]
    for name, text in (("notes.md", "# Notes\n\n**bold**"), ("main.py", "import os\n")):
        page.evaluate(UPLOAD, [session_id, name, text, token_of(page)])
    page.get_by_role("complementary", name="Inspector").get_by_text("Files", exact=True).click()
    page.get_by_role("button", name="notes.md").click()
    expect(page.get_by_role("region", name="notes.md").locator("strong")).to_have_text("bold")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="main.py").click()
    expect(page.get_by_role("region", name="main.py").locator(".hljs-keyword")).to_have_text(
        "import"
    )


def test_people_write_markdown_and_edit_it_as_they_wrote_it(open_window: OpenChat):
    page = begin(open_window(), "say **loud**\nnext line", "Concierge")
    rests(page)
    expect(bubbles(page).first.locator("strong")).to_have_text("loud")
    page.get_by_role("button", name="Edit and send again").click()
    expect(page.get_by_role("textbox", name="Your message")).to_have_value(
        "say **loud**\nnext line"
    )
    page.keyboard.press("Escape")
    expect(bubbles(page).first.locator("strong")).to_have_text("loud")


def test_a_preview_on_a_phone_is_a_sheet(open_window: OpenChat):
    page = begin_content(open_window(viewport=PHONE, has_touch=True, is_mobile=True))
    answers(page).locator(".code-box", has_text="February").get_by_role(
        "button", name="Preview"
    ).tap()
    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_role("img", name="Chart of boats")).to_be_in_viewport()
    preview.get_by_role("button", name="Close").tap()
    expect(preview).to_have_count(0)
