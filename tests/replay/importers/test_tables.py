"""Azure's and BurstGPT's tables."""

import pytest

from replay.importers import SourceError
from tests.replay.importers.conftest import Importing

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8"""

BURST = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,7,1.5,ChatGPT,472,18,490,Conversation log
45,7,2.0,ChatGPT,1087,0,1087,Conversation log
118,7,2.5,GPT-4,417,276,693,API log
"""


def test_azures_times_have_seven_digits_and_no_last_newline(importing: Importing) -> None:
    read = importing("azure", AZURE)
    assert [one.at_s for one in read.requests] == [0.0, pytest.approx(0.052)]
    assert (read[0].prompt_tokens, read[0].output_tokens) == (4808, 10)
    assert "TIMESTAMP names no time zone: read as UTC" in read.imported.notes


def test_burstgpts_failures_are_no_requests_and_are_counted(importing: Importing) -> None:
    read = importing("burstgpt", BURST)
    assert [(one.at_s, one.turn) for one in read.requests] == [(0.0, 0), (113.0, 1)]
    assert read.imported.skipped == {"failed: no response tokens": 1}
    assert set(read.imported.dropped) == {"Elapsed time", "Model", "Total tokens", "Log Type"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (AZURE + ",9", "given:3: has more or fewer fields"),
        (AZURE.replace("4808", "many"), "given:2: ContextTokens must be a number of tokens"),
        (AZURE.replace("2023-11-16", "yesterday", 1), "given:2: TIMESTAMP must be a date and time"),
        (AZURE.partition("\n")[0] + "\n", "holds no request"),
    ],
)
def test_a_bad_row_is_named(text: str, says: str, importing: Importing) -> None:
    with pytest.raises(SourceError, match=says):
        importing("azure", text)
