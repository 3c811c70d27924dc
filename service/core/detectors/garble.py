"""Garble: marks that healthy text does not carry, counted over the stream.

    replacement   U+FFFD; a run at the very end of the text may be a split character and does not count yet
    special       leaked control tokens: [PAD], [unused7], [control_3], <unk>, <pad>, <|...|>, </think> anew
    glue          letters of unrelated scripts inside one word (`Gฒtob`), or a rare Han character,
                  kana, Hangul or unusual symbol between small Latin letters (`me怦ge`, `gutterぼdia`)
    debris        pieces of a byte-level or SentencePiece vocabulary: `æĺ¯`, `theĠend`, `▁word`
    unassigned    code points that Unicode gives to nobody

What the prompt already holds is no mark: an agent may edit a tokenizer's vocabulary. A script that the prompt
holds, or that makes up a good part of the answer, is related: glue with it counts only at a higher number
(an English stem with a Russian ending). Nor is a table of characters garble: a long row of signs beyond
ASCII of which hardly one comes twice is no word. Prompt and row are read only when a rule is about to speak.

Strength (reference: measured on 7,650 windows of ordinary files): replacement, special 0 hits, glue 2. That
bounds the likelihood ratio at some 1,000 and no higher; that one of these may act alone is a decision.

Where several rules speak, the first of RULES is reported, and a later look may still correct rule or kind:
the end of a stream is judged alike however its events were grouped. Cost: plain ASCII without `<` or `[`
0.3 us a look; other text 60 ns a character. State: six characters, a possibly unfinished token, some counts.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts
from service.core.scripts import CODES, has_table, is_other

CARRY: Final = 6
"""Characters kept from look to look: a rule spans four codes, and marks vanish."""

TOKEN_CHARS: Final = 48
"""A control token is at most this long."""

PROMPT_CHARS: Final = 65536
"""Of a long prompt the newest part is read: 3 ms at worst, once a stream."""

SPECIAL: Final = re.compile(
    r"\[(?:PAD|UNK|MASK|CLS|SEP|unused_?\d+|control_\d+)\]"
    r"|<(?:unk|pad|bos|eos|mask|unused_?\d+|extra_id_\d+)>"
    r"|<[|\uff5c][^<>\s]{1,40}[|\uff5c]>|</think>"
)
OTHER: Final = "\u0100-\uffff"
GLUE: Final = re.compile(
    rf"a(?=[c{OTHER}])|e(?=[{OTHER}])|[c{OTHER}](?=a)|[{OTHER}](?=e)"
    rf"|c(?=[{OTHER}])|[{OTHER}](?=c)|([{OTHER}])(?!\1)(?=[{OTHER}])"
)
INSERT: Final = re.compile(r"[ae](?=([ijkgs]{1,2})[ae])")
SINGLE: Final = re.compile(rf"[ae](?=[c{OTHER}][ae])")
ESCAPE: Final = re.compile(r"\\u[0-9a-fA-F]{4}|[\\%][a-zA-Z]")
FOREIGN: Final = re.compile(rf"[cykg{OTHER}]")
DEBRIS: Final = re.compile(
    r"(?=([\u00e0-\u00ef][\u0122-\u0143\u00a1-\u00bf]{2}|[a-z.,;:][\u0120\u010a][A-Za-z]|\u2581[^\W\d_]))"
)
PLAIN: Final = frozenset("aAhd \n")
"""Codes that no rule is about."""

RARE_CODES: Final = "ijs"
RULES: Final = ("special", "debris", "unassigned", "glue", "replacement")
"""In the order in which they are reported: the most telling first."""

LEAKED_MAX: Final = 4
"""Different control tokens remembered: more than one is all that is asked."""

MOSTLY: Final = 0.75
"""Share of the glue around single signs, two marks to a letter, that makes it replaced characters."""

LOOPED: Final = 6
"""The same control token so often is a loop."""

OPEN_ROW: Final = re.compile("[\u00a1-\u2fff\ufb00-\ufdff]{8}$")
"""What may become a table of characters: what is glued in it waits for its end."""

ROWS_BYTES: Final = 4096

SCRIPTS_MAX: Final = 64
"""Scripts told apart in one stream; more than that is no text."""


class GarbleState:
    """What was counted in one choice."""

    __slots__ = (
        "carry", "counts", "due", "facts", "foreign", "glued", "leaked", "letters", "prompt_codes", "said",
        "single", "token",
    )  # fmt: skip

    def __init__(self, facts: RequestFacts, due: dict[str, int]) -> None:
        self.facts = facts
        self.carry = ""
        self.token = ""  # from a bracket on that may open a control token
        self.counts = dict.fromkeys(RULES, 0)
        self.due = due  # the count at which each rule is weighed next
        self.leaked: set[str] = set()  # control tokens seen, a few
        self.glued: dict[str, int] = {}  # glue by the script that does not belong
        self.letters: dict[str, int] = {}  # letters of each script that is not Latin ...
        self.foreign = 0  # ... and of all of them
        self.single = 0  # glue of one letter between Latin ones
        self.prompt_codes: str | None = None
        self.said = ("", Kind.NORMAL)  # rule and kind of the finding given out


@dataclass(frozen=True, slots=True)
class Garble:
    """Parameters as they stand in the rule set under `garble`."""

    replacement_min: int
    special_min: int
    glue_min: int
    glue_related_min: int
    debris_min: int
    unassigned_min: int
    related_share: float
    related_letters: int
    related_mostly: float
    singles_min: int
    many_scripts: int
    acts_log10: float

    name: ClassVar[str] = "garble"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> GarbleState:
        due = {
            "special": self.special_min,
            "debris": self.debris_min,
            "unassigned": self.unassigned_min,
            "glue": self.glue_min,
            "replacement": self.replacement_min,
        }
        return GarbleState(facts, due)

    def look(self, state: GarbleState, look: Look) -> Finding | None:
        text = look.text
        if not text:
            return None
        weigh = look.ended
        if "<" in text or "[" in text or state.token:
            self._specials(state, text)
            weigh = True
        if not (text.isascii() and state.carry.isascii()):
            self._characters(state, text)
            weigh = True
        state.carry = text[-CARRY:] if len(text) >= CARRY else (state.carry + text)[-CARRY:]
        if not weigh:
            return None
        for rule in RULES:
            if state.counts[rule] >= state.due[rule]:
                finding = self._weigh(state, look, rule)
                if finding is not None:
                    return finding
        return None

    # --- counting ---

    def _specials(self, state: GarbleState, text: str) -> None:
        text = state.token + text
        found = SPECIAL.findall(text)
        if found:
            state.counts["special"] += len(found)
            state.leaked = (state.leaked | set(found)) if len(state.leaked) < LEAKED_MAX else state.leaked
        opened = max(text.rfind("<"), text.rfind("["))
        rest = text[opened:] if opened >= 0 else ""
        unfinished = len(rest) <= TOKEN_CHARS and ">" not in rest and "]" not in rest
        state.token = rest if unfinished else ""

    def _characters(self, state: GarbleState, text: str) -> None:
        """Count what the new characters complete; a match known before ends within the carried codes."""
        counts = state.counts
        carried, raw = len(state.carry), readable(state.carry + text)
        codes = raw.translate(CODES)
        known = len(raw[:carried].translate(CODES))
        fresh = codes[known:]
        if PLAIN.issuperset(codes):
            return
        counts["replacement"] += fresh.count("F")
        counts["unassigned"] += fresh.count("x")
        counts["debris"] += sum(match.end(1) > carried for match in DEBRIS.finditer(raw))
        for match in GLUE.finditer(codes):
            if match.end() >= known:
                first = match[0]
                self._glue(state, first if first not in "ae" else codes[match.end()])
        for match in INSERT.finditer(codes):
            if match.end(1) >= known:
                self._glue(state, match[1][0])
        state.single += sum(match.end() + 1 >= known for match in SINGLE.finditer(codes))
        letters = FOREIGN.findall(fresh)
        state.foreign += len(letters)
        for code in set(letters):
            if code in state.letters or len(state.letters) < SCRIPTS_MAX:
                state.letters[code] = state.letters.get(code, 0) + letters.count(code)

    def _glue(self, state: GarbleState, code: str) -> None:
        if code not in state.glued and len(state.glued) >= SCRIPTS_MAX:
            return
        state.counts["glue"] += 1
        state.glued[code] = state.glued.get(code, 0) + 1

    # --- weighing ---

    def _weigh(self, state: GarbleState, look: Look, rule: str) -> Finding | None:
        """A rule's count is full: a finding, unless the prompt or the text around explains it."""
        if rule == "glue":
            kind, speaks = self._glued(state, look)
        elif rule == "replacement":
            kind, speaks = Kind.GARBLED, self._replaced(state, look)
        else:
            kind, speaks = Kind.RARE_CHAR, not self._in_prompt(state, rule)
            state.due[rule] *= 2
            if rule == "special":
                kind = _leak(state.leaked, state.counts[rule])
        said, _ = state.said
        if not speaks or (rule, kind) == state.said or (said and RULES.index(said) < RULES.index(rule)):
            return None
        state.said = rule, kind
        return Finding(self.name, self.channel, kind, self.acts_log10, look.tokens, UNKNOWN, rule)

    def _in_prompt(self, state: GarbleState, rule: str) -> bool:
        match rule:
            case "special":
                return SPECIAL.search(state.facts.prompt) is not None
            case "debris":
                return DEBRIS.search(state.facts.prompt) is not None
            case _:
                return "x" in self._prompt(state)

    def _replaced(self, state: GarbleState, look: Look) -> bool:
        last = look.text[-CARRY:]
        trailing = len(last) - len(last.rstrip("\ufffd"))
        if state.counts["replacement"] - trailing < state.due["replacement"]:
            return False
        state.due["replacement"] *= 2
        return "\ufffd" not in state.facts.prompt

    def _glued(self, state: GarbleState, look: Look) -> tuple[Kind, bool]:
        """The kind that the glue points to, and whether it is more than related scripts explain."""
        prompt = self._prompt(state)
        strange = {
            code: times
            for code, times in state.glued.items()
            if code not in prompt and (code in RARE_CODES or not self._belongs(state, look, code))
        }
        count = sum(strange.values())
        newest = look.tail[-ROWS_BYTES:].decode("utf-8", "ignore")
        if OPEN_ROW.search(newest) and not look.ended:
            return Kind.GARBLED, False
        state.due["glue"] = state.counts["glue"] + 1
        rare = sum(times for code, times in strange.items() if code in RARE_CODES)
        scripts = sum(map(is_other, strange))
        lone = rare + state.single >= self.singles_min and rare + 2 * state.single >= MOSTLY * count
        many = scripts >= self.many_scripts or 2 * rare > count or lone
        kind = Kind.RARE_CHAR if many else Kind.GARBLED
        enough = count >= self.glue_min or state.counts["glue"] >= self.glue_related_min
        return kind, enough and not has_table(newest)

    def _belongs(self, state: GarbleState, look: Look, code: str) -> bool:
        """Whether a script is one of the answer's own: a good part of it, or most of what is not Latin."""
        letters = state.letters.get(code, 0)
        mostly = letters >= self.related_letters and letters >= self.related_mostly * state.foreign
        return mostly or letters >= self.related_share * look.chars

    def _prompt(self, state: GarbleState) -> str:
        """The scripts of the prompt, as a string of codes; read once, when a rule is about to speak."""
        if state.prompt_codes is None:
            seen = state.facts.prompt[-PROMPT_CHARS:].translate(CODES)
            state.prompt_codes = "".join(sorted(set(seen)))
        return state.prompt_codes


def _leak(leaked: set[str], count: int) -> Kind:
    """What leaked control tokens mean: a loop of one, a thought that ends again and again, or debris."""
    if leaked == {"</think>"}:
        return Kind.GARBLED
    return Kind.REPETITION if len(leaked) == 1 and count >= LOOPED else Kind.RARE_CHAR


def readable(text: str) -> str:
    r"""Escapes such as `\n` and `%s` as blanks: their letters are none."""
    return ESCAPE.sub(_blanks, text) if "\\" in text or "%" in text else text


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])
