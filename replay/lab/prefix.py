"""The prefix cache: a tree of KV pages, each node one full page of prompt tokens, as in a radix cache.

    root -> [tokens 0..15] -> [tokens 16..31] -> ...        one child a distinct page of tokens

Two prompts that begin alike share the nodes, and so the pages, of their common beginning; one changed token
parts them from its page on. A node's KV lies in the device pool (`page`), in the host tier (`host`), or in
both. Device pages are taken back leaf first, least recently used first, and never while a request uses them
(`users`) or a load-back still writes them (`load`). So on every path device pages come before host-only ones.

A node remembers whether what it holds was computed from KV that was not ready (`taint`): whoever reads it
later is touched too, until the cache is flushed. Nothing here moves a byte; see `replay.lab.hicache`.

Cost: a look-up is one dictionary access a page; eviction walks the tree, a few hundred nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from replay.lab.kvpool import PageTable, Slot
from replay.lab.model import PAGE_TOKENS

PageTokens = tuple[int, ...]


class Load(Protocol):
    """A load-back under way."""

    @property
    def finished(self) -> bool:
        """Whether the last byte has been written."""


class Node:
    """One page of a prompt that somebody has computed."""

    __slots__ = ("children", "host", "key", "load", "page", "parent", "taint", "used_at", "users")

    def __init__(self, key: PageTokens, parent: "Node | None") -> None:
        """Start without KV anywhere."""
        self.key = key
        self.parent = parent
        self.children: dict[PageTokens, Node] = {}
        self.page: int | None = None
        self.host: int | None = None
        self.load: Load | None = None
        self.taint: str | None = None
        self.users = 0
        self.used_at = 0

    def __repr__(self) -> str:
        """Say where the KV lies."""
        return (
            f"<Node device {self.page} host {self.host}, {self.users} users, {len(self.children)} children>"
        )

    @property
    def is_device_leaf(self) -> bool:
        """Whether no node below it lies on the device."""
        return self.page is not None and all(child.page is None for child in self.children.values())

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads its page and nothing is being written into it."""
        return self.users == 0 and (self.load is None or self.load.finished)


class PrefixTree:
    """All cached pages of one pool, and which of them may go."""

    def __init__(self, table: PageTable) -> None:
        """Start empty; device pages come from and return to `table`."""
        self._table = table
        self._root = Node((), None)
        self._clock = 0
        self.evicted_tokens = 0

    def __repr__(self) -> str:
        """Count the nodes."""
        return f"<PrefixTree {sum(1 for _ in self.nodes())} nodes, {self.device_pages} on the device>"

    def nodes(self) -> Iterator[Node]:
        """Walk all nodes, parents first."""
        stack = list(self._root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    @property
    def device_pages(self) -> int:
        """Device pages that the tree holds."""
        return sum(node.page is not None for node in self.nodes())

    @property
    def evictable_pages(self) -> int:
        """Device pages that could be had now: those below which nobody is busy."""
        return sum(_evictable(child)[0] for child in self._root.children.values())

    def match(self, tokens: Sequence[int]) -> list[Node]:
        """Return the nodes of the longest cached beginning; the last token is never part of it."""
        self._clock += 1
        node, found = self._root, []
        for key in page_keys(tokens[:-1]):
            child = node.children.get(key)
            if child is None:
                break
            child.used_at = self._clock
            found.append(child)
            node = child
        return found

    def insert(self, tokens: Sequence[int], pages: Sequence[int], taint: str | None = None) -> list[Node]:
        """Give the tree the full pages of a computed prompt; return the nodes that took theirs from here.

        A page that the tree has already keeps its own copy; the caller's stays the caller's.
        """
        self._clock += 1
        node, taken = self._root, []
        for key, page in zip(page_keys(tokens), pages, strict=False):
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node(key, node)
            if child.page is None:
                child.page, child.taint = page, child.taint or taint
                taken.append(child)
            child.used_at = self._clock
            node = child
        return taken

    def reclaim(self, pages: int) -> int:
        """Take up to that many device pages back into the table; return how many went."""
        gone = 0
        while gone < pages:
            node = self._coldest(lambda node: node.is_device_leaf and node.is_idle)
            if node is None:
                break
            self.drop_device(node)
            gone += 1
        return gone

    def drop_device(self, node: Node) -> None:
        """Take one node's device page; without a copy on the host the node goes too."""
        if node.page is not None:
            self._table.free(Slot((node.page,)))
            self.evicted_tokens += PAGE_TOKENS
        node.page = node.load = None
        if node.host is None:
            self._forget(node)

    def coldest_host(self) -> Node | None:
        """Return the node whose host page should go first; one without a node below that needs it."""
        return self._coldest(lambda node: node.host is not None and not node.children and node.is_idle)

    def drop_host(self, node: Node) -> None:
        """Forget the host copy; without a device page the node goes too."""
        node.host = None
        if node.page is None:
            self._forget(node)

    def flush(self) -> None:
        """Forget every node; the caller has made sure that nobody is busy."""
        for node in self.nodes():
            if node.page is not None:
                self._table.free(Slot((node.page,)))
        self._root.children.clear()

    def _coldest(self, fits: Callable[[Node], bool]) -> Node | None:
        return min((node for node in self.nodes() if fits(node)), key=lambda node: node.used_at, default=None)

    def _forget(self, node: Node) -> None:
        if node.parent is not None:
            node.parent.children.pop(node.key, None)
        node.parent = None


def page_keys(tokens: Sequence[int]) -> Iterator[PageTokens]:
    """Split tokens into full pages; a partial page at the end has no key."""
    for at in range(0, len(tokens) - PAGE_TOKENS + 1, PAGE_TOKENS):
        yield tuple(tokens[at : at + PAGE_TOKENS])


def use(nodes: Iterable[Node], change: int) -> None:
    """Count one more user (1) or one less (-1) of each node."""
    for node in nodes:
        node.users += change


def _evictable(node: Node) -> tuple[int, bool]:
    """Return how many pages of this subtree leaf-first eviction could free, and whether one must stay."""
    below = [_evictable(child) for child in node.children.values()]
    stays = any(stuck for _, stuck in below) or (node.page is not None and not node.is_idle)
    return sum(count for count, _ in below) + (node.page is not None and not stays), stays
