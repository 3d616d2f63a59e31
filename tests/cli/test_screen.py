"""What a person sees of what takes long."""

import pytest

from incload_assets.cli.support import screen
from incload_assets.platform.progress import tell


def test_without_a_terminal_a_line_is_said_now_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.under_way():
        for seconds in range(5):
            tell(f"Spark is starting, {seconds} s")
        tell("")
    tell("and nobody is told of this")
    assert capsys.readouterr().out == "Spark is starting, 0 s\n"
