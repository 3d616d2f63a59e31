"""A game day is won by the loader as it is, and lost by one that leaves a table wrong."""

import re
from pathlib import Path

import pytest

from incload_assets.cli.support.drill import GameDay, play
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.support.project_copy import Clone


@pytest.mark.slow
@pytest.mark.integration
def test_it_is_won_by_the_loader_as_it_is_and_leaves_nothing_behind(tmp_path: Path, spark_url: str) -> None:
    clone = Clone.of(tmp_path, spark_url)
    done = clone.incload("game-day", INCLOAD_SAMPLES="false")
    assert (done.returncode, done.stderr) == (0, "")
    *events, last = done.stdout.splitlines()
    assert len(events) == 11
    assert [event for event in events if not re.fullmatch(r"✓ .*  \d+\.\d s", event)] == []
    assert last == "Whatever happened, the table was right."
    assert not list((clone.root / ".incload" / "lake" / "_game_day").iterdir())


def test_it_is_lost_at_once_when_the_table_is_wrong_and_says_what_is_missing(
    tmp_path: Path, spark_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = GameDay.begin(Settings(home=tmp_path, spark=spark_url))

    def loses_a_row() -> None:
        with open_session(game.settings) as spark:
            spark.sql(f"DELETE FROM {game.lake.sql_name(game.uri)} WHERE id = 'shared'").first()
        game.require_right()

    monkeypatch.setattr(game, "_rewrite", loses_a_row)
    (_, _, fine), (_, _, wrong) = play(game)
    assert fine is None
    assert wrong == ("AssertionError: the table is wrong: missing [('shared', 'of 2026-01-03', 2)], surplus [], 3 rows")
    assert Path(game.root).exists(), "for whoever wants to know why"
