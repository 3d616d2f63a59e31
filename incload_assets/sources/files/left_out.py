"""Finds files that look like data of a path's windows, but that the path leaves out because of their names alone.

``*.json`` leaves out ``_new.json``, ``.a.json``, ``a.json.tmp``, ``a.json.gz``, ``A.JSON``, ``a.jsonl``, although their
writer may expect them to be loaded. So names are also compared with a looser path, which allows dots and underscores
before the name, other extensions of the format, anything after the extension, and upper and lower case. Files in
folders that a glob does not match are not reported, nor are markers, checksums, locks and empty files.
"""

import re
from collections.abc import Container, Iterable, Iterator

from incload_assets.sources.files.compressed import Format, extensions_of, format_of
from incload_assets.sources.files.listing import Listed
from incload_assets.sources.files.template import Part, Template, pattern_of

_TELLS_OF_OTHERS = re.compile(
    r"_success|_failure|_(started|committed)_.*|_(common_)?metadata|\.ds_store|\.(git)?keep|\.gitignore|\.nfs.*|\._.*"
    r"|.*\.(crc|md5|sha-?\d*|sum|checksum|sig|asc|lock|lck|swp|swo|done|ok|ready|success|complete|fin|flag|trg|ctl|sem)",
    re.DOTALL,
)
"""Names, in lower case, of files without data; macOS writes ``._a`` beside ``a``."""
_MORE = r"(?:[\W_][^/]*)?"
"""Pattern of the text that may follow an extension."""


def left_out(
    template: Template, declared: Format | None, files: Iterable[Listed], times: Container[tuple[str, ...]] | None
) -> Iterator[Listed]:
    """The files left out only because of their names; ``times``: time fields of the requested windows, None without."""
    similar = re.compile(_loosely(template, declared), re.DOTALL | re.IGNORECASE)
    for file in files:
        if (
            file.size
            and (found := similar.fullmatch(file.path))
            and (times is None or found.groups() in times)
            and not _TELLS_OF_OTHERS.fullmatch(file.path.rpartition("/")[2].lower())
            and not (file.is_finished and template.match(file.path) is not None)
        ):
            yield file


def _loosely(template: Template, declared: Format | None) -> str:
    folders, name = _divided(template)
    ending = name[-1].text if name and name[-1].kind == "text" else ""
    found = re.search(r"\.([^.]+)(\.gz|\.zst)?$", ending)
    kind = format_of(ending) or declared
    if found:
        name[-1] = Part("text", ending[: found.start()])
        extension = rf"\.(?:{'|'.join(map(re.escape, (found[1], *extensions_of(kind))))})"
        return rf"{pattern_of(folders)}[._]*{pattern_of(name)}{extension}{_MORE}"
    known = "" if declared else rf"(?=[^/]*\.(?:{'|'.join(extensions_of(None))}){_MORE})"
    return rf"{pattern_of(folders)}{known}[._]*{pattern_of(name)}{_MORE}"


def _divided(template: Template) -> tuple[list[Part], list[Part]]:
    parts = list(template.parts)
    if parts[-1].text == "**":
        return [*parts, Part("text", "/")], [Part("glob", "*")]
    last = max(index for index, part in enumerate(parts) if part.kind == "text" and "/" in part.text)
    folder, _, name = parts[last].text.rpartition("/")
    return [*parts[:last], Part("text", f"{folder}/")], [Part("text", name), *parts[last + 1 :]]
