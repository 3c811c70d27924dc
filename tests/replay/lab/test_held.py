"""The races in real processes, decided by held writes: the same victims every time, and none with the fix."""

import httpx
import pytest

from replay.lab.held import SHARED_TOKENS, Held, part
from replay.lab.serve import Lab, LabError, Options
from replay.lab.slot import Race

SITE = Options(prefill=1, decode=1, pages=128, prefix_cache=True)


def test_retries_ask_the_same_and_share_their_prefix_with_each_other_only() -> None:
    one, again, two, stranger = part("a", 3, 1), part("b", 3, 1), part("c", 3, 2), part("d", 9)
    assert one.tokens == again.tokens
    assert one.tokens[:SHARED_TOKENS] == two.tokens[:SHARED_TOKENS]
    assert one.tokens[SHARED_TOKENS:] != two.tokens[SHARED_TOKENS:]
    assert stranger.tokens[:16] != one.tokens[:16]
    assert len({one.rid, again.rid, two.rid, stranger.rid}) == 4


@pytest.mark.e2e
async def test_the_plays_have_the_same_victims_every_time_and_none_with_the_fix() -> None:
    async with Lab(SITE) as lab, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        held = Held(lab, client)
        told = [await held.play("late-write", race) for race in (Race.UNFIXED, Race.FIXED, Race.UNFIXED)]
        assert [one.victims for one in told] == [["next"], [], ["next"]]
        assert [one.changed for one in told] == [["next"], [], ["next"]]
        assert [one.releases["late"] for one in told] == ["abandoned", "drained", "abandoned"]
        told = [await held.play("cancel-retry", race) for race in (Race.UNFIXED, Race.DEFERRED)]
        assert told[0].late == ["cancelled-1", "cancelled-2"]
        assert told[0].victims == told[0].changed == ["retry-1", "stranger"]
        assert (told[1].late, told[1].victims) == ([], [])
        with pytest.raises(LabError, match="refused"):
            await held._set(lab.decode[0], race="hopeful")
