r"""Python regular expressions translated to Java's, with Python's meaning.

Spark matches with Java's engine. The flags ``d`` (only a newline ends a line) and ``U`` (Unicode classes) give ``.``,
``$``, ``\d``, ``\w``, ``\s``, ``\b`` and ignored case Python's meaning, except for a few characters: ``\w`` includes
combining marks and excludes numerals such as ½, ``\s`` excludes the separators U+001C to U+001F. Groups, anchors and
sets with another syntax are rewritten; features that Java lacks are refused.
"""

import re
import warnings

from incload_assets.contract.literals import Uncompilable

_TOKEN = re.compile(
    r"\\(?:N\{[^}]*\}|.)|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}|\(\?P<(?P<name>\w+)>|\(\?P=(?P<again>\w+)\)|\(\?\(|\(\?(?P<flags>[aiLmsux]+)(?:-[imsx]+)?[:)]|.",
    re.DOTALL,
)


def java_pattern(pattern: str, flags: int = 0, *, anchored: bool) -> str:
    r"""The Java pattern that is equivalent to a Python one; ``anchored``: at the start of the text, as in ``re.match``.

    Raises:
        Uncompilable: The pattern is not valid in Python, or uses a feature that Java lacks.

    Example:
        >>> java_pattern(r"(?P<code>[A-Z]+)-\Z", anchored=True)
        '(?dU)\\A(?:(?<code>[A-Z]+)-\\z)'
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[" in a set: Python's present meaning is kept below
            compiled = re.compile(pattern, flags)
    except (re.error, TypeError) as error:
        raise Uncompilable(f"its pattern {pattern!r} is not a regular expression ({error})", "correct it") from error
    if isinstance(compiled.pattern, bytes):
        raise Uncompilable("its pattern is made of bytes", "give it as text")
    if compiled.flags & (re.VERBOSE | re.LOCALE):
        raise Uncompilable("Java reads verbose and locale patterns differently", "write it without these flags")
    letters = "d" + "".join(
        letter
        for letter, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL))
        if compiled.flags & flag
    )
    body = _rewrite(compiled.pattern)
    if not compiled.flags & re.ASCII:
        letters += "U"
    return f"(?{letters})" + (r"\A" if anchored else "") + f"(?:{body})"


def _rewrite(source: str) -> str:
    out: list[str] = []
    opened = -1
    for match in _TOKEN.finditer(source):
        token = match.group()
        if opened >= 0:
            # in a set, Java nests and intersects sets where Python takes "[" and "&" literally
            first = match.start() == opened or (match.start() == opened + 1 and source[opened] == "^")
            if token == "]" and not first:
                opened = -1
            out.append({"[": r"\[", "&": r"\&", "]": r"\]" if first else "]", r"\b": r"\x08"}.get(token, token))
            if len(token) > 1 and token[0] == "(":
                raise _lacking(token)
        elif token == "[":
            opened = match.end()
            out.append(token)
        elif token == r"\Z":
            out.append(r"\z")
        elif match["name"] or match["again"]:
            name = match["name"] or match["again"]
            if not name.isalnum() or not name.isascii():
                raise _lacking(token)
            out.append(f"(?<{name}>" if match["name"] else rf"\k<{name}>")
        elif (
            token == "(?(" or token.startswith((r"\N", r"\0")) or (match["flags"] and set(match["flags"]) & set("aLx"))
        ):
            raise _lacking(token)
        elif token.startswith("{") and (match["least"] or match["comma"]):
            out.append(f"{{{match['least'] or 0}{match['comma']}{match['most']}}}")
        else:
            # Python takes braces literally that are not a repetition
            out.append(re.sub(r"[{}]", r"\\\g<0>", token) if token[0] in "{}" else token)
    return "".join(out)


def _lacking(token: str) -> Uncompilable:
    return Uncompilable(f"Java, which matches for Spark, reads {token!r} differently", "write the pattern without it")
