"""The README and the pages of the documentation, as tests read them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "incload_assets" / "docs"


@dataclass(frozen=True)
class Block:
    """A block of code.

    Args:
        language: The first word after its fence.
        path: The second one, for a block that is a file; else empty.
        content: Its lines.
    """

    language: str
    path: str
    content: str

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a block for the shell, each as words; those that one line joins apart."""
        if self.language != "sh":
            return []
        lexer = shlex.shlex(re.sub(r"\\\n\s*|(?m:\s+# .*$)", "", self.content), posix=True, punctuation_chars="&\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
        return [list(words) for is_word, words in groupby(lexer, key=lambda w: bool(w.strip("&\n"))) if is_word]


@dataclass(frozen=True)
class Page:
    """The README, or a page of the documentation.

    Args:
        path: Its file.
    """

    path: Path

    @property
    def name(self) -> str:
        """Its file's name without the extension."""
        return self.path.stem

    @property
    def text(self) -> str:
        """Everything in it."""
        return self.path.read_text()

    @cached_property
    def tokens(self) -> list[Token]:
        """Its Markdown."""
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    @property
    def blocks(self) -> list[Block]:
        """Its blocks of code, from top to bottom."""
        return [_block(token) for token in self.tokens if token.type == "fence"]

    @property
    def outcomes(self) -> list[tuple[Block, Block]]:
        """Blocks of commands, each with the block right below, or several of these, which is what they print."""
        found, above = [], None
        for token in self.tokens:
            block = _block(token) if token.type == "fence" else None
            if above and block and block.language == "text":
                found.append((above, block))
            else:
                above = block if block and block.language == "sh" else None
        return found

    @property
    def inline(self) -> Iterator[Token]:
        """What its paragraphs, headings and cells consist of."""
        for token in self.tokens:
            yield from token.children or ()

    @property
    def links(self) -> list[str]:
        """Where its links and pictures point to."""
        return [str(token.attrs.get("href") or token.attrs["src"]) for token in self.inline
                if token.type in ("link_open", "image")]  # fmt: skip

    @property
    def code(self) -> list[str]:
        """What it has between backticks."""
        return [token.content for token in self.inline if token.type == "code_inline"]

    @property
    def anchors(self) -> set[str]:
        """The anchors that GitHub gives its headings."""
        found: set[str] = set()
        for opened, heading in zip(self.tokens, self.tokens[1:], strict=False):
            if opened.type == "heading_open":
                text = "".join(token.content for token in heading.children or ())
                found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
        return found


def _block(fence: Token) -> Block:
    language, path, *_ = *fence.info.split(), "", ""
    return Block(language, path, fence.content)


README = Page(PROJECT / "README.md")
PAGES = [README, *(Page(path) for path in sorted(DOCS.glob("*.md")))]


def documented_block(language: str, containing: str) -> str:
    """The block in a language that contains a text, on whichever page."""
    [found] = [
        block.content
        for page in PAGES
        for block in page.blocks
        if block.language == language and not block.path and containing in block.content
    ]
    return found.strip()


def statements(sql: str) -> list[str]:
    """The statements of a block of SQL without comments."""
    return [statement.strip() for statement in sql.split(";") if statement.strip()]
