from service.core.wholebody import WholeBody


def test_a_body_within_the_cap_comes_back_whole() -> None:
    body = WholeBody(10)
    assert body.add(b"abc")
    assert body.add(b"def")
    assert body.held == 6
    assert body.take() == b"abcdef"
    assert body.held == 0


def test_past_the_cap_it_says_so_and_keeps_nothing_once_given_up() -> None:
    body = WholeBody(4)
    assert body.add(b"abc")
    assert not body.add(b"def")
    assert body.give_up() == b"abcdef"
    assert not body.add(b"ghi")
    assert (body.take(), body.held) == (b"", 0)
    assert "abc" not in repr(body)
