"""Landed rows validated by the present contract, without a commit: what would be quarantined, and what would pass."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, REJECTED, TRUNCATE, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import accepted_rows
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.ingest.compared import compared
from incload_assets.ingest.condition_errors import broken_condition_named
from incload_assets.ingest.landed import validated_from_log
from incload_assets.ingest.quarantine import is_tolerated
from incload_assets.ingest.validate import validate
from incload_assets.load.replay import unreplayable
from incload_assets.load.validatable import can_be_validated, records_of_payloads
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several, some

_LANDED = "landed"
"""The payload in place of an accepted row's, by which the row is recognized among the validated ones."""
_VALUE = r"(?s)^(.*?: )'.*' (?=\S)"
SHOWN_REASONS = 5
SHOWN_ROWS = 3
MOST_GROUPS = 10_000
"""Largest number of pairs of a window and a reason that are distinguished."""


@dataclass(frozen=True)
class RefusedFor:
    """A reason, without a value, for which accepted rows would be quarantined; samples are masked."""

    reason: str
    rows: int
    samples: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ValidatedAgain:
    """The result for one table: its windows in the order of their landing, and numbers of rows.

    Args:
        accepted: Accepted rows that were validated; rows that people accepted (``decided``) are among them.
        refused: Accepted rows that would be quarantined, by reason the most frequent first.
        rejected: Quarantined rows that were validated.
        passing: Quarantined rows that would be accepted.
        unvalidated: Quarantined rows that keep no record that can be validated.
        stopping: The windows whose load would stop, as too many rows would be rejected.
    """

    windows: Sequence[str] = ()
    accepted: int = 0
    refused: int = 0
    reasons: Sequence[RefusedFor] = ()
    rejected: int = 0
    passing: int = 0
    decided: int = 0
    unvalidated: int = 0
    stopping: Sequence[str] = field(default=())

    def lines(self, table_name: str) -> Iterator[str]:
        """The result for people."""
        if not self.windows:
            yield f"{table_name}: no window is landed"
            return
        of = f"{several(self.accepted, 'landed row')} of {several(len(self.windows), 'window')}"
        yield f"{table_name}: {self.refused:,} of {of} would now be quarantined{':' if self.reasons else ''}"
        for one in self.reasons[:SHOWN_REASONS]:
            yield f"  {one.rows:,} x {one.reason} (for example {', '.join(one.samples)})"
        if len(self.reasons) > SHOWN_REASONS:
            yield f"  and for {several(len(self.reasons) - SHOWN_REASONS, 'other reason')}"
        yield f"{table_name}: {self.passing:,} of {several(self.rejected, 'quarantined row')} would now pass"
        if self.unvalidated:
            yield f"  {self.unvalidated:,} more keep no record that can be validated"
        if self.decided:
            yield f"  {several(self.decided, 'row')} that people accepted count as accepted"
        if self.stopping:
            which = some(self.stopping)
            yield f"{table_name}: loads of {which} would stop, as more rows would be rejected than tolerated"

    def as_plain(self, table_name: str) -> dict[str, Any]:
        """The result for programs."""
        reasons = [{"reason": one.reason, "rows": one.rows, "samples": [*one.samples]} for one in self.reasons]
        return {"table": table_name, **vars(self), "windows": [*self.windows], "reasons": reasons}


