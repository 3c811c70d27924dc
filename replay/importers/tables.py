"""The public tables of lengths: Azure's of 2023 to 2025, and BurstGPT's.

    TIMESTAMP,ContextTokens,GeneratedTokens                     "2023-11-16 18:17:03.9799600"
    Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,...     seconds from the first day

They name neither prompts nor prefixes. A response of no tokens is BurstGPT's way to say that it failed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from replay.importers.source import Source
from replay.trace import TraceRequest

AZURE: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURST: Final = ("Timestamp", "Request tokens", "Response tokens")


def fits_azure(head: str) -> bool:
    return all(column in head.partition("\n")[0] for column in AZURE)


def fits_burstgpt(head: str) -> bool:
    return all(column in head.partition("\n")[0] for column in BURST)


def read_azure(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["TIMESTAMP"] = "date and time, UTC"
    for index, (line, row) in enumerate(source.rows(*AZURE)):
        source.drop(row.keys() - set(AZURE))
        yield TraceRequest(
            id=str(index),
            at_s=source.moment(row["TIMESTAMP"], "TIMESTAMP", line),
            prompt_tokens=source.count(row["ContextTokens"], "ContextTokens", line),
            output_tokens=source.count(row["GeneratedTokens"], "GeneratedTokens", line),
        )


def read_burstgpt(source: Source) -> Iterator[TraceRequest]:
    tick_s = source.seconds_of("Timestamp", "s")
    turns: Counter[str] = Counter()
    for index, (line, row) in enumerate(source.rows(*BURST)):
        source.drop(row.keys() - {*BURST, "Session ID"})
        answered = source.count(row["Response tokens"], "Response tokens", line)
        if not answered:
            source.tally.skipped["failed: no response tokens"] += 1
            continue
        session = row.get("Session ID", "")
        yield TraceRequest(
            id=str(index),
            at_s=source.number(row["Timestamp"], "Timestamp", line) * tick_s,
            session=session,
            turn=turns[session] if session else 0,
            prompt_tokens=source.count(row["Request tokens"], "Request tokens", line),
            output_tokens=answered,
        )
        turns[session] += 1
