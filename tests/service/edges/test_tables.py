"""Tables hold no column for text of a prompt or an answer, and ids that sort."""

from service.edges.tables import ATTEMPTS, CASES, INCIDENTS, METADATA


def test_there_are_four_tables() -> None:
    assert set(METADATA.tables) == {"incidents", "attempts", "cases", "replays"}


def test_what_retention_and_paging_sort_by_is_indexed() -> None:
    for table in (INCIDENTS, CASES):
        assert {"at_ms", "rid"} <= {column.name for index in table.indexes for column in index.columns}


def test_attempts_go_with_their_incident() -> None:
    (key,) = ATTEMPTS.foreign_keys
    assert (key.column.table.name, key.ondelete) == ("incidents", "CASCADE")
