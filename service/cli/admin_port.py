"""How commands ask the admin port of a running sidecar.

    with AdminPort(where) as port:
        for row in port.rows("/api/cases", {"kind": "garbled"}, most=50): ...

What cannot be had is told in one line that names the guilty side: address, token, id, or the sidecar.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from cyclopts import Parameter

from service.cli.exits import FOUND, Unfit

if TYPE_CHECKING:
    import httpx

PAGE_ROWS: Final = 200
TIMEOUT_S: Final = 15.0
"""A deletion waits up to 10 s for the sidecar's writer."""
REFUSED: Final = frozenset({401, 403})
NOT_THERE: Final = 404
AWAY: Final = 503

Count = Annotated[int, Parameter(help="At most so many, newest first.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """Which sidecar is asked."""

    admin: str = "http://127.0.0.1:8401"
    """URL of its admin port."""
    token: Annotated[str | None, Parameter(env_var="SPECGUARD_ADMIN_TOKEN", show_default=False)] = None
    """Its admin token, where it has one; better given in the environment."""

    def __repr__(self) -> str:
        return f"<Where {self.admin}>"


class AdminPort:
    """One sidecar's admin API."""

    def __init__(self, where: Where, *, page_rows: int = PAGE_ROWS) -> None:
        import httpx

        self._page_rows = page_rows
        headers = {"authorization": f"Bearer {where.token}"} if where.token else {}
        self._url = where.admin
        try:
            self._client = httpx.Client(
                base_url=where.admin, headers=headers, timeout=TIMEOUT_S, trust_env=False
            )
        except (httpx.InvalidURL, UnicodeEncodeError):
            raise Unfit(
                f"--admin: expected a URL such as http://127.0.0.1:8401, got {where.admin!r}"
            ) from None

    def __repr__(self) -> str:
        return f"<AdminPort {self._url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def rows(self, path: str, wanted: Mapping[str, str | None], *, most: int) -> Iterator[dict[str, Any]]:
        """The rows of a listing, page by page."""
        kind = path.rpartition("/")[2]
        asked = {key: value for key, value in wanted.items() if value}
        while most > 0:
            page = self._ask("GET", path, {**asked, "limit": str(min(most, self._page_rows))}).json()
            yield from page[kind]
            most -= len(page[kind])
            if page["next_before"] is None:
                return
            asked["before"] = page["next_before"]

    def one(self, path: str, **wanted: str) -> bytes:
        """One record, as the sidecar gives it."""
        return self._ask("GET", path, wanted).content

    def forget(self, path: str) -> None:
        """Delete one record."""
        self._ask("DELETE", path, {})

    def tell(self, path: str, value: Mapping[str, Any]) -> None:
        """Post something."""
        self._ask("POST", path, {}, value)

    def _ask(
        self, method: str, path: str, wanted: Mapping[str, str], value: Mapping[str, Any] | None = None
    ) -> "httpx.Response":
        import httpx

        try:
            answer = self._client.request(method, path, params=dict(wanted), json=value)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unfit(f"{self._url}: no admin port answers there ({type(error).__name__})", FOUND) from None
        if not answer.is_success:
            raise self._unfit(answer.status_code, path)
        return answer

    def _unfit(self, status: int, path: str) -> Unfit:
        if status in REFUSED:
            return Unfit(f"{self._url}: wants its admin token (--token or SPECGUARD_ADMIN_TOKEN)")
        if status == NOT_THERE:
            return Unfit(f"{self._url}: has no {path.removeprefix('/api/')}")
        if status == AWAY:
            return Unfit(f"{self._url}: the sidecar cannot use its store now", FOUND)
        return Unfit(f"{self._url}: answered {status} to {path}", FOUND)


def identifier(text: str) -> str:
    """An id that may stand in a path; raises `Unfit` for what can be none."""
    if not text.isalnum() or not text.isascii():
        raise Unfit(f"{text!r} is no id; `list` prints them")
    return text


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as they need to be; the last is left ragged."""
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )


def hint_lines(record: Mapping[str, Any], *, width: int) -> list[str]:
    """What may have caused it, the likeliest first, each with its next step."""
    lines = []
    for hint in record.get("hints") or ():
        lines.append(f"{hint['strength']:<{width}}{': '.join((hint['cause'], *hint['evidence'][:1]))}")
        lines += [f"{'':<{width}}{said}" for said in hint["evidence"][1:]]
        lines.append(f"{'':<{width}}next: {hint['next_step']}")
    return lines
