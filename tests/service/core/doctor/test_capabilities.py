"""What works where, and which part of it is this fleet's."""

from service.core.doctor.capabilities import CAPABILITIES, CHAT, Mode, Telemetry, here
from service.core.doctor.facts import Engine, Facts, RouterKind, WorkerSeen
from service.core.doctor.routers import Steering
from tests.service.core.doctor.clinic import pair, router


def test_grpc_and_dp_aware_are_marked_unsupported_and_nothing_else_is() -> None:
    assert {row.mode for row in CAPABILITIES if not row.supported} == {Mode.GRPC, Mode.DP_AWARE}
    assert {row.mode for row in CAPABILITIES if row.supported} == {Mode.REGULAR, Mode.PD}


def test_a_fleet_finds_its_rows() -> None:
    mine = here(Facts(router(), pair()), frozenset())
    assert (mine.mode, mine.steering, mine.supported) == (Mode.PD, Steering.PINNED, True)
    assert {row.router for row in mine.rows} == {RouterKind.SMG}


def test_the_old_router_drops_what_chat_would_tell() -> None:
    mine = here(Facts(router(RouterKind.SGLANG_ROUTER), pair()), frozenset())
    (chat,) = (row for row in mine.rows if row.dialect == CHAT)
    assert (chat.telemetry, chat.with_probe) == (Telemetry.NONE, Telemetry.EXACT)


def test_a_finding_that_says_unsupported_decides_the_mode() -> None:
    mine = here(Facts(router(), pair()), frozenset({"dp_aware"}))
    assert (mine.mode, mine.supported) == (Mode.DP_AWARE, False)


def test_where_nothing_speculates_there_are_no_steps_to_tell() -> None:
    rows = here(Facts(router(), pair(speculative_algorithm=None)), frozenset()).rows
    assert {(row.telemetry, row.with_probe, row.note) for row in rows} == {
        (Telemetry.NONE, Telemetry.NONE, "no speculative decoding")
    }


def test_vllm_has_chat_alone_and_no_probe() -> None:
    workers = (WorkerSeen("http://v", engine=Engine.VLLM),)
    (row,) = here(Facts(workers=workers), frozenset()).rows
    assert (row.dialect, row.with_probe) == (CHAT, Telemetry.GROWTH)
