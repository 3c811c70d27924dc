"""Bodies: recorded ones made fit to be sent again, and ones made of lengths and blocks."""

from hypothesis import given
from hypothesis import strategies as st

from replay.plan import Recipe, Send
from replay.planning.bodies import WORDS, body_of, cleaned, prompt_of, seeded


def _send(recipe: Recipe, path: str = "/v1/chat/completions", name: str = "a") -> Send:
    return Send(id=name, arm="idle", block=0, at_s=0, path=path, recipe=recipe)


@given(tokens=st.integers(0, 5_000), size=st.sampled_from([16, 64, 512]))
def test_a_made_prompt_is_as_long_as_it_should_be(tokens: int, size: int) -> None:
    recipe = Recipe(prompt_tokens=tokens, block_tokens=size, blocks=(1, 2, 3))
    assert len(prompt_of(recipe, "a").split()) == tokens


def test_equal_blocks_are_equal_prefixes_and_another_salt_shares_nothing() -> None:
    one = prompt_of(Recipe(prompt_tokens=1_500, block_tokens=512, blocks=(7, 8, 9)), "a").split()
    other = prompt_of(Recipe(prompt_tokens=1_500, block_tokens=512, blocks=(7, 8, 5)), "b").split()
    salted = prompt_of(Recipe(prompt_tokens=1_500, block_tokens=512, blocks=(7, 8, 9), salt="s"), "a").split()
    assert one[:1024] == other[:1024]
    assert one[1024:1100] != other[1024:1100]
    assert one[:64] != salted[:64]


def test_without_blocks_no_two_prompts_begin_alike() -> None:
    recipe = Recipe(prompt_tokens=64)
    assert prompt_of(recipe, "a") != prompt_of(recipe, "b")


def test_the_words_are_sixty_four() -> None:
    assert len(set(WORDS)) == len(WORDS) == 64


def test_each_path_has_its_own_shape() -> None:
    recipe = Recipe(prompt_tokens=8, output_tokens=5, seed=3)
    chat = body_of(_send(recipe), "m")
    assert (chat["model"], chat["max_tokens"], chat["seed"], chat["stream"]) == ("m", 5, 3, True)
    assert len(chat["messages"][0]["content"].split()) == 8
    plain = body_of(_send(recipe, "/v1/completions"))
    assert "model" not in plain
    assert len(plain["prompt"].split()) == 8
    generate = body_of(_send(recipe, "/generate"))
    assert generate["sampling_params"] == {"temperature": 0, "max_new_tokens": 5, "sampling_seed": 3}


def test_what_must_not_be_sent_again_is_dropped_and_named() -> None:
    recorded = {
        "messages": [],
        "bootstrap_room": 7,
        "user": "somebody",
        "ignore_eos": True,
        "sampling_params": {"ignore_eos": True, "temperature": 0.5},
    }
    body, dropped = cleaned(recorded)
    assert body == {"messages": [], "sampling_params": {"temperature": 0.5}}
    assert dropped == {"bootstrap_room", "user", "ignore_eos"}
    assert recorded["ignore_eos"] is True


def test_a_recorded_body_goes_out_as_it_is() -> None:
    send = Send(id="a", arm="idle", block=0, at_s=0, body={"prompt": "p", "model": "old"})
    assert body_of(send) == {"prompt": "p", "model": "old"}
    assert body_of(send, "new")["model"] == "new"


def test_candidates_differ_in_their_seed_alone() -> None:
    assert seeded({"prompt": "p"}, 5, "/v1/completions") == {"prompt": "p", "seed": 5}
    body = seeded({"text": "t", "sampling_params": {"temperature": 1}}, 5, "/generate")
    assert body["sampling_params"] == {"temperature": 1, "sampling_seed": 5}
