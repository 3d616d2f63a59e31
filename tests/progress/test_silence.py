"""A silence holds for some tables or for all, is audited, and ends at its time or by hand."""

from datetime import timedelta
from pathlib import Path

import pytest

from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import chain_of
from incload_assets.progress.pause import pause, pause_of
from incload_assets.progress.silence import silence, silence_of, silences, unsilence

HOUR = timedelta(hours=1)


def test_a_silence_of_some_tables_or_of_all_holds_beside_pauses_until_its_end_or_until_it_is_ended(
    tmp_path: Path,
) -> None:
    lake, until = Lake(str(tmp_path)), now() + HOUR
    with pytest.raises(IncrementalLoadError, match="nothing: not silenced"):
        unsilence(lake)
    [made] = silence(lake, ["orders"], until, "deployment", actor="ada")
    assert str(made).startswith("silenced by ada since 20") and str(made).endswith("UTC: deployment")
    assert silence_of(silences(lake), "orders") == made and silence_of(silences(lake), "prices") is None
    assert pause_of(lake, "orders") is None
    pause(lake, "orders", until, "migration", actor="ada")
    [of_all] = silence(lake, [], until + HOUR, "upgrade", actor="grace")
    assert silence_of(silences(lake), "prices") == of_all
    assert silences(lake, until) == [of_all] and silences(lake, until + HOUR) == []
    with pytest.raises(IncrementalLoadError, match="prices: not silenced alone, but with all tables"):
        unsilence(lake, ["prices"])
    assert unsilence(lake, ["orders"], actor="ada") == [made]
    assert unsilence(lake, actor="ada") == [of_all]
    assert silences(lake) == [] and pause_of(lake, "orders") is not None
    assert [(e.action, e.table, e.actor) for e in chain_of(lake).entries] == [
        ("silence", "orders", "ada"), ("pause", "orders", "ada"), ("silence", "", "grace"),
        ("unsilence", "orders", "ada"), ("unsilence", "", "ada"),
    ]  # fmt: skip
