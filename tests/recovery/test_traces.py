"""Words of texts, among which the identifiers of erased persons are looked for."""

import pytest

from incload_assets.recovery.traces import _words


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("anna-4711", '{"person": "anna-4711"}'),
        ("anna-4711", "https://shop/customers/anna-4711/orders"),
        ("anna-4711", "id=anna-4711&x=1"),
        ("anna-4711", "the order of anna-4711."),
        ("anna-4711", "key#anna-4711"),
        ("anna.4711@example.org", "mailto:anna.4711@example.org?subject=x"),
        ("anna/4711", "path:anna/4711"),
        ("rené-4711", r'{"person": "ren\u00e9-4711"}'),
        ("anna 4711", '{"person": "anna 4711"}'),
        ("crm-1f0c3a77:abc", '{"person":"crm-1f0c3a77:abc"}'),
        ("1000030", "_changes/x, 1000030"),
    ],
)
def test_an_identifier_is_a_word_of_a_text_wherever_it_stands(identifier: str, text: str) -> None:
    assert identifier in _words([text])


def test_words_that_tell_nobody_apart_are_left_out() -> None:
    assert _words(["17 1234 12345 123456"]) == {"17 1234 12345 123456", "123456"}
