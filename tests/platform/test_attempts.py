"""A bounded number of attempts."""

import pytest

from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import IncrementalLoadError


def test_the_first_result_counts_even_if_it_is_false_and_after_the_last_attempt_the_error_is_raised() -> None:
    results = [None, False, None, None, None]
    lost = IncrementalLoadError("others came first")
    assert in_attempts(2, lambda: results.pop(0), lost) is False
    with pytest.raises(IncrementalLoadError, match="others came first"):
        in_attempts(2, lambda: results.pop(0), lost)
    assert results == [None]
