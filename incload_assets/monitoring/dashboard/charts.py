"""Small charts as SVG: bars, lines and stretches of time. What they show is in their title, too."""

from collections.abc import Sequence
from datetime import datetime

from incload_assets.monitoring.dashboard.evaluate import Line
from incload_assets.monitoring.dashboard.markup import Markup, element

WIDTH, HEIGHT = 200, 32
"""The coordinates of a chart; the page stretches it."""
COLOURS = 8


def bar(share: float, title: str, *, worrying: bool = False) -> Markup:
    """A horizontal bar.

    Args:
        share: Its length, 0 to 1.
        title: What it shows, for those who cannot see it.
        worrying: Whether it is marked.
    """
    long = max(min(share, 1.0), 0.0) * WIDTH
    return element(
        "svg",
        element("title", title),
        element("rect", class_="track", width=WIDTH, height=10),
        element("rect", class_="worry" if worrying else "fill", width=round(long, 2), height=10) if long else None,
        class_="bar",
        viewBox=f"0 0 {WIDTH} 10",
        preserveAspectRatio="none",
        role="img",
    )


def lines(found: Sequence[tuple[int, Line]], start: datetime, end: datetime, top: float, title: str) -> Markup:
    """Lines over time with 0 as their ground.

    Args:
        found: The number of the colour and the values of each line.
        start: The first instant of the axis of time.
        end: Its last one.
        top: The greatest value of the axis.
        title: What it shows, for those who cannot see it.
    """
    length = (end - start).total_seconds() or 1.0

    def point(at: datetime, value: float) -> str:
        x = 2 + (at - start).total_seconds() / length * (WIDTH - 4)
        y = HEIGHT - 2 - (value / top if top > 0 else 0.0) * (HEIGHT - 4)
        return f"{x:.1f},{y:.1f}"

    drawn = []
    for colour, line in found:
        points = [point(*each) for each in line]
        if len(points) == 1:
            points *= 2  # a dot: the line's round end
        drawn.append(element("polyline", class_=f"line c{colour % COLOURS}", points=" ".join(points)))
    ground = element("line", class_="ground", x1=0, x2=WIDTH, y1=HEIGHT - 1, y2=HEIGHT - 1)
    return element(
        "svg",
        element("title", title),
        ground,
        drawn,
        class_="lines",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
    )


def stretches(parts: Sequence[tuple[int, float, float]], length: float, title: str) -> Markup:
    """Stretches of time in a row, such as the phases of a load.

    Args:
        parts: The number of the colour, the start and the length of each, in seconds.
        length: Seconds of the whole row.
        title: What it shows, for those who cannot see it.
    """
    scale = WIDTH / length if length > 0 else 0.0
    return element(
        "svg",
        element("title", title),
        element("rect", class_="track", width=WIDTH, height=10),
        [
            element(
                "rect",
                class_=f"c{colour % COLOURS}",
                x=round(start * scale, 2),
                width=round(max(took * scale, 0.6), 2),
                height=10,
            )
            for colour, start, took in parts
            if took > 0
        ],
        class_="bar",
        viewBox=f"0 0 {WIDTH} 10",
        preserveAspectRatio="none",
        role="img",
    )
