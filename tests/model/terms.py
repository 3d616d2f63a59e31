"""What the models speak of: changes, what is in the log, what is on the server, runs, states, cases."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

Change = tuple[int, bool, int]
"""(sequence, is delete, content hash): the natural order of these tuples is the order of changes."""

Content = tuple[Change, ...]


def up(sequence: int, content: int = 0) -> Change:
    """An upsert."""
    return (sequence, False, content)


def down(sequence: int, content: int = 0) -> Change:
    """A delete."""
    return (sequence, True, content)


def beside(number: int) -> Change:
    """A change of another key: it makes the content another one, and concerns the key not at all."""
    return (number, False, _OTHER)


_OTHER = -1


def is_beside(change: Change) -> bool:
    """True for a change of another key, as :func:`beside` makes it."""
    return change[2] == _OTHER


class Landed(NamedTuple):
    """A window in the log: the window record's landing number and fingerprint, and the rows.

    The fingerprint is what the source held; ``content`` is the same, but for what a compaction has removed. ``held`` is
    what the source held when the window was undone; as long as it does, the window is not landed. ``erasing``: an
    erasure landed it, and has not finished with it.
    """

    number: int
    fingerprint: Content
    content: Content
    marked: bool
    held: Content | None = None
    erasing: bool = False


class Checkpoint(NamedTuple):
    """What Dagster knows of a window: the position materialized last, and whether a run failed since, or ever.

    ``proof``: the row of the table and the window in the log that were compared. In truth it is their versions, and a
    row that has changed and is what it was again counts as touched; here it does not, so that more is believed.
    """

    content: Content | None = None
    clean: bool = False
    failed: bool = False
    proof: tuple[Change | None, Landed] | None = None


class Plan(NamedTuple):
    """The change that a MERGE makes to the key. ``action`` is insert, update, delete, or empty for nothing.

    It is ``unknown`` where the table has other content of the same sequence, which only a plan in full can tell.
    """

    action: str
    order: Change | None
    seen: Change | None
    full: bool


NOTHING = Plan("", None, None, False)
UNKNOWN = Plan("unknown", None, None, False)


class Merge(NamedTuple):
    """A MERGE under way. ``begun``: it took its own snapshot; ``stale``: a row it read, or its fence, changed since.

    ``files``: what an erasure has done with the files that it has written: nothing, ``listed`` or ``removed`` them.
    """

    fence: str
    plan: Plan
    number: tuple[int, int]
    begun: bool = False
    row: Change | None = None
    stale: bool = False
    files: str = ""


class Landing(NamedTuple):
    """A landing under way. ``frozen``: whether what it replaces was marked as compacted.

    ``barred``: the barrier was raised since its load read it. ``files`` as for a MERGE.
    """

    window: str
    landed: Landed
    frozen: bool = False
    barred: bool = False
    files: str = ""


class LandingFence(NamedTuple):
    """A commit under way of nothing but the fence of a window's landings."""

    window: str
    number: int


Work = Any
"""Something sent to the server: a MERGE, a landing, or what another module of the model adds."""


class Lost(NamedTuple):
    """Something sent to the server that can only be refused."""

    what: str = "it"


LOST = Lost()


class Run(NamedTuple):
    """A load: where it stands, and what it remembers.

    ``pending``: windows asked for and not yet checkpointed; the first is the one being loaded. ``together``: those that
    are loaded in one landing and one MERGE. ``trusted``: the position of a clean checkpoint; ``known``: of any.
    ``overlapped``: another run of one of its windows was killed meanwhile. ``full``: further plans are made in full.
    ``fenced``: the fence of the window's landings has been moved.
    ``carried``: the present MERGE is only for keys that the window has gained.
    ``doubtful``: merges of ranges are still to be called off. ``barred``: the barrier was raised since it was read;
    ``denied``: the deny list that was read names the subject. ``repairs``: the row was edited since the window's proof.
    """

    asked: tuple[str, ...]
    at: str = "idle"
    pending: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    trusted: Content | None = None
    landed: bool = False
    fenced: bool = False
    committed: bool = False
    overlapped: bool = False
    full: bool = False
    known: Content | None = None
    carried: bool = False
    doubtful: bool = False
    row: Change | None = None
    fence: tuple[int, int] = (0, 0)
    noted: tuple[Content, ...] = ()
    work: Work | None = None
    barred: bool = False
    denied: bool = False
    repairs: bool = False

    @property
    def window(self) -> str:
        """The window being loaded."""
        return self.pending[0]

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return self.at not in ("idle", "killed")


class State(NamedTuple):
    """Everything there is. Windows are positions in the tuples; see ``Case.windows``.

    The fences of MERGEs and of landings have one place more, for what is not of one window. ``erasure``: how far an
    erasure has come: nowhere, ``denied`` or ``finished``. ``edits``: how often the row may still be deleted by hand;
    ``edited``: the windows that had been proven before it was, until one of them is loaded again; None: it was not.
    """

    source: tuple[int, ...]
    log: tuple[Landed | None, ...]
    landings: tuple[int, ...]
    row: Change | None
    fences: tuple[tuple[int, int], ...]
    checkpoints: tuple[Checkpoint, ...]
    runs: tuple[Run, ...]
    zombies: tuple[Work, ...]
    kills: int
    replays: int
    frozen: tuple[str, ...] = ()
    undone: tuple[Content | None, ...] = ()
    erasure: str = ""
    edits: int = 0
    edited: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Case:
    """What happens at the source, and how much may go wrong.

    Args:
        windows: Per window the contents that its source has, one after the other.
        kills: How many runs may be killed.
        replays: How many runs may be started although nothing changed.
        runs: Per run the windows it loads; by default there is one for each.
        old: Windows that may be compacted.
        chosen: Old windows for which the rewrite of a compacted window has been chosen.
        edits: How often somebody may delete the row from the table by hand.
    """

    windows: dict[str, tuple[Content, ...]]
    kills: int = 1
    replays: int = 0
    runs: tuple[tuple[str, ...], ...] = ()
    old: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    edits: int = 0

    @property
    def proofs(self) -> bool:
        """True if a run may meet a proof: of an earlier load, or of one before an edit by hand."""
        return bool(self.replays or self.edits)


def newest(changes: tuple[Change, ...]) -> Change | None:
    """The change that decides, or None."""
    return max((change for change in changes if not is_beside(change)), default=None)


def fold(contents: tuple[Content, ...]) -> Change | None:
    """The row that the table should have: the newest change, unless it is a delete."""
    last = newest(tuple(change for content in contents for change in content))
    return None if last is None or last[1] else last


def once(*changes: Change) -> tuple[Content, ...]:
    """A source that never changes again."""
    return (tuple(sorted(changes)),)


def each_work(state: State, change: Callable[[Work], Work]) -> State:
    """The state with everything that is under way on the server changed."""
    return state._replace(
        runs=tuple(run if run.work is None else run._replace(work=change(run.work)) for run in state.runs),
        zombies=tuple(change(zombie) for zombie in state.zombies),
    )
