"""`specguard replay desensitise`: a trace without what it said."""

from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.exits import DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from replay.desensitise import Proof


def desensitise(
    trace: Path, *, out: Path, salt_file: Path | None = None, json_output: JsonFlag = False
) -> int:
    """Take the wording, names and secrets out of a trace, and prove that its shape stayed.

    Example: specguard replay desensitise day.trace --out day-safe.trace

    Every word becomes a common word of its length, every digit another, every other letter one of its own
    script; blanks, punctuation, code's own marks, lengths and common prefixes stay. Answers and images are
    left out. Table or --json show what was counted before and after.

    Exit codes: 0 done and proved, 1 done but the proof does not hold, 2 the trace cannot be read.

    Parameters
    ----------
    trace
        What `specguard replay import` wrote.
    out
        Where the safe trace goes.
    salt_file
        Secret bytes, 16 at least, that make several traces fit each other. Without it a salt is made, used
        once and forgotten.
    """
    from replay.desensitise import Desensitiser
    from replay.trace import TraceError, read_trace, write_trace

    if out.absolute() == trace.absolute():
        raise Unfit("desensitise: --out must be another file: the trace itself is not overwritten")
    try:
        desensitiser = Desensitiser(salt_file.read_bytes() if salt_file else None)
        header, requests = read_trace(trace)
        write_trace(out, desensitiser.header(header), desensitiser.requests(requests))
    except (TraceError, ValueError) as error:
        raise Unfit(f"desensitise: {error}") from None
    except OSError as error:
        raise Unfit(f"desensitise: {error.filename or out}: {error.strerror}") from None
    proof = desensitiser.proof
    if json_output:
        import msgspec

        print_json({"out": str(out), "holds": proof.holds(), **msgspec.to_builtins(proof)})
    else:
        _show(proof, out)
    return DONE if proof.holds() else FOUND


def _show(proof: "Proof", out: Path) -> None:
    rows = (
        ("characters", proof.chars, proof.chars_after),
        ("words and signs", proof.tokens, proof.tokens_after),
        ("shared prefix", proof.shared_prefix_chars, proof.shared_prefix_chars_after),
        ("words in place", proof.words, proof.words_left),
        ("24-character runs", proof.shingles, proof.shingles_left),
    )
    print_line(f"{'':<18}{'before':>14}{'after':>14}")
    for name, before, after in rows:
        print_line(f"{name:<18}{before:>14,}{after:>14,}")
    for script, before in sorted(proof.scripts.items()):
        print_line(f"script of {script:<8}{before:>14,}{proof.scripts_after.get(script, 0):>14,}")
    print_line(
        f"left out          {proof.answers_left_out:,} answers, {proof.media_left_out:,} images or files,"
        f" {proof.grammars_left_out:,} grammars"
    )
    verdict = (
        "holds: shape kept, wording gone" if proof.holds() else "does NOT hold: look at the rows that differ"
    )
    print_line(f"proof             {verdict}")
    print_line(f"written           {out} ({proof.requests:,} requests)")
