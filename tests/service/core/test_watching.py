from service.core.watching import Watch


def row(rid: str, tokens: int | None, length: float | None, level: str = "clean") -> dict[str, object]:
    return {
        "rid": rid, "attempt": 1, "worker": "http://w", "tokens": tokens, "accept_length": length,
        "level": level,
    }  # fmt: skip


def test_stretches_between_snapshots_are_what_is_learned() -> None:
    watch = Watch(3)
    for tokens in (25, 50, 100):
        watch.see({"streams": [row("a", tokens, 2.5)]})
    ((key, (stretches, depth)),) = watch.clean()
    assert (key.worker, key.depth, depth) == ("http://w", 3, 3)
    assert [round(value, 6) for stretch in stretches for value in stretch] == [10, 15, 20, 30]


def test_a_stream_that_is_suspected_is_left_out_whole() -> None:
    watch = Watch(3)
    watch.see({"streams": [row("a", 50, 2.5), row("b", 50, 2.5)]})
    watch.see({"streams": [row("a", 100, 2.5, "suspect"), row("b", 100, 2.5)]})
    assert [key.stratum for key, _ in watch.clean()] == ["live"]
    assert watch.not_clean == 1


def test_streams_without_acceptance_say_nothing() -> None:
    watch = Watch(3)
    for tokens in (None, 10, 400):
        watch.see({"streams": [row("a", tokens, None)]})
    assert list(watch.clean()) == []
    watch.see({})
    assert repr(watch) == "<Watch 1 streams>"
