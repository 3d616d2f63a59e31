"""A page of HTML as tests read it: a tree of elements, which is refused if an element is not ended."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "rect", "polyline", "line", "br", "input"}


@dataclass
class Node:
    """An element."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def all(self, tag: str = "", **attributes: str) -> list["Node"]:
        """The elements in it with a name and attributes."""
        return [n for n in self if (not tag or n.tag == tag) and attributes.items() <= n.attributes.items()]

    def one(self, tag: str = "", **attributes: str) -> "Node":
        """The only one of them."""
        [found] = self.all(tag, **attributes)
        return found

    def __iter__(self) -> Iterator["Node"]:
        for child in self.children:
            if isinstance(child, Node):
                yield child
                yield from child

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()
                yield " " if child.tag in ("td", "th", "p", "h1", "h2", "dt", "dd", "tr", "title", "li") else ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        assert len(attrs) == len(node.attributes), f"an attribute twice: {attrs}"
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            ended = self.open.pop()
            assert ended.tag == tag, f"<{ended.tag}> is ended by </{tag}>"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(text: str) -> Node:
    """A page as a tree."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    [root] = reader.open
    return root
