"""The prefix cache shares exactly the common beginning, gives up only what nobody uses, and loses no page."""

from hypothesis import given
from hypothesis import strategies as st

from replay.lab.kvpool import PageTable, Slot
from replay.lab.model import PAGE_TOKENS
from replay.lab.prefix import PrefixTree, page_keys, use

PAGES = 12


class Running:
    """A load-back that has not ended."""

    finished = False


def prompt(*words: int, tail: int = 3) -> tuple[int, ...]:
    """One full page for each word, then a partial one."""
    return tuple(word * 100 + at for word in words for at in range(PAGE_TOKENS)) + tuple(range(tail))


def filled(tree: PrefixTree, table: PageTable, tokens: tuple[int, ...]) -> tuple[int, ...]:
    """Compute a prompt as a worker does: reserve, insert, give back what the tree left."""
    slot = table.alloc(len(tokens))
    kept = {node.page for node in tree.insert(tokens, slot.pages)}
    table.free(Slot(tuple(page for page in slot.pages if page not in kept)))
    return slot.pages


def test_a_prompt_matches_what_it_shares_and_never_its_last_token() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    pages = filled(tree, table, prompt(1, 2, 3))
    assert [node.page for node in tree.match(prompt(1, 2, 9))] == list(pages[:2])
    assert [node.page for node in tree.match(prompt(1, 2, tail=0))] == list(pages[:1])
    assert tree.match(prompt(9, 1, 2)) == []


def test_one_changed_token_kills_the_hit_from_its_page_on() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    filled(tree, table, prompt(1, 2, 3))
    drifted = list(prompt(1, 2, 3))
    drifted[PAGE_TOKENS + 4] += 1
    assert len(tree.match(drifted)) == 1


def test_a_page_that_the_tree_has_stays_the_trees_own() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    first = filled(tree, table, prompt(1, 2))
    filled(tree, table, prompt(1, 3))
    assert tree.device_pages == 3
    assert table.free_pages == PAGES - 3
    assert tree.match(prompt(1, 3))[0].page == first[0]


def test_the_coldest_leaf_goes_first_and_a_used_one_stays() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    filled(tree, table, prompt(1, 2))
    filled(tree, table, prompt(3, 4))
    held = tree.match(prompt(1, 2))
    assert tree.reclaim(1) == 1
    assert [len(tree.match(prompt(*words))) for words in ((1, 2), (3, 4))] == [2, 1]
    use(held, 1)
    assert tree.evictable_pages == 1
    assert tree.reclaim(9) == 1
    use(held, -1)
    assert tree.reclaim(9) == 2
    assert table.free_pages == PAGES
    assert tree.evicted_tokens == 4 * PAGE_TOKENS


def test_a_page_into_which_a_load_back_writes_is_not_given_away() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    filled(tree, table, prompt(1, 2))
    (first, second) = tree.match(prompt(1, 2))
    second.load = Running()
    assert tree.reclaim(9) == 0
    first.load, second.load = Running(), None
    assert (tree.reclaim(9), first.page is None) == (1, False)


def test_a_copy_on_the_host_outlives_the_device_page() -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    filled(tree, table, prompt(1))
    (node,) = tree.match(prompt(1))
    node.host = 7
    tree.reclaim(1)
    assert tree.match(prompt(1)) == [node]
    assert (node.page, node.host) == (None, 7)
    assert tree.coldest_host() is node
    tree.drop_host(node)
    assert tree.match(prompt(1)) == []


def test_a_partial_page_has_no_key() -> None:
    assert list(page_keys(range(PAGE_TOKENS * 2 + 5))) == [tuple(range(16)), tuple(range(16, 32))]
    assert list(page_keys(range(PAGE_TOKENS - 1))) == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), st.lists(st.integers(1, 3), min_size=1, max_size=3)),
        st.tuples(st.just("evict"), st.integers(1, 4)),
    ),
    max_size=20,
)


@given(steps)
def test_no_page_is_lost_or_held_twice(actions: list[tuple[str, object]]) -> None:
    table = PageTable(PAGES)
    tree = PrefixTree(table)
    for action, what in actions:
        if action == "fill" and isinstance(what, list):
            tokens = prompt(*what)
            tree.reclaim(len(what) + 1 - table.free_pages)
            filled(tree, table, tokens)
        elif isinstance(what, int):
            tree.reclaim(what)
        held = [node.page for node in tree.nodes() if node.page is not None]
        assert len(held) == len(set(held)) == PAGES - table.free_pages
        assert tree.evictable_pages == len(held)
    tree.flush()
    assert table.free_pages == PAGES
