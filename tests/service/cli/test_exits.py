"""A command that cannot do what it was asked says so with the code it wants."""

from service.cli.exits import BAD_INPUT, FOUND, Unfit


def test_bad_input_is_the_usual_reason() -> None:
    assert Unfit("x").code == BAD_INPUT
    assert (Unfit("x", FOUND).code, str(Unfit("x"))) == (FOUND, "x")
