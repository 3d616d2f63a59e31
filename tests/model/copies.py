"""A copy in chunks: a big window is read chunk by chunk, by processes that are killed and started again.

The window has two chunks, and what matters is one key, which a chunk holds with a version or not. A process *detects*
what the source holds for the window, and divides it. A chunk that an earlier process has read is kept if the source
still holds what it held when it was read; the others are *read*, in any order. Then the process *lands* the whole
window at once, with the position that it detected last. Nothing of a chunk is seen before.

An ``extract`` holds all there is, so that a key which it lacks is deleted: before it lands, the process *proves* the
chunks: it detects again, and goes on from there if the source has changed. A window of a query is not proven, because
its source never rests: a row that changes leaves it for the later window, whose loads go on meanwhile. A ``settled``
window only loses rows in this way: chunks of it are kept, and nobody looks at it again. If a row is dated back into it
all the same, a comparison with the source finds it, because the landing does not count as having it.

A chunk that is changed and changed back between two detections, and read in between, is not noticed, by ordinary loads
neither.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.exploration import WRONG, Machine, put

COPY_SWITCHES = {
    "kept": "a chunk that an earlier process has read is read again if the source holds something else since",
    "whole": "nothing is landed before all chunks are there",
    "proof": "an extract is landed only if the source holds, when all chunks are read, what it held before",
    "oldest": "a landing of a settled window counts as what the oldest of its chunks is of, not as what came later",
    "position": "the landing has the position that was detected before the last reading, not what is there since",
}
CHUNKS = 2

Content = tuple[int, ...]
"""The version of the key in each chunk of the window, and last in the later window; 0: it is not there."""


class CopyCase(NamedTuple):
    """What the source holds, one after the other, for an extract or a query; and how often processes are killed."""

    history: tuple[Content, ...]
    extract: bool = True
    settled: bool = False
    kills: int = 2


class Chunk(NamedTuple):
    """A chunk that was read: the version that the source held when it was detected, and the one that was read.

    ``since`` is the moment of the detection.
    """

    of: int
    read: int
    since: int


class Copy(NamedTuple):
    """A state. ``position`` is what was detected; () if nothing was. ``held`` is what the landed window holds."""

    now: int = 0
    kills: int = 0
    at: str = "detect"
    position: Content = ()
    detected: int = 0
    chunks: tuple[Chunk | None, ...] = (None,) * CHUNKS
    landed: Content | None = None
    held: Content = ()
    later: int = 0


class CopyModel(Machine[Copy]):
    """The copy of a window, beside the loads of a later one."""

    def __init__(self, case: CopyCase, without: frozenset[str] = frozenset()) -> None:
        assert without <= COPY_SWITCHES.keys()
        self.case, self.without = case, without

    def start(self) -> Copy:
        return Copy()

    def steps(self, state: Copy) -> Iterator[tuple[str, Copy | None]]:
        source = self.case.history[state.now]
        if state.now + 1 < len(self.case.history):
            yield "source changes", state._replace(now=state.now + 1)
        if state.later != source[-1]:
            yield "later window is loaded", state._replace(later=source[-1])
        if state.at == "done":
            if state.landed != source[:CHUNKS] and not self.case.settled:
                yield "found changed", state._replace(at="detect", chunks=(None,) * CHUNKS)
            return
        if state.kills < self.case.kills:
            yield "killed", state._replace(kills=state.kills + 1, at="detect", position=())
        yield from self._goes_on(state, source[:CHUNKS])

    def _goes_on(self, state: Copy, source: Content) -> Iterator[tuple[str, Copy | None]]:
        if state.at == "detect":
            yield "detects", self._detected(state, source)
            return
        lacking = [number for number, chunk in enumerate(state.chunks) if chunk is None]
        for number in lacking:
            read = Chunk(state.position[number], source[number], state.detected)
            yield f"reads {number}", state._replace(chunks=put(state.chunks, number, read))
        if lacking and not ("whole" in self.without and len(lacking) < CHUNKS):
            return
        if self.case.extract and source != state.position and "proof" not in self.without:
            yield "proves nothing", state._replace(at="detect")
            return
        yield self._lands(state, source)

    def _detected(self, state: Copy, source: Content) -> Copy:
        all_stay = self.case.settled or "kept" in self.without
        kept = tuple(
            chunk if chunk and (all_stay or chunk.of == source[number]) else None
            for number, chunk in enumerate(state.chunks)
        )
        return state._replace(at="read", position=source, detected=state.now, chunks=kept)

    def _lands(self, state: Copy, source: Content) -> tuple[str, Copy | None]:
        held = tuple(chunk.read if chunk else 0 for chunk in state.chunks)
        always = all(any(content) for content in self.case.history)
        if self.case.extract and always and not any(held):
            return f"{WRONG}a key is deleted that the source always held", None
        position = source if "position" in self.without else state.position
        if self.case.settled and "oldest" not in self.without:
            position = self.case.history[min(chunk.since for chunk in state.chunks if chunk)][:CHUNKS]
        return "lands", state._replace(at="done", landed=position, held=held)

    def rests(self, state: Copy) -> bool:
        source = self.case.history[-1]
        is_now = state.now + 1 == len(self.case.history) and state.later == source[-1]
        return is_now and state.at == "done" and (self.case.settled or state.landed == source[:CHUNKS])

    def problem(self, state: Copy) -> str | None:
        source = self.case.history[-1]
        row, wanted = max(*state.held, state.later), max(source)
        if self.case.settled and wanted in source[:CHUNKS] and wanted not in (state.landed or ()):
            return None  # a comparison with the source finds what is lacking
        return None if row == wanted else f"{WRONG}the table holds {row}, the source {wanted}"


COPY_CASES = {
    "at rest": CopyCase(((1, 0, 0),)),
    "changed where it is": CopyCase(((1, 0, 0), (2, 0, 0))),
    "changed twice": CopyCase(((1, 0, 0), (2, 0, 0), (3, 0, 0))),
    "moved to the other chunk": CopyCase(((0, 1, 0), (1, 0, 0))),
    "moved and changed": CopyCase(((0, 1, 0), (2, 0, 0), (0, 3, 0))),
    "deleted": CopyCase(((1, 0, 0), (0, 0, 0))),
    "there only later": CopyCase(((0, 0, 0), (0, 1, 0))),
    "a row changes to the later window": CopyCase(((1, 0, 0), (0, 0, 2)), extract=False, settled=True),
    "a row changes there and again": CopyCase(((1, 0, 0), (0, 0, 2), (0, 0, 3)), extract=False, settled=True),
    "a row is dated back": CopyCase(((0, 0, 0), (0, 1, 0)), extract=False, settled=True),
    "a late row comes": CopyCase(((0, 0, 0), (0, 1, 0), (0, 0, 2)), extract=False),
    "changed again and again": CopyCase(((1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0)), extract=False, kills=1),
}
