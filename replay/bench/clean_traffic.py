"""Clean traffic that has much in common: what a cross-talk detector must not take for a leak.

A few applications with their system prompts and tools, used by all tenants; a repository of files a tenant,
and some files that everybody has; agent sessions of several turns that read files, answer, and read their own
answers again. Beside the turns run client retries (the same request at the same time, the same answer or one
that parts from it half way), parallel candidates, sub-agents (asked in the words of the parent's answer, and
read by its next turn), and twins: another session that asks the same of the same file. Answers quote the
prompt, change it, wrap it into the JSON of a tool call, or say something new; edited files go back into the
repository, where others read them. Words are drawn from a made-up language, rare and common ones as in a
real one, so nothing is alike by chance; what a model knows by heart is not in here.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from service.core.events import RequestFacts

TENANTS: Final = 20
APPLICATIONS: Final = 6
FILES: Final = 8
PUBLIC_FILES: Final = 6
VOCABULARY: Final = 4000
SENTENCE: Final = 11
TURNS: Final = (1, 5)
RETRY, CANDIDATES, SUB_AGENT, TWIN, COMMIT = 0.06, 0.04, 0.08, 0.05, 0.3
"""Shares: of turns with a retry, candidates or a sub-agent; of sessions with a twin; of answers committed."""


class Request(NamedTuple):
    """One request and the answer it gets."""

    tenant: str
    session: str
    facts: RequestFacts
    answer: str


class Application(NamedTuple):
    """What all its users send along."""

    system: str
    tools: str


class World:
    """All that sessions share, and the sessions."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(seed)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
        words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(VOCABULARY)]
        self._words = sorted(words, key=len)  # the commonest are the shortest
        self._odds = [1 / (rank + 10) for rank in range(VOCABULARY)]
        self._applications = [
            Application(self.prose(250), json.dumps([{"name": self._word(), "description": self.prose(60)}]))
            for _ in range(APPLICATIONS)
        ]
        self._public = [self._file() for _ in range(PUBLIC_FILES)]
        self._repositories = [[self._file() for _ in range(FILES)] for _ in range(TENANTS)]

    def __repr__(self) -> str:
        return f"<World {len(self._repositories)} tenants>"

    def prose(self, words: int) -> str:
        """Something new."""
        drawn = self._rng.choices(self._words, self._odds, k=words)
        return " ".join(word + "." * (place % SENTENCE == 0) for place, word in enumerate(drawn, 1))

    def sessions(self) -> Iterator[Iterator[list[Request]]]:
        """Sessions without end; each is turns, a turn is requests that run at the same time."""
        while True:
            tenant = self._rng.randrange(TENANTS)
            file, question = self._pick(tenant), self.prose(self._rng.randint(4, 40))
            yield self._session(tenant, file, question)
            if self._rng.random() < TWIN:
                yield self._session(tenant, file, question)

    # --- within ---

    def _word(self) -> str:
        return self._rng.choices(self._words, self._odds)[0]

    def _file(self) -> str:
        lines = [f"def {self._word()}_{self._word()}({self._word()}):" for _ in range(6)]
        return "\n".join(f"{line}\n    {self.prose(self._rng.randint(5, 30))}" for line in lines)

    def _pick(self, tenant: int) -> str:
        rng = self._rng
        return rng.choice(self._public if rng.random() < 0.2 else self._repositories[tenant])  # noqa: PLR2004

    def _session(self, tenant: int, file: str, question: str) -> Iterator[list[Request]]:
        rng, application = self._rng, self._rng.choice(self._applications)
        name = f"{tenant}-{rng.getrandbits(48):x}" if rng.random() < 0.5 else ""  # noqa: PLR2004
        history = [question, file]
        for _ in range(rng.randint(*TURNS)):
            request = self._request(tenant, name, application, history)
            group = [request, *self._beside(request)]
            if rng.random() < SUB_AGENT:
                task = self.prose(60)
                group[0] = request = request._replace(answer=f"{request.answer}\n{task}")
                yield group
                helper = rng.choice(self._applications)
                group = [self._request(tenant, "", helper, [task, self._pick(tenant)])]
                history += [request.answer, group[0].answer]
            else:
                history.append(request.answer)
            yield group
            if rng.random() < COMMIT:
                self._repositories[tenant][rng.randrange(FILES)] = history[-1]
            history.append(self._pick(tenant) if rng.random() < 0.4 else self.prose(12))  # noqa: PLR2004

    def _beside(self, request: Request) -> Iterator[Request]:
        """Retries and candidates: the same prompt, another try."""
        rng, copies = self._rng, 0
        if rng.random() < RETRY:
            copies = 1
        elif rng.random() < CANDIDATES:
            copies = 3
        for _ in range(copies):
            half, _, _ = request.answer[: len(request.answer) // 2].rpartition(
                " "
            )  # inside a word is a splice
            yield request if rng.random() < 0.5 else request._replace(answer=f"{half} {self.prose(40)}")  # noqa: PLR2004

    def _request(self, tenant: int, name: str, application: Application, history: list[str]) -> Request:
        prompt = "\n".join([application.system, *history, application.tools])
        facts = RequestFacts(
            dialect="openai_chat",
            stream=True,
            prompt=prompt,
            tools=True,
            preamble_chars=len(application.system) + 1,
            tools_chars=len(application.tools) + 1,
        )
        return Request(f"tenant-{tenant}", name, facts, self._answer(history))

    def _answer(self, history: list[str]) -> str:
        rng = self._rng
        source = rng.choice(history)
        begin = rng.randrange(max(len(source) - 400, 1))
        quote = source[begin : begin + rng.randint(80, 600)]
        match rng.randrange(4):
            case 0:
                return f"{self.prose(20)}:\n{quote}\n{self.prose(20)}"
            case 1:
                words = quote.split(" ")
                for place in range(0, len(words), 7):
                    words[place] = self._word()
                return " ".join(words)
            case 2:
                return json.dumps({"path": self._word(), "content": quote + "\n" + self.prose(10)})
            case _:
                return self.prose(rng.randint(20, 120))