def validate_again(load: LoadContext, last: int) -> ValidatedAgain:
    """The verdicts of the present contract about the rows of the windows landed last; nothing is written.

    Raises:
        SourceUnreadable: A payload cannot be parsed by the source.
    """
    table, log = load.table, load.lake.delta(load.log.uri)
    records = {} if log is None else {k: r for k, r in load.log.records_in(log).items() if not r.is_withdrawn}
    known = {window.key: window for window in table.known_windows(records)}
    keys = sorted(known, key=lambda key: (records[key].landed_at, key))[-last:]
    if log is None or not keys:
        return ValidatedAgain()
    former = load.log.read(load.spark, log.version(), keys)
    kind, has_payload = F.col("_kind"), F.col("_payload").isNotNull()
    is_good = kind.isin(*UPSERTS, DELETE, TRUNCATE)
    can_replay = not unreplayable(table)
    is_validated = (kind == REJECTED) & (can_be_validated(table) if can_replay else F.lit(False))
    good, decided = former.filter(is_good & ~has_payload), former.filter(is_good & has_payload)
    windows = [known[key] for key in keys]
    undoubted = validated_from_log(decided, table, windows).withColumn("_reasons", F.array().cast("array<string>"))
    landed = validated_from_log(good, table, windows).unionByName(undoubted).withColumn("_payload", F.lit(_LANDED))
    if can_replay:
        payloads = records_of_payloads(former.filter(is_validated), table)
        accepted = accepted_rows(load.lake, table, keys)
        with broken_condition_named(payloads, table, min(keys)):
            validated = validate(payloads, table, windows, beside=landed, accepted=accepted)
            groups = _groups(validated, table)
    else:
        groups = _groups(compared(landed, table), table)
    counts = former.groupBy("_window").agg(
        F.count(F.when(is_good & ~has_payload, 1)).alias("accepted"),
        F.count(F.when(is_good & has_payload, 1)).alias("decided"),
        F.count(F.when(is_validated, 1)).alias("rejected"),
        F.count(F.when((kind == REJECTED) & ~is_validated, 1)).alias("unvalidated"),
    )
    return _told(keys, {row["_window"]: row.asDict() for row in counts.head(len(keys))}, groups, records, table)


def _groups(validated: DataFrame, table: Table) -> list[dict[str, Any]]:
    """The rejected rows among the validated ones, counted by window, by reason and by whether they were accepted."""
    was_landed = F.col("_payload").eqNullSafe(F.lit(_LANDED))
    reason = F.regexp_replace(F.element_at("_reasons", 1), _VALUE, "$1")
    named = _named(table)
    found = (
        validated.filter(F.col("_kind") == REJECTED)
        .groupBy("_window", was_landed.alias("was_landed"), F.when(was_landed, reason).alias("reason"))
        .agg(F.count(F.lit(1)).alias("rows"), F.min(named).alias("first"), F.max(named).alias("last"))
        .orderBy(F.desc("rows"), "_window", "reason")
    )
    return [row.asDict() for row in found.head(MOST_GROUPS)]


def _named(table: Table) -> Column:
    """The key of a row as text, its place if the table has no keys; personal columns are masked."""
    if not table.changes.keys:
        return F.concat_ws(" row ", "_source.file", F.col("_source.row").cast("string"))
    personal = table.contract.personal
    texts = [
        F.lit(f"{name}={MASK}")
        if name in personal
        else F.concat(F.lit(f"{name}="), F.coalesce(col(name).cast("string"), F.lit("NULL")))
        for name in table.changes.keys
    ]
    return F.concat_ws(" ", *texts)


def _told(
    keys: Sequence[str],
    counts: Mapping[str, Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    records: Mapping[str, WindowRecord],
    table: Table,
) -> ValidatedAgain:
    total: Counter[str] = Counter()
    for of_window in counts.values():
        total.update({name: of_window[name] for name in ("accepted", "decided", "rejected", "unvalidated")})
    refused, still, by_reason = Counter[str](), Counter[str](), Counter[str]()
    samples: dict[str, dict[str, None]] = {}
    for group in groups:
        (refused if group["was_landed"] else still)[group["_window"]] += group["rows"]
        if group["was_landed"]:
            by_reason[group["reason"]] += group["rows"]
            shown = samples.setdefault(group["reason"], {})
            shown |= dict.fromkeys(f"{group[name]} in {group['_window']}" for name in ("first", "last"))
    stopping = [
        key
        for key in keys
        if refused[key]
        and not is_tolerated(table, records[key].rows_read, refused[key] + still[key] + counts[key]["unvalidated"])
    ]
    return ValidatedAgain(
        windows=keys,
        accepted=total["accepted"],
        refused=refused.total(),
        reasons=[RefusedFor(reason, n, tuple(samples[reason])[:SHOWN_ROWS]) for reason, n in by_reason.most_common()],
        rejected=total["rejected"],
        passing=total["rejected"] - still.total(),
        decided=total["decided"],
        unvalidated=total["unvalidated"],
        stopping=sorted(stopping),
    )
