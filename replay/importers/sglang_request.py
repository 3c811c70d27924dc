"""What SGLang notes of a request, in whatever file: its GenerateReqInput and the meta_info of its answer.

Kept is what a client asks for. Left out is what only that process could use: rooms and hosts of the
disaggregated pair, ranks, the IPC name of a worker; resent, they would point a decode at a prefill long gone.
`ignore_eos` is left out too: an answer that may not end proves nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from replay.importers.source import Source, tokens_of
from replay.trace import TraceRequest

KEPT: Final = ("text", "input_ids", "sampling_params", "stream", "lora_path", "return_logprob")
SESSION: Final = ("conversation_id", "routing_key")
NEVER_SAMPLED: Final = frozenset({"ignore_eos", "custom_params", "stop_regex_max_len"})
HEALTH: Final = "HEALTH_CHECK"


def request_of(
    source: Source, asked: Mapping[str, Any], meta: Mapping[str, Any], at_s: float, answer: str | None
) -> TraceRequest | None:
    """One request; None for what is no generation of a user, which is tallied."""
    name = asked.get("rid") or meta.get("id")
    if not isinstance(name, str) or name.startswith(HEALTH):
        reason = "a health check" if isinstance(name, str) else "a batch: its rid is a list"
        source.tally.skipped[reason] += 1
        return None
    body = {key: asked[key] for key in KEPT if asked.get(key) not in (None, False, [], "")}
    if "text" not in body and "input_ids" not in body:
        source.tally.skipped["its prompt was not logged (level 3 logs it)"] += 1
        return None
    if "text" in body and isinstance(body.get("input_ids"), list):
        del body["input_ids"]
    body["sampling_params"] = _sampling(source, asked.get("sampling_params"))
    source.drop(
        {key for key in asked if key not in KEPT and key != "rid" and asked[key] not in (None, False)}
    )
    finish = meta.get("finish_reason")
    left = isinstance(finish, dict) and finish.get("type") == "abort"
    return TraceRequest(
        id=name,
        at_s=at_s,
        session=str(next((asked[key] for key in SESSION if asked.get(key)), "")),
        path="/generate",
        prompt_tokens=tokens_of(meta.get("prompt_tokens")),
        output_tokens=tokens_of(meta.get("completion_tokens")),
        cached_tokens=tokens_of(meta.get("cached_tokens")),
        body=body,
        abort_after_s=_seconds(meta.get("e2e_latency")) if left else None,
        expected=None if left else answer,
    )


def _sampling(source: Source, told: object) -> dict[str, Any]:
    if not isinstance(told, Mapping):
        return {}
    if told.get("ignore_eos"):
        source.tally.note("ignore_eos was set in the source and is left out: answers may end")
    return {key: value for key, value in told.items() if value is not None and key not in NEVER_SAMPLED}


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else None
