"""The appearance of the page: the labels of its plots, and the contrast of its texts.

A canvas has no elements. So texts that are drawn on it are recorded, with their position and color.
"""

from __future__ import annotations

from typing import Final

from tests.page.chromium import Tab

NARROW: Final = 320
_WIDTHS: Final = (1280, 700, 400, NARROW)
# The contrast that WCAG 2.2 requires of text (criterion 1.4.3).
_CONTRAST: Final = 4.5

_TAKE_DOWN: Final = """
(() => {
  const canvas = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = canvas;
  canvas.clearRect = function (...given) { this.canvas.labels = []; return clearRect.apply(this, given); };
  canvas.fillText = function (text, x, y) {
    const box = this.measureText(text);
    const at = this.getTransform().transformPoint({ x, y });
    (this.canvas.labels ??= []).push({
      text, color: this.fillStyle, left: at.x - box.actualBoundingBoxLeft, right: at.x + box.actualBoundingBoxRight,
      top: at.y - box.actualBoundingBoxAscent, bottom: at.y + box.actualBoundingBoxDescent,
    });
    return fillText.call(this, text, x, y);
  };
})()
"""

_WRONG_LABELS: Final = """
[...document.querySelectorAll('canvas')].flatMap((canvas) => {
  const labels = canvas.labels ?? [];
  if (labels.length < 3) return [`few labels: ${labels.map((label) => label.text)}`];
  const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
  return labels.flatMap((label, at) => [
    ...labels.slice(at + 1).filter((other) => !apart(label, other)).map((other) => `${label.text} over ${other.text}`),
    ...(label.left < 0 || label.right > canvas.width || label.bottom > canvas.height ? [`cut: ${label.text}`] : []),
    ...(/[ap]\\.?m/i.test(label.text) ? [`of 12 hours: ${label.text}`] : []),
  ]);
})
"""

_PALE_TEXTS: Final = """
(() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    const color = numbers(getComputedStyle(element).backgroundColor);
    return color.length === 3 || color[3] > 0 || !element.parentElement ? color : behind(element.parentElement);
  };
  const written = (element) => element.tagName === 'INPUT' ? element.value :
    [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).join('').trim();
  return [...document.querySelectorAll('%s *')]
    .filter((element) => element.checkVisibility() && !element.disabled && written(element))
    .map((element) => {
      const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), written(element)];
    })
    .filter(([contrast]) => contrast < %s).map(([contrast, text]) => `${contrast.toFixed(1)}: ${text}`);
})()
"""

_MANY_TASKS: Final = """
(async () => {
  const [{ render }, { TimeLine }, { html }] = await Promise.all(
    ['vendor/preact.mjs', 'plots.js', 'format.js'].map((file) => import(new URL(file, document.baseURI).href)));
  const now = Date.now();
  const tasks = [...Array(60).keys()].map((task) => ({ task, open_since: now - 40 * 3600000, ended: [] }));
  const box = document.querySelector('main').appendChild(document.createElement('div'));
  box.id = 'many-tasks';
  render(html`<${TimeLine} tasks=${tasks} />`, box);
})()
"""


async def take_down_labels(tab: Tab) -> None:
    """Record texts drawn on canvases, in all pages opened from now on."""
    await tab.send("Page.addScriptToEvaluateOnNewDocument", source=_TAKE_DOWN)


async def check_plots(tab: Tab) -> None:
    """Labels do not overlap and stay in their plot at each width, also with 12-hour times; colors follow the scheme."""
    await tab.send("Emulation.setLocaleOverride", locale="en-US")
    await tab.value(_MANY_TASKS)
    for width in _WIDTHS:
        await tab.size(width, 800)
        await tab.wait_for(
            "document.querySelector('#many-tasks canvas')?.labels?.length > 0 &&"
            f" [...document.querySelectorAll('canvas')].every((each) => each.clientWidth < {width})"
        )
        assert (wrong := await tab.value(_WRONG_LABELS)) == [], (width, wrong)
    for scheme in ("dark", "light"):
        await tab.scheme(scheme)
        await tab.wait_for(
            "[...document.querySelectorAll('canvas')].every((each) => each.labels.every((label) => label.color ==="
            " getComputedStyle(document.documentElement).getPropertyValue('--text').trim()))"
        )
    await tab.value("document.getElementById('many-tasks').remove()")
    await tab.send("Emulation.setLocaleOverride")


async def check_contrast(tab: Tab) -> None:
    """Each text has enough contrast, in light and dark mode."""
    for scheme in ("dark", "light"):
        await tab.scheme(scheme)
        assert (pale := await pale_texts(tab, "body")) == [], (scheme, pale)


async def pale_texts(tab: Tab, within: str) -> list[str]:
    """The texts without enough contrast within a selector's elements, each after its contrast."""
    found: list[str] = await tab.value(_PALE_TEXTS % (within, _CONTRAST))
    return found
